"""Leases: at most one owner, also where the locks of the operating system have no effect, and between machines."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from ol2r_cli import lease
from ol2r_cli.lease import Lease, LeaseHeld, is_held, is_lease, leased

ROOT = Path(__file__).parents[1]

# Holds a lease until it is told to end. Without `flock` its locks have no effect.
HOLDER = """
import fcntl, sys
from pathlib import Path
from ol2r_cli.lease import Lease
if "without-flock" in sys.argv:
    fcntl.flock = lambda *_: None
Lease(Path(sys.argv[1])).acquire()
print("held", flush=True)
input()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run" / ".lock"


@pytest.fixture(params=["with flock", "without effect", "refused"])
def flock(request, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the file system does with locks."""

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    if request.param != "with flock":
        monkeypatch.setattr(fcntl, "flock", refuse if request.param == "refused" else lambda *_: None)
    return request.param


def write_owner(file: Path, age: float = 0.0, **changes: object) -> None:
    """A lease of a process of this machine that has ended, last renewed `age` seconds ago."""
    owner = {"pid": 4194304, "started": "1", "host": "node7", "machine": lease._machine(), "token": "t"}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(owner | changes))
    os.utime(file, (time.time() - age,) * 2)


@pytest.fixture
def holder(file: Path, flock: str):
    """Another process that holds the lease."""
    arguments = [] if flock == "with flock" else ["without-flock"]
    command = [sys.executable, "-c", HOLDER, str(file), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_and_told_who_holds_it(file, holder):
    assert is_held(file)
    with pytest.raises(LeaseHeld, match=rf"^pid {holder.pid} on "):
        Lease(file).acquire()
    assert is_held(file)
    assert file.exists()


def test_the_lease_of_a_killed_process_is_free_at_once(file, holder):
    holder.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while is_held(file):  # it is a zombie, which nobody has waited for
        assert time.monotonic() < deadline
    start = time.monotonic()
    with leased(file, wait=False):
        assert time.monotonic() - start < lease._UNWRITTEN
        assert json.loads(file.read_text())["pid"] == os.getpid()
    holder.wait()


def test_one_process_cannot_take_it_twice(file, flock):
    with leased(file), pytest.raises(LeaseHeld, match=f"pid {os.getpid()}"):
        Lease(file).acquire()
    assert not file.exists()
    assert not is_held(file)


def test_a_later_process_with_the_same_number_is_not_the_owner(file, flock):
    write_owner(file, pid=os.getpid(), started="1")
    assert not is_held(file)
    with leased(file, wait=False):
        pass


def test_processes_that_break_a_lease_together_own_it_one_by_one(file, flock):
    """Without locks two may break it at the same moment; the one that loses the new lease then notices."""
    write_owner(file)
    together, owned, lost = threading.Barrier(8), [], []

    def take(_: int) -> None:
        together.wait()
        for _ in range(20):
            mine = Lease(file)
            mine.acquire(wait=True)
            start = time.perf_counter()
            time.sleep(0.001)
            end = time.perf_counter()
            (owned if mine.is_ours() else lost).append((start, end))
            mine.release()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, range(8)))
    owned.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(owned))
    assert len(owned) + len(lost) == 160
    assert not lost or flock != "with flock"
    assert not list(file.parent.iterdir())


def test_a_process_that_breaks_a_lease_keeps_others_from_it(file, flock):
    """Otherwise the second would move the file of the process that takes the lease next."""
    write_owner(file)
    ended = lease._owner(file)
    with open(file) as first:
        with suppress(OSError):
            fcntl.flock(first, fcntl.LOCK_EX)
        Lease(file)._break(ended)
        assert file.exists() == (flock == "with flock")
    Lease(file)._break(ended)
    assert not file.exists()


@pytest.mark.parametrize("age", [0.0, 3600.0])
def test_a_lease_of_another_machine_is_broken_when_it_was_not_renewed(file, flock, monkeypatch, age):
    monkeypatch.setattr(lease, "EXPIRES", 2.0)
    monkeypatch.setattr(lease, "_PAUSE", 0.1)
    write_owner(file, age, machine="another", pid=os.getpid())
    assert is_held(file) == (age == 0)
    announced: list[str] = []
    start = time.monotonic()
    Lease(file).acquire(waiting=announced.append)
    assert announced == [f"pid {os.getpid()} on node7"]
    assert (time.monotonic() - start > 1.5) == (age == 0)


def test_a_lease_of_another_machine_that_is_renewed_is_held(file, flock, monkeypatch):
    monkeypatch.setattr(lease, "_PAUSE", 0.1)
    write_owner(file, 30, machine="another")
    timer = threading.Timer(0.5, os.utime, [file])
    timer.start()
    with pytest.raises(LeaseHeld, match="on node7"):
        Lease(file).acquire()
    timer.join()


def test_the_clock_of_this_machine_does_not_matter(file, monkeypatch):
    """The file system says that the lease was renewed an hour ago, and this machine believes that it is yesterday."""
    write_owner(file, 3600, machine="another")
    with patch("time.time", lambda: 0.0), leased(file, wait=False):
        pass


def test_the_owner_renews_it(file, monkeypatch):
    monkeypatch.setattr(lease, "BEAT", 0.02)
    with leased(file):
        os.utime(file, (0, 0))
        deadline = time.monotonic() + 30
        while file.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_an_owner_that_lost_it_notices_and_does_not_release_that_of_another(file, flock):
    first, second = Lease(file), Lease(file)
    first.acquire()
    file.unlink()
    assert not first.is_ours()
    second.acquire()
    assert not first.is_ours()
    first.release()
    assert second.is_ours()
    second.release()


def test_a_new_lease_that_was_moved_by_mistake_is_put_back(file, flock):
    """What a process sees that breaks an old lease a moment after another one has done it."""
    mine, other = Lease(file), Lease(file)
    mine.acquire()
    old = lease._Owner(b"of a killed process", 0.0, False)
    reads = iter([old.content])
    read = Path.read_bytes
    with patch.object(Path, "read_bytes", lambda path: next(reads, None) or read(path)):
        other._break(old)
    assert mine.is_ours()
    assert list(file.parent.iterdir()) == [file]
    mine.release()


def test_a_file_that_names_no_process_is_waited_for(file, flock, monkeypatch):
    monkeypatch.setattr(lease, "_UNWRITTEN", 0.5)
    file.parent.mkdir()
    file.touch()
    assert is_held(file), "it may be about to be written"
    start = time.monotonic()
    with leased(file, wait=False):
        assert time.monotonic() - start > 0.4


def test_a_full_disk_leaves_no_file(file, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        Lease(file).acquire()
    assert not file.exists()


def test_a_file_that_could_not_be_removed_does_not_block_its_own_process(file, flock):
    def broken(_: object) -> None:
        raise OSError(5, "Input/output error")

    with patch.object(Path, "unlink", broken), leased(file):
        pass
    assert file.exists()
    assert not is_held(file)
    with leased(file, wait=False):
        assert is_held(file)


def test_what_is_a_lease(file):
    with leased(file):
        assert is_lease(file.read_bytes())
    assert is_lease(b"")
    assert is_lease(b"pid 12 on node7"), "of version 0.1"
    for content in b"of another program", b"[]", b'{"pid": 3}', b"\xff", b"pid of another program":
        assert not is_lease(content)


def test_a_damaged_owner_is_no_owner(file):
    for pid in -1, 0, 2**80, "12", None:
        write_owner(file, age=3600, pid=pid)
        assert not is_held(file)
        with leased(file, wait=False):
            pass
