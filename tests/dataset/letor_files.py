"""Small LETOR folders for tests, and data sets on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ol2r_cli.dataset.letor import Letor

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "data" / "tiny"


def letor(path: Path | None, cache: Path, **settings: Any) -> Letor:
    """A Letor with the settings of configs/dataset/letor.yaml, but for those given."""
    defaults: dict[str, Any] = {
        "name": "test",
        "path": path and str(path),
        "data_dir": "nowhere",
        "cache_dir": str(cache),
        "folders": [],
        "files": {"train": ["train.txt"], "validation": ["vali.txt"], "test": ["test.txt"]},
        "fold": 1,
        "set": None,
        "features": None,
        "grades": None,
        "overflow": "error",
        "normalise": "none",
        "drop_constant": False,
        "queries": None,
        "validation": None,
        "seed": 0,
        "group": None,
        "source": None,
        "expected": {},
        "checksums": {},
    }
    return Letor(**{**defaults, **settings})


def configured(choice: str, data_dir: Path, cache: Path, **settings: Any) -> Letor:
    """The Letor of configs/dataset/<choice>.yaml with some settings changed."""
    node = OmegaConf.merge(OmegaConf.load(ROOT / "configs" / "dataset" / f"{choice}.yaml"), settings)
    root = OmegaConf.create({"data_dir": str(data_dir), "cache_dir": str(cache), "dataset": node})
    plain: Any = OmegaConf.to_container(root, resolve=True)
    del plain["dataset"]["_target_"]
    return Letor(**plain["dataset"])


def write_fold(folder: Path, **texts: str) -> Path:
    """A folder with train.txt, vali.txt, test.txt as given."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder
