"""Files are replaced in one step, follow no links that others have put there, and have one writer's content.

A file that the user names may be a link, or what is no regular file.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest
import torch
from matplotlib.figure import Figure

from ol2r_cli.files import write_bytes, write_parquet, write_text
from ol2r_cli.plugins.figures.drawing import save
from ol2r_cli.run.store import LogFile, RunDirectory
from ol2r_cli.run.trace import Trace


def recorded(folder: Path) -> None:
    """A table in a part that becomes one file."""
    trace = Trace(RunDirectory(folder), [1])
    trace.record(1, {"clicks": torch.tensor([1])})
    trace.flush()
    trace.finish()


def logged(folder: Path) -> None:
    with LogFile(RunDirectory(folder)).receiving():
        logging.getLogger("ol2r_cli").info("a line")


def each(**writers: tuple[str, Callable[[Path], object]]) -> pytest.MarkDecorator:
    """A parameter for each writer: the name of its file, and a function of the folder."""
    return pytest.mark.parametrize(("name", "write"), [*writers.values()], ids=[*writers])


each_output = each(  # to a file that the user names
    text=("report.md", lambda folder: write_text(folder / "report.md", "new")),
    frame=("report.parquet", lambda folder: write_parquet(folder / "report.parquet", pl.DataFrame({"a": [1]}))),
    figure=("curve.svg", lambda folder: save(Figure(), folder / "curve.svg")),
)
each_writer = each(
    torch=("ranker.pt", lambda folder: RunDirectory(folder).write_torch("ranker.pt", torch.ones(2))),
    table=("trace.parquet", recorded),
    log=("log.txt", logged),
)


@each_writer
def test_no_writer_follows_a_link(tmp_path, name, write):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.write_bytes(before := b"of another")
    folder.mkdir()
    for link in (name, f".{name}.partial"):
        (folder / link).symlink_to(outside)
    with pytest.raises(OSError, match="symbolic links") if name == "log.txt" else nullcontext():
        write(folder)
        links = [path for path in folder.iterdir() if path.is_symlink() and path.suffix != ".partial"]
        assert not links
    assert outside.read_bytes() == before


@each_output
def test_an_output_goes_through_a_link_to_its_target(tmp_path, name, write):
    """Also through two links, and to a target that does not exist yet. Both links stay."""
    (folder := tmp_path / "folder").mkdir()
    (folder / name).symlink_to("second")
    (folder / "second").symlink_to(target := tmp_path / "target")
    for _ in range(2):
        write(folder)
        assert target.stat().st_size > 0
        assert {path.name: path.is_symlink() for path in folder.iterdir()} == {name: True, "second": True}
        target.write_bytes(b"")


@each_output
def test_an_output_goes_into_what_is_no_regular_file(tmp_path, name, write):
    """A FIFO stands for the devices: /dev/null was replaced by a file where its folder could be written."""
    write(tmp_path)
    expected = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with ThreadPoolExecutor() as reader:
        received = reader.submit((tmp_path / name).read_bytes)
        write(tmp_path)
        assert len(received.result(timeout=60)) == len(expected)
    assert (tmp_path / name).is_fifo()
    assert os.listdir(tmp_path) == [name]


def test_two_writers_of_a_file_leave_one_complete_file(tmp_path, monkeypatch):
    fsync, others = os.fsync, iter([b"second" * 1000])

    def meanwhile(descriptor: int) -> None:
        for content in others:
            write_bytes(tmp_path / "file", content)
            assert (tmp_path / "file").read_bytes() == content
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_bytes(tmp_path / "file", b"first")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]
    (tmp_path / "usual").touch()  # a file that is created under a name of its own is often readable for its owner only
    assert len({stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "file")}) == 1
