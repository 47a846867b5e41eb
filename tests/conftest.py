"""Shapes are checked while testing, one thread computes, and hypothesis draws the same examples every time."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jaxtyping import install_import_hook

from tests import typechecker  # the hook finds it as an attribute

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also in the processes that tests start
os.environ.pop("PYTHONUNBUFFERED", None)  # programs print as in the shell of a user who has not set it
# Only packages with shape annotations: instrumenting all modules would double the time of collection.
SHAPED = [
    "tensor",
    "interfaces",
    "dataset",
    "click",
    "fairness",
    "metrics",
    "learning",
    "ranker",
    "exploration",
    "measure",
    "simulation",
]
install_import_hook([f"ol2r_cli.{package}" for package in SHAPED], "tests.typechecker.checked")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

from ol2r_cli import source  # noqa: E402
from tests.finished import runs  # noqa: E402, F401  (a fixture)

torch.set_num_threads(1)
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


HERE = Path(__file__).parent
_IMPORTED = re.compile(r"^ *from (ol2r_cli|tests)((?:\.\w+)*) import (\w+)", re.MULTILINE)


@cache
def imported(file: Path) -> list[tuple[str, str, str]]:
    """What a file of tests imports of ol2r and of the tests: package, module below it, and the first name."""
    return _IMPORTED.findall(file.read_text(encoding="utf-8"))


def plugins_of(file: Path) -> set[str]:
    """The plug-ins that a file of tests imports, also by way of other files of tests."""
    found, waiting, visited = set[str](), [file], set[Path]()
    while waiting:
        visited.add(file := waiting.pop())
        for package, below, first in imported(file):
            if of_plugin := re.match(r"\.plugins\.(?!test_)(\w+)", below):
                found.add(of_plugin[1])
            folder = HERE.joinpath(*below.split(".")[1:])
            others = (folder / first).with_suffix(".py"), folder.with_suffix(".py")
            waiting += [path for path in others if package == "tests" and path.is_file() and path not in visited]
    return found


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of the core that use a plug-in which has been deleted."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    there = {path.parent.name for path in (HERE.parent / "ol2r_cli" / "plugins").glob("*/plugin.py")}
    return True if plugins_of(collection_path) - there else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    typechecker.calls.clear()
    is_long = item.get_closest_marker("slow") or item.get_closest_marker("slurm")
    if is_long and time.time() > float(os.environ.get("OL2R_LONG_TESTS_UNTIL", "inf")):
        pytest.skip("the time for long tests (OL2R_LONG_TESTS_UNTIL) is over")


@pytest.fixture
def on_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """What lets stdout be a terminal from now on, of so many columns; what is printed is captured as before."""

    def begin(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    return begin


class _Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What lets somebody type lines at a terminal, and then end the input."""
    return lambda *lines: monkeypatch.setattr("sys.stdin", _Typed("".join(f"{line}\n" for line in lines)))


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What lets a package be absent from now on."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that are added to the search path for modules are left out after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def ol2r_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that stands for the sources of ol2r."""
    folder = tmp_path / "package"
    folder.mkdir()
    monkeypatch.setattr(source, "PACKAGE", folder)
    monkeypatch.setattr(source, "IN_MEMORY", {})
    return folder


@pytest.fixture
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder for a copy of ol2r, the same for all tests: numba finds machine code by the path of a source."""
    folder = tmp_path_factory.getbasetemp() / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real data: OL2R_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("OL2R_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "MQ2008").is_dir():
        pytest.skip(f"no real data: {folder} has no MQ2008 (set OL2R_DATA)")
    return folder
