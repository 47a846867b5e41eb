"""Shapes are checked while testing, one thread computes, and hypothesis draws the same examples every time."""

from __future__ import annotations

import os
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

from tests.plugins.export.finished import runs  # noqa: E402, F401  (a fixture)

torch.set_num_threads(1)
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_runtest_setup() -> None:
    typechecker.calls.clear()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real data: OL2R_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("OL2R_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "MQ2008").is_dir():
        pytest.skip(f"no real data: {folder} has no MQ2008 (set OL2R_DATA)")
    return folder
