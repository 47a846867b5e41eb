"""The cache: built once, whole or not at all, never trusted when damaged, never beside the data."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path

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


@pytest.mark.parametrize("damage", [cut, lengthen, reshape, retype, empty, remove, unfinished, scrambled])
def test_what_is_damaged_is_built_again(tmp_path: Path, damage):
    build = Builder()
    Cache(tmp_path).open("key", build)
    damage(tmp_path / "key")
    arrays = Cache(tmp_path).open("key", build)
    assert build.calls == 2
    np.testing.assert_array_equal(arrays["values"], VALUES)


def test_a_failed_build_leaves_nothing_and_may_be_tried_again(tmp_path: Path):
    def fail(folder: Path) -> None:
        np.save(folder / "values.npy", VALUES)
        raise ValueError("bad line")

    with pytest.raises(ValueError, match="bad line"):
        Cache(tmp_path).open("key", fail)
    assert [file.name for file in tmp_path.iterdir()] == ["key.lock"]
    (tmp_path / "key.partial").mkdir()  # of a process that was killed
    (tmp_path / "key.partial" / "old.npy").write_bytes(b"half")
    assert set(Cache(tmp_path).open("key", Builder())) == {"values", "names"}


def build_slowly(folder: Path) -> None:
    with (folder.parent / "builds.log").open("a") as log:
        log.write(f"{os.getpid()}\n")
    time.sleep(0.5)
    np.save(folder / "values.npy", VALUES)


def open_and_sum(folder: Path) -> float:
    return float(Cache(folder).open("key", build_slowly)["values"].sum())


def test_two_processes_build_once(tmp_path: Path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        sums = pool.map(open_and_sum, [tmp_path] * 2, chunksize=1)
        pool.close()
        pool.join()
    assert sums == [VALUES.sum()] * 2
    assert len((tmp_path / "builds.log").read_text().splitlines()) == 1


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


def test_a_cache_that_cannot_be_written_says_what_to_type(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cache_dir must be a writable folder .* type cache_dir=FOLDER"):
        Cache(tmp_path / "file").open("key", Builder())


def test_rows_are_written_in_blocks(tmp_path: Path):
    write_rows(tmp_path / "x.npy", (4, 3), iter([VALUES[:1], VALUES[1:].astype(np.float64)]))
    loaded = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(loaded, VALUES)
    assert loaded.dtype == np.float32
