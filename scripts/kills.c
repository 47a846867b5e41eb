/* Counts the file operations of a process below a folder, and kills the process at one of them; see campaign.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/fcntl.h> /* not <fcntl.h>, whose open() takes any number of arguments */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { COUNT, BEFORE, DURING, AFTER };
static char folder[4096];
static int how, listing = -1;
static long chosen, done;

/* From now on, at the `number`-th operation below `path`, counted from 1; the names of all go to the file `list`. */
void ol2r_kill(const char *path, long number, int kind, int list) {
    snprintf(folder, sizeof folder, "%s", path);
    chosen = number, how = kind, listing = list, done = 0;
}

static int below(const char *path) { return folder[0] && !strncmp(path, folder, strlen(folder)); }

static int fd_below(int fd) {
    char link[64], path[4096] = "";
    if (fd < 3 || fd == listing) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && below(path);
}

static int meets(const char *name, const char *path) {
    if (listing >= 0) dprintf(listing, "%s %s\n", name, path);
    return ++done == chosen && how != COUNT;
}

#define WRAP(type, name, parameters, arguments, counts, path, partial)                      \
    type name parameters {                                                                  \
        static type(*real) parameters;                                                      \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                          \
        if (!(counts) || !meets(#name, path)) return real arguments;                        \
        if (how == DURING) { (void)!real partial; }                                         \
        if (how == AFTER) { (void)!real arguments; }                                        \
        kill(getpid(), SIGKILL);                                                            \
        for (;;) pause();                                                                   \
    }
#define SIMPLE(name, parameters, arguments, counts, path) WRAP(int, name, parameters, arguments, counts, path, arguments)
#define MAKES ((flags & (O_CREAT | O_TRUNC)) && below(path))
SIMPLE(open, (const char *path, int flags, mode_t mode), (path, flags, mode), MAKES, path)
SIMPLE(open64, (const char *path, int flags, mode_t mode), (path, flags, mode), MAKES, path)
SIMPLE(openat, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode), MAKES, path)
SIMPLE(openat64, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode), MAKES, path)
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd_below(fd), "", (fd, data, size / 2))
SIMPLE(fsync, (int fd), (fd), fd_below(fd), "")
SIMPLE(fdatasync, (int fd), (fd), fd_below(fd), "")
SIMPLE(unlink, (const char *path), (path), below(path), path)
SIMPLE(rmdir, (const char *path), (path), below(path), path)
SIMPLE(unlinkat, (int at, const char *path, int flags), (at, path, flags), fd_below(at), path)
SIMPLE(mkdir, (const char *path, mode_t mode), (path, mode), below(path), path)
SIMPLE(rename, (const char *from, const char *to), (from, to), below(to), to)
SIMPLE(link, (const char *from, const char *to), (from, to), below(to), to)
