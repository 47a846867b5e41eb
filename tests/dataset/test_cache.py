"""The cache: an entry is built once, is complete or absent, and is not trusted when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from ol2r_cli.dataset import cache as cache_module
from ol2r_cli.dataset.cache import Cache, write_rows

VALUES = np.arange(12, dtype=np.float32).reshape(4, 3)


class Builder:
    """Writes VALUES and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        np.save(folder / "values.npy", VALUES)
        np.save(folder / "names.npy", np.array(["a", "bc"]))


def test_arrays_are_built_once_and_mapped(tmp_path: Path):
    build = Builder()
    first = Cache(tmp_path / "cache").open("key", build)
    second = Cache(tmp_path / "cache").open("key", build)
    assert build.calls == 1
    for arrays in (first, second):
        np.testing.assert_array_equal(arrays["values"], VALUES)
        assert arrays["names"].tolist() == ["a", "bc"]
        assert isinstance(arrays["values"], np.memmap)
    first["values"][0, 0] = 99
    assert second["values"][0, 0] == 0
    assert np.load(tmp_path / "cache" / "key" / "values.npy")[0, 0] == 0


def cut(folder: Path) -> None:
    file = folder / "values.npy"
    file.write_bytes(file.read_bytes()[:-4])


def lengthen(folder: Path) -> None:
    with (folder / "values.npy").open("ab") as file:
        file.write(b"more")


def reshape(folder: Path) -> None:
    np.save(folder / "values.npy", VALUES.reshape(3, 4))


def retype(folder: Path) -> None:
    np.save(folder / "values.npy", VALUES.astype(np.int32))


def empty(folder: Path) -> None:
    (folder / "values.npy").write_bytes(b"")


def remove(folder: Path) -> None:
    (folder / "names.npy").unlink()


def unfinished(folder: Path) -> None:
    (folder / "meta.json").unlink()


def scrambled(folder: Path) -> None:
    (folder / "meta.json").write_text('{"arrays": [1')


def zeroed(folder: Path) -> None:
    """As after a power cut on some file systems: the size is right."""
    content = (folder / "values.npy").read_bytes()
    (folder / "values.npy").write_bytes(content[:-8] + bytes(8))


def test_a_damaged_entry_is_built_again(tmp_path: Path):
    for damage in (cut, lengthen, reshape, retype, empty, remove, unfinished, scrambled, zeroed):
        build, cache = Builder(), Cache(tmp_path / damage.__name__)
        cache.open("key", build)
        damage(tmp_path / damage.__name__ / "key")
        arrays = cache.open("key", build)
        assert build.calls == 2, damage.__name__
        assert cache.rebuilt == ["key"]
        np.testing.assert_array_equal(arrays["values"], VALUES)


def test_the_content_of_large_arrays_is_verified_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache_module, "_SMALL", 10)
    build = Builder()
    Cache(tmp_path).open("key", build)
    zeroed(tmp_path / "key")
    Cache(tmp_path).open("key", build)
    assert build.calls == 1
    cache = Cache(tmp_path, thorough=True)
    np.testing.assert_array_equal(cache.open("key", build)["values"], VALUES)
    assert (build.calls, cache.rebuilt) == (2, ["key"])


def test_an_array_without_a_readable_header_is_built_again(tmp_path: Path):
    build = Builder()
    Cache(tmp_path).open("key", build)
    content = (tmp_path / "key" / "values.npy").read_bytes()
    for start in range(0, 100, 5):
        (tmp_path / "key" / "values.npy").write_bytes(content[:start] + bytes(60) + content[start + 60 :])
        assert set(Cache(tmp_path).open("key", build)) == {"values", "names"}
    assert build.calls == 21


def test_a_failed_build_leaves_nothing_and_may_be_tried_again(tmp_path: Path):
    def fail(folder: Path) -> None:
        np.save(folder / "values.npy", VALUES)
        raise ValueError("bad line")

    with pytest.raises(ValueError, match="bad line"):
        Cache(tmp_path).open("key", fail)
    assert not list(tmp_path.iterdir())
    (tmp_path / "key.0123.partial").mkdir()  # of a process that was killed
    (tmp_path / "key.0123.partial" / "old.npy").write_bytes(b"half")
    assert set(Cache(tmp_path).open("key", Builder())) == {"values", "names"}
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_openings_at_the_same_time_build_once(tmp_path: Path):
    """Each opening has its own file handle, and a lock belongs to a handle, so threads compete as processes do."""
    both, builds = Barrier(2, timeout=60), []

    def build(folder: Path) -> None:
        builds.append(folder)
        np.save(folder / "values.npy", VALUES)

    def open_and_sum(_: int) -> float:
        cache = Cache(tmp_path)
        both.wait()
        return float(cache.open("key", build)["values"].sum())

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(open_and_sum, range(2))) == [VALUES.sum()] * 2
    assert len(builds) == 1


