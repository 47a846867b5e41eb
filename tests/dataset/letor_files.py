"""Small LETOR folders for tests, and datasets on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ol2r_cli.config.ranges import check_settings
from ol2r_cli.dataset.letor import Letor

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
