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


def test_arrays_are_built_once_and_mapped(tmp_path):
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


def is_rebuilt(folder: Path, **settings: bool) -> bool:
    """Whether the entry is built again when it is opened; then it has VALUES."""
    cache, build = Cache(folder, **settings), Builder()
    values = cache.open("key", build)["values"]
    assert cache.rebuilt == ["key"] * build.calls
    return build.calls == 1 and bool((values == VALUES).all())


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param("values.npy", lambda content: content[:-4], id="shorter"),
        pytest.param("values.npy", lambda content: content + b"more", id="longer"),
        pytest.param("values.npy", lambda content: content[:-8] + bytes(8), id="another value"),
        pytest.param("values.npy", lambda content: b"", id="empty"),
        pytest.param("names.npy", None, id="no array"),
        pytest.param("meta.json", None, id="no list of arrays"),
        pytest.param("meta.json", lambda content: content[:12], id="half a list of arrays"),
    ],
)
def test_a_damaged_entry_is_built_again(tmp_path, name, damage):
    Cache(tmp_path).open("key", Builder())
    file = tmp_path / "key" / name
    content = file.read_bytes()
    file.unlink()
    if damage:
        file.write_bytes(damage(content))
    assert is_rebuilt(tmp_path)


def test_the_content_of_large_arrays_is_verified_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "_SMALL", 10)
    Cache(tmp_path).open("key", Builder())
    file = tmp_path / "key" / "values.npy"
    content = file.read_bytes()
    file.write_bytes(content[:-8] + bytes(8))
    assert not is_rebuilt(tmp_path)
    assert is_rebuilt(tmp_path, thorough=True)
    file.write_bytes(bytes(60) + content[60:])
    assert is_rebuilt(tmp_path), "without a header there is no array"


def test_a_failed_build_leaves_nothing_and_may_be_tried_again(tmp_path):
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
def test_a_lack_of_memory_is_not_that_of_the_cache(tmp_path, monkeypatch, error, where):
    def fail(*_, **__):
        raise error

    if where == "map":
        monkeypatch.setattr(cache_module.np, "load", fail)
    with pytest.raises(MemoryError):
        Cache(tmp_path).open("key", Builder() if where == "map" else fail)


def test_data_that_do_not_fit_say_what_to_do():
    class Lacking:
        def load(self):
            raise MemoryError("1.2 GiB")

    with pytest.raises(NotEnoughMemory, match=r"the data need more memory than there is \(1.2 GiB\): give this"):
        loaded(Lacking())


def test_an_opening_waits_for_the_lock_of_another(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        with Lock(tmp_path / "key.lock"):
            opening = pool.submit(Cache(tmp_path).open, "key", Builder())
            with pytest.raises(TimeoutError):
                opening.result(timeout=0.2)
        assert set(opening.result(timeout=60)) == {"values", "names"}


@pytest.fixture
def calls(monkeypatch) -> list[object]:
    """The files that were hashed; a hash is kept however short ago its file has changed."""
    found, digest = [], cache_module.hashlib.file_digest
    monkeypatch.setattr(cache_module, "_SETTLED", 0)
    monkeypatch.setattr(cache_module.hashlib, "file_digest", lambda *given: found.append(given) or digest(*given))
    return found


# FIPS 180-2, appendix B.1
KNOWN = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_kept_hash_is_used_until_size_or_times_change(tmp_path, calls):
    file, other, cache = tmp_path / "data.txt", tmp_path / "other.txt", Cache(tmp_path / "cache")
    file.write_bytes(b"abc")
    assert [cache.sha256(file), cache.sha256(file), len(calls)] == [KNOWN, KNOWN, 1]
    file.write_bytes(b"abd")
    os.utime(file, ns=(0, 12345))
    assert [cache.sha256(file) != KNOWN, len(calls)] == [True, 2]
    other.write_bytes(b"abc")
    os.utime(other, ns=(0, 12345))
    os.replace(other, file)
    assert [cache.sha256(file), len(calls)] == [KNOWN, 3], "another file of equal size and time"
    (entry,) = (tmp_path / "cache" / "sources").iterdir()
    content = json.loads(entry.read_text())
    for damaged in "{", "[]", json.dumps({**content, "sha256": "0" * 64}), json.dumps({"sha256": KNOWN}):
        entry.write_text(damaged)
        assert cache.sha256(file) == KNOWN
    assert len(calls) == 7


def test_no_hash_is_kept_of_a_file_that_has_only_just_changed(tmp_path):
    (tmp_path / "data.txt").write_bytes(b"abc")
    assert Cache(tmp_path / "cache").sha256(tmp_path / "data.txt") == KNOWN
    assert not (tmp_path / "cache").exists()


def test_a_checksum_follows_no_link(tmp_path, calls):
    (tmp_path / "data").write_bytes(b"abc")
    cache = Cache(tmp_path / "cache")
    cache.sha256(tmp_path / "data")
    (entry,) = (tmp_path / "cache" / "sources").iterdir()
    entry.unlink()
    for link in entry, entry.with_name(f".{entry.name}.partial"):
        link.symlink_to(tmp_path / "outside")
    cache.sha256(tmp_path / "data")
    assert not (tmp_path / "outside").exists()


def test_a_folder_whose_name_has_a_dollar_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", "elsewhere")
    assert cache_module.expand("a$PLACE/b") == Path("aelsewhere/b")
    Path("a$PLACE", "b").mkdir(parents=True)
    assert cache_module.expand("a$PLACE/b") == Path("a$PLACE/b")
    assert cache_module.expand("~/none") == Path.home() / "none"