def test_an_opening_waits_for_the_lock_of_another_process(tmp_path: Path):
    hold = """
import sys
from pathlib import Path
from ol2r_cli.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    input()
"""
    holder = [sys.executable, "-c", hold, str(tmp_path / "key.lock")]
    with (
        subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        assert process.stdout.readline() == "held\n"
        opening = pool.submit(Cache(tmp_path).open, "key", Builder())
        with pytest.raises(TimeoutError):
            opening.result(timeout=0.2)
        process.kill()
        assert set(opening.result(timeout=60)) == {"values", "names"}


def test_an_entry_may_lie_in_a_folder(tmp_path: Path):
    build = Builder()
    for _ in range(2):
        assert set(Cache(tmp_path / "cache").open("offline/key", build)) == {"values", "names"}
    assert build.calls == 1
    assert (tmp_path / "cache" / "offline" / "key" / "meta.json").is_file()


def test_checksums_are_remembered_until_size_or_time_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []
    digest = cache_module.hashlib.file_digest
    monkeypatch.setattr(cache_module.hashlib, "file_digest", lambda *args: calls.append(1) or digest(*args))
    file = tmp_path / "data.txt"
    file.write_bytes(b"abc")
    cache = Cache(tmp_path / "cache")
    # FIPS 180-2, appendix B.1
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert [cache.sha256(file), cache.sha256(file), len(calls)] == [known, known, 1]
    file.write_bytes(b"abd")
    os.utime(file, ns=(0, 12345))
    assert cache.sha256(file) != known
    assert len(calls) == 2
    entry = next((tmp_path / "cache" / "sources").iterdir())
    entry.write_text("{")
    assert cache.sha256(file) != known
    assert json.loads(entry.read_text())["mtime"] == 12345


def test_a_file_replaced_by_one_of_equal_size_and_time_is_noticed(tmp_path: Path):
    file, cache = tmp_path / "data.txt", Cache(tmp_path / "cache")
    file.write_bytes(b"a" * 20_000)
    before, times = cache.sha256(file), file.stat()
    file.write_bytes(b"a" * 19_999 + b"b")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert cache.sha256(file) != before
    other = tmp_path / "other.txt"  # differs where the sample does not look
    other.write_bytes(b"a" * 6_000 + b"c" + b"a" * 13_998 + b"b")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    present = cache.sha256(file)
    os.replace(other, file)
    assert cache.sha256(file) not in (before, present)


def test_a_cache_that_cannot_be_written_says_what_to_type(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cache_dir must be a writable folder .* type cache_dir=FOLDER"):
        Cache(tmp_path / "file").open("key", Builder())


def test_rows_are_written_in_blocks(tmp_path: Path):
    write_rows(tmp_path / "x.npy", (4, 3), iter([VALUES[:1], VALUES[1:].astype(np.float64)]))
    loaded = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(loaded, VALUES)
    assert loaded.dtype == np.float32


def test_a_kept_hash_with_a_changed_digit_is_computed_again(tmp_path: Path):
    file = tmp_path / "data.txt"
    file.write_text("1 qid:1 1:0.5\n")
    known = Cache(tmp_path / "cache").sha256(file)
    (entry,) = (tmp_path / "cache" / "sources").glob("*.json")
    content = json.loads(entry.read_text())
    for sha256 in ("0" * 64, content["sha256"].swapcase()):
        entry.write_text(json.dumps({**content, "sha256": sha256}))
        assert Cache(tmp_path / "cache").sha256(file) == known
    del content["check"]  # as version 0.1 wrote it
    entry.write_text(json.dumps({**content, "sha256": "0" * 64}))
    assert Cache(tmp_path / "cache").sha256(file) == known
