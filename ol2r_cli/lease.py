"""A lock between processes, also on different machines: a file that names its owner, and that the owner renews.

Locks of the operating system (flock) are not enough: some network file systems accept them without effect, and others
refuse them. A lease works without them. It takes them as well, because where they work they are exact.

1. The file is created exclusively (O_EXCL), which network file systems guarantee too: it has one owner.
2. It names the process that owns it. On the same machine, the lease is held as long as that process runs. It also names
   the number of the file, so that the copy of a directory is not held.
3. Its modification time is a heartbeat. The owner renews it every `BEAT` seconds; another machine may break a lease
   that was not renewed for `EXPIRES` seconds, or whose time lies as far in the future.
4. An owner that was suspended for longer finds that the file names another owner: it asks `is_ours` before it writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ol2r_cli.foreign_file import open_file

BEAT, EXPIRES = 10.0, 60.0  # seconds
_UNWRITTEN = 5.0  # seconds after which a file that names no process belongs to none: it was killed before it wrote
_POLL, _PAUSE = 0.05, 1.0  # seconds between two looks at a lease, and at one of another machine
_LOOKS = 3  # at a file that names another owner: it may be about to be released, or to be put back
_held: set[str] = set()  # tokens of the leases that this process holds


class LeaseHeld(Exception):
    """Another process, or another `Lease` of this one, holds the lease. The message names the process."""


class Lease:
    """The lease that is kept in `file`. `acquire` and `release` it, or use `leased`."""

    def __init__(self, file: Path):
        self.file = file
        self._token = uuid.uuid4().hex
        self._content = b""
        self._descriptor = -1
        self._released = threading.Event()

    def acquire(self, wait: bool = False, waiting: Callable[[str], object] = lambda _: None) -> None:
        """Take the lease. Creates the file, and the folder that contains it.

        While another process holds the lease, this raises LeaseHeld or, with `wait`, waits. If that process was on
        another machine, this takes at most `EXPIRES` seconds, until it gives a sign of life or none in time. `waiting`
        is then called with its description.
        """
        unknown: _Owner | None = None  # as it was when only its heartbeat could tell whether it runs
        looks = 0
        while not self._create():
            owner = _owner(self.file)
            if owner is None:
                continue  # it was released just now
            runs = owner.runs()
            if runs is None and unknown is None and owner.process:
                waiting(str(owner))
            if runs is None:
                unknown = unknown or owner
                if owner != unknown:  # it was renewed, or has another owner now
                    runs = True
                elif abs(self._age(owner)) > owner.patience:
                    runs = False
            looks += runs is True
            if runs is False:
                self._break(owner)
            elif looks == _LOOKS and not wait:
                raise LeaseHeld(str(owner))
            else:
                time.sleep(_PAUSE if runs is None and owner.process else _POLL)

    def is_ours(self) -> bool:
        """Whether the file still names this owner.

        A process that breaks a lease at the same moment as another one may have moved the new file, and puts it back.
        """
        for look in range(_LOOKS):
            if look:
                time.sleep(_POLL)
            with suppress(FileNotFoundError, NotADirectoryError):
                if self.file.read_bytes() == self._content:
                    return True
        return False

    def release(self) -> None:
        """Give the lease back: removes the file, unless it has another owner meanwhile."""
        with suppress(OSError):
            if self.is_ours():
                self.file.unlink()
        _held.discard(self._token)
        self._released.set()
        self._heart.join()
        os.close(self._descriptor)

    def _create(self) -> bool:
        """Create the file; whether it did not exist."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except (FileExistsError, FileNotFoundError):  # or the last owner has just removed the folder
            return False
        owner: dict[str, Any] = {"pid": os.getpid(), "started": _started(os.getpid()), "host": platform.node()}
        owner |= {"machine": _machine(), "token": self._token, "inode": os.fstat(self._descriptor).st_ino}
        self._content = json.dumps(owner).encode()
        _held.add(self._token)
        try:
            os.write(self._descriptor, self._content)
        except OSError:  # the disk is full
            _held.discard(self._token)
            os.close(self._descriptor)
            self.file.unlink(missing_ok=True)
            raise
        for _ in range(_LOOKS):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # a process that looks at the file locks it for microseconds
                time.sleep(_POLL)
            except OSError:  # a file system without locks
                break
        self._heart = threading.Thread(target=self._beat, daemon=True, name="lease")
        self._heart.start()
        return True

    def _beat(self) -> None:
        """Renew the file that was created, by its descriptor: its name may belong to another owner meanwhile."""
        while not self._released.wait(BEAT):
            with suppress(OSError):
                os.utime(self._descriptor)

    def _age(self, owner: _Owner) -> float:
        """Seconds since the last renewal, by the clock of the file system, which may differ from that of a machine."""
        try:
            with tempfile.NamedTemporaryFile(dir=self.file.parent, prefix=".lock.", suffix=".partial") as probe:
                return os.fstat(probe.fileno()).st_mtime - owner.renewed
        except FileNotFoundError:  # the folder was removed together with the lease
            return 0.0

    def _break(self, owner: _Owner) -> None:
        """Remove the file of an owner that has ended.

        Where flock works, one process at a time does this. Elsewhere the file may have a new owner when it is moved; it
        is put back then.
        """
        aside = self.file.with_name(f".{self.file.name.lstrip('.')}.{self._token}.partial")
        with suppress(FileNotFoundError), open(self.file, "rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process breaks it, or looks at it
                return
            except OSError:  # a file system without locks
                pass
            if self.file.read_bytes() != owner.content:
                return
            os.rename(self.file, aside)
            if aside.read_bytes() != owner.content:
                with suppress(OSError):
                    os.link(aside, self.file)
            aside.unlink()


@contextmanager
def leased(file: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lease in `file` during the block. Without `wait`, LeaseHeld where another process holds it."""
    lease = Lease(file)
    lease.acquire(wait)
    try:
        yield
    finally:
        lease.release()


def is_held(file: Path) -> bool:
    """Whether a process, this one included, holds the lease in `file`. Changes nothing.

    The age of a lease on another machine is measured by the clock of this one.
    """
    try:
        owner = _owner(file)
    except OSError:
        return False
    if owner is None:
        return False
    runs = owner.runs()
    return abs(time.time() - owner.renewed) <= owner.patience if runs is None else runs


def is_lease(content: bytes) -> bool:
    """Whether a file with this content was written by a `Lease`, or as the lock of a run by an earlier version."""
    is_earlier = content.startswith(b"pid ") and b" on " in content
    return not content or is_earlier or "token" in _Owner(content, 0.0, False).process


@dataclass(frozen=True)
class _Owner:
    """What a lease says of its owner. renewed: in seconds, by the file system's clock. locked: whether flock holds.
    inode: of the file, 0 where it is not known."""

    content: bytes
    renewed: float
    locked: bool
    inode: int = 0

    def __str__(self) -> str:
        return "pid {pid} on {host}".format(**self.process) if self.process else self.content.decode(errors="replace")

    @cached_property
    def process(self) -> dict[str, Any]:
        """pid, started, host, machine and token; empty while the file is incomplete."""
        with suppress(ValueError):
            content = json.loads(self.content)
            if isinstance(content, dict) and {"pid", "started", "host", "machine", "token"} <= content.keys():
                return content if isinstance(content["pid"], int) and 0 < content["pid"] < 2**31 else {}
        return {}

    @property
    def patience(self) -> float:
        """Seconds without a renewal after which the owner is believed to have ended."""
        return EXPIRES if self.process else _UNWRITTEN

    def runs(self) -> bool | None:
        """Whether the process runs; None where only its heartbeat can tell: on another machine."""
        if self.locked:
            return True
        if not self.process or self.process["machine"] != _machine():
            return None
        if self.process.get("inode", self.inode) != self.inode:  # a copy
            return False
        if self.process["pid"] == os.getpid():  # a file that could not be removed remains after its release
            return self.process["token"] in _held
        return _runs(self.process["pid"], self.process["started"])


def _owner(file: Path) -> _Owner | None:
    """The owner of a lease; None without a file."""
    try:
        with open_file(file) as stream:
            locked = False
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                locked = True
            except OSError:  # a file system without locks
                pass
            status = os.fstat(stream.fileno())
            return _Owner(stream.read(2**16), status.st_mtime, locked, status.st_ino)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _machine() -> str:
    """What tells where process numbers mean the same: the start of the system, and the container.

    The name of a machine is used only where neither is known, since it may change while a process runs.
    """
    boot = namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{boot} {namespace}" if boot else f"{platform.node()} {namespace}"


def _runs(pid: int, started: str) -> bool:
    """Whether a process of this machine runs, and is not a later one with the same number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        pass
    return _started(pid) in (started, "")


def _started(pid: int) -> str:
    """When a process was started, in ticks; `ended` for one that has ended already, empty where it cannot be found."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "ended" if state in "ZX" else fields[18]
