"""The cache: an entry is built once, is complete or absent, and is not trusted when damaged."""

from __future__ import annotations

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli.dataset import cache as cache_module
from ol2r_cli.dataset.cache import Cache
from ol2r_cli.dataset.table import loaded
from ol2r_cli.files import Lock
from ol2r_cli.tensor.memory import NotEnoughMemory

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
    first, second = (Cache(tmp_path / "cache").open("key", build) for _ in range(2))
    assert build.calls == 1
    for arrays in (first, second):
        np.testing.assert_array_equal(arrays["values"], VALUES)
        assert arrays["names"].tolist() == ["a", "bc"]
        assert isinstance(arrays["values"], np.memmap)
    first["values"][0, 0] = 99
    assert second["values"][0, 0] == 0
    assert np.load(tmp_path / "cache" / "key" / "values.npy")[0, 0] == 0


def test_a_damaged_entry_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    values, names, meta = (tmp_path / "key" / name for name in ("values.npy", "names.npy", "meta.json"))
    build, damages = Builder(), 0
    Cache(tmp_path).open("key", build)
    content = values.read_bytes()
    headers = [content[:start] + bytes(60) + content[start + 60 :] for start in range(0, 100, 25)]

    def opened(cache: Cache) -> None:
        np.testing.assert_array_equal(cache.open("key", build)["values"], VALUES)
        assert (build.calls, cache.rebuilt) == (1 + damages, ["key"])

    for damaged in (content[:-4], content + b"more", content[:-8] + bytes(8), b"", *headers):
        values.write_bytes(damaged)
        damages += 1
        opened(Cache(tmp_path))
    for damage in names.unlink, meta.unlink, lambda: meta.write_text('{"arrays": [1'):
        damage()
        damages += 1
        opened(Cache(tmp_path))
    monkeypatch.setattr(cache_module, "_SMALL", 10)  # the content of larger arrays is verified on request
    values.write_bytes(content[:-8] + bytes(8))
    assert Cache(tmp_path).open("key", build)["values"][-1, -1] == 0
    damages += 1
    opened(Cache(tmp_path, thorough=True))


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
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cache_dir must be a writable folder .* type cache_dir=FOLDER"):
        Cache(tmp_path / "file").open("key", Builder())


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")])
@pytest.mark.parametrize("where", ["build", "map"])
def test_a_lack_of_memory_is_not_that_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error, where):
    """Of arrays that are built, or mapped."""

    def fail(*_: object, **__: object) -> None:
        raise error

    if where == "map":
        monkeypatch.setattr(cache_module.np, "load", fail)
    with pytest.raises(MemoryError):
        Cache(tmp_path).open("key", Builder() if where == "map" else fail)
    with pytest.raises(NotEnoughMemory, match=r"the data need more memory than there is \(1.2 GiB\): give this"):
        loaded(Lacking())


class Lacking:
    """Data that do not fit."""

    def load(self):
        raise MemoryError("1.2 GiB")


def test_an_opening_waits_for_the_lock_of_another(tmp_path: Path):
    with ThreadPoolExecutor(1) as pool:
        with Lock(tmp_path / "key.lock"):
            opening = pool.submit(Cache(tmp_path).open, "key", Builder())
            with pytest.raises(TimeoutError):
                opening.result(timeout=0.2)
        assert set(opening.result(timeout=60)) == {"values", "names"}


def test_a_kept_hash_is_used_until_size_or_times_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []
    digest = cache_module.hashlib.file_digest
    monkeypatch.setattr(cache_module.hashlib, "file_digest", lambda *args: calls.append(1) or digest(*args))
    file, other, cache = tmp_path / "data.txt", tmp_path / "other.txt", Cache(tmp_path / "cache")
    file.write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert [cache.sha256(file), cache.sha256(file), len(calls)] == [known, known, 2], "it has only just changed"
    monkeypatch.setattr(cache_module, "_SETTLED", 0)
    assert [cache.sha256(file), cache.sha256(file), len(calls)] == [known, known, 3]
    file.write_bytes(b"abd")
    os.utime(file, ns=(0, 12345))
    assert [cache.sha256(file) != known, len(calls)] == [True, 4]
    other.write_bytes(b"abc")
    os.utime(other, ns=(0, 12345))
    os.replace(other, file)
    assert [cache.sha256(file), len(calls)] == [known, 5], "another file of equal size and time"
    (entry,) = (tmp_path / "cache" / "sources").iterdir()
    content = json.loads(entry.read_text())
    for damaged in ("{", "[]", json.dumps({**content, "sha256": "0" * 64}), json.dumps({"sha256": known})):
        entry.write_text(damaged)
        assert cache.sha256(file) == known
    assert len(calls) == 9


def test_a_folder_whose_name_has_a_dollar_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", "elsewhere")
    assert cache_module.expand("a$PLACE/b") == Path("aelsewhere/b")
    Path("a$PLACE", "b").mkdir(parents=True)
    assert cache_module.expand("a$PLACE/b") == Path("a$PLACE/b")
    assert cache_module.expand("~/none") == Path.home() / "none"
