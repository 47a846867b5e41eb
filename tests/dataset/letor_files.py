"""Small LETOR folders for tests, and datasets on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from ol2r_cli.config.ranges import check_settings
from ol2r_cli.dataset import parse
from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.table import Dataset

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "data" / "tiny"
# Ten training queries of 1 to 3 documents, of which feature 2 is constant, and a test query of 2.
TRAIN_TEXT = "".join(f"{q % 3} qid:t{q} 1:{q} 2:5 3:{d}\n" for q in range(10) for d in range(q % 3 + 1))
TEST_TEXT = "2 qid:e0 1:9 2:6\n0 qid:e0 1:8 2:6 3:1\n"


def letor(path: Path | None, cache: Path, data_dir: str = "nowhere", **settings: Any) -> Letor:
    """A Letor without normalisation, and otherwise as configs/dataset/letor.yaml has it, but for these settings."""
    return configured("letor", data_dir, cache, path=path and str(path), **({"normalise": "none"} | settings))


def configured(choice: str, data_dir: Path | str, cache: Path, **settings: Any) -> Letor:
    """The Letor of configs/dataset/<choice>.yaml with some settings changed, checked as `build` does."""
    node = OmegaConf.load(ROOT / "configs" / "dataset" / f"{choice}.yaml")
    node.set = settings.pop("set", node.set)  # the name may follow from it
    root = OmegaConf.create({"data_dir": str(data_dir), "cache_dir": str(cache), "dataset": node})
    plain: Any = OmegaConf.to_container(root, resolve=True)
    values = {name: value for name, value in plain["dataset"].items() if name != "_target_"} | settings
    check_settings(Letor, values, "dataset")
    return Letor(**values)


def write_fold(folder: Path, **texts: str) -> Path:
    """A folder with train.txt, vali.txt, test.txt as given."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


class Fold:
    """The files of a fold in a folder `set`, and datasets of them with the cache beside it."""

    def __init__(self, root: Path):
        self.folder, self.cache = root / "set", root / "cache"

    def write(self, **texts: str) -> None:
        """Write train.txt, vali.txt, test.txt as given."""
        write_fold(self.folder, **texts)

    def source(self, **settings: Any) -> Letor:
        """A Letor as `letor` gives it."""
        return letor(self.folder, self.cache, **settings)

    def load(self, **settings: Any) -> Dataset:
        """Its table."""
        return self.source(**settings).load()


@contextmanager
def parser_set_to(**values: object) -> Iterator[None]:
    """Other values of names of `dataset/parse.py`; `compiled=False`: the strict parser reads, as without numba."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            target, put = (parse.loops, lambda: value) if name == "compiled" else (parse, value)  # noqa: B023
            patch.setattr(target, name, put)
        yield
