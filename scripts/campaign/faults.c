/* Counts the file operations of a process below a folder, and disturbs one of them. Loaded with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT, KILL_BEFORE, KILL_DURING, KILL_AFTER, FAIL_ONCE, FAIL_FROM_THEN_ON };

static char folder[4096];
static int mode, error, listing = -1;
static long chosen, done;

/* What the next operations below `path` meet: from the `number`-th on, counted from 1. A list of them goes to `list`. */
void ol2r_disturb(const char *path, long number, int how, int with, int list) {
    snprintf(folder, sizeof folder, "%s", path);
    chosen = number, mode = how, error = with, listing = list, done = 0;
}

long ol2r_operations(void) { return done; }

static int below(const char *path) { return folder[0] && path && !strncmp(path, folder, strlen(folder)); }

static int fd_below(int fd) {
    char link[64], path[4096];
    if (!folder[0] || fd < 3 || fd == listing) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this operation is the chosen one. A full disk (ENOSPC) stops only what needs space. */
static int meets(const char *name, const char *path, int needs_space) {
    done++;
    if (listing >= 0) dprintf(listing, "%s %s\n", name, path);
    if (mode == FAIL_FROM_THEN_ON) return done >= chosen && (error != ENOSPC || needs_space);
    return mode != COUNT && done == chosen && (mode != FAIL_ONCE || error != ENOSPC || needs_space);
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)
#define DISTURBED(call)                                                    \
    do {                                                                   \
        if (mode >= FAIL_ONCE) { errno = error; return -1; }               \
        if (mode != KILL_BEFORE) (void)!(call);                            \
        kill(getpid(), SIGKILL);                                           \
        for (;;) pause();                                                  \
    } while (0)

#define OPEN(name)                                                         \
    int name(const char *path, int flags, ...) {                           \
        va_list more; va_start(more, flags);                               \
        mode_t permissions = va_arg(more, mode_t); va_end(more);           \
        REAL(int, name, const char *, int, ...);                           \
        if ((flags & (O_CREAT | O_TRUNC)) && below(path) && meets("open", path, flags & O_CREAT)) \
            DISTURBED(real(path, flags, permissions));                     \
        return real(path, flags, permissions);                             \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                       \
    int name(int at, const char *path, int flags, ...) {                   \
        va_list more; va_start(more, flags);                               \
        mode_t permissions = va_arg(more, mode_t); va_end(more);           \
        REAL(int, name, int, const char *, int, ...);                      \
        if ((flags & (O_CREAT | O_TRUNC)) && below(path) && meets("open", path, flags & O_CREAT)) \
            DISTURBED(real(at, path, flags, permissions));                 \
        return real(at, path, flags, permissions);                         \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    if (fd_below(fd) && meets("write", "", 1)) DISTURBED(real(fd, data, mode == KILL_DURING ? size / 2 : size));
    return real(fd, data, size);
}

#define ON_FD(name)                                                        \
    int name(int fd) {                                                     \
        REAL(int, name, int);                                              \
        if (fd_below(fd) && meets(#name, "", 0)) DISTURBED(real(fd));      \
        return real(fd);                                                   \
    }
ON_FD(fsync)
ON_FD(fdatasync)

#define ON_PATH(name)                                                      \
    int name(const char *path) {                                           \
        REAL(int, name, const char *);                                     \
        if (below(path) && meets(#name, path, 0)) DISTURBED(real(path));   \
        return real(path);                                                 \
    }
ON_PATH(unlink)
ON_PATH(rmdir)

#define ON_TWO_PATHS(name, space)                                          \
    int name(const char *from, const char *to) {                           \
        REAL(int, name, const char *, const char *);                       \
        if (below(to) && meets(#name, to, space)) DISTURBED(real(from, to)); \
        return real(from, to);                                             \
    }
ON_TWO_PATHS(rename, 0)
ON_TWO_PATHS(link, 1)

int mkdir(const char *path, mode_t permissions) {
    REAL(int, mkdir, const char *, mode_t);
    if (below(path) && meets("mkdir", path, 1)) DISTURBED(real(path, permissions));
    return real(path, permissions);
}

int unlinkat(int at, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    if (fd_below(at) && meets("unlinkat", path, 0)) DISTURBED(real(at, path, flags));
    return real(at, path, flags);
}
