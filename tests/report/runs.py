"""Run directories as `ol2r run` writes them, with values for each seed that a test chooses."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from ol2r_cli.report.run_groups import Group, collect, group_runs
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import Manifest, RunDirectory
from ol2r_cli.run.summary import summarise
from ol2r_cli.run.trace import Trace

SETTINGS = {
    "dataset": {"path": None, "data_dir": "here", "fold": 1, "normalise": "query_minmax"},
    "click": {"stop": 0.5},
    "ranker": {"_target_": "a.Ranker", "l2": 0.1, "pairs": "matching"},
    "exploration": {"_target_": "an.Exploration", "alpha": 0.1, "l2": "${ranker.l2}"},
    "fairness": {"_target_": "a.Fairness"},
    "device": {"name": "auto", "dtype": "auto", "threads": 1},
    "rounds": 2,
    "evaluate_on": ["validation", "test"],
    "output_dir": "outputs",
    "data_dir": "here",
    "force": False,
}
CHOICES = {
    "dataset": "mq2008",
    "click": "perfect",
    "ranker": "pairrank",
    "exploration": "confidence",
    "fairness": "none",
}
_numbers = count()


def make(
    root: Path,
    *overrides: str,
    test: Mapping[int, float] | None = None,
    validation: Mapping[int, float] | None = None,
    fingerprint: str | None = None,
    status: str = "finished",
    command: str | None = None,
    evaluated: bool = True,
    code: str = "",
    note: str = "",
) -> Path:
    """A run with these overrides; `test` and `validation` are NDCG@10 by seed, and online NDCG is that on test.

    `code` is the hash of the code of its ranker, if it is a ranker of the user. The data are those of the fold, unless
    a `fingerprint` says otherwise.
    """
    test = {0: 0.5} if test is None else test
    words = [word for word in overrides if word.partition("=")[0] not in (*CHOICES, "ranker/model")]
    choices = CHOICES | dict(word.split("=") for word in overrides if word not in words)
    config = OmegaConf.merge(SETTINGS, OmegaConf.from_dotlist(words))
    settings: Any = OmegaConf.to_container(config, resolve=True)
    directory = RunDirectory(root / f"run-{next(_numbers):04}")
    seeds = sorted(test)
    directory.write_text("config.yaml", OmegaConf.to_yaml(OmegaConf.create(settings | {"seed": seeds[0]})))
    trace = Trace(directory, seeds)
    trace.record(1, {"online_ndcg": torch.tensor([test[seed] for seed in seeds], dtype=torch.float64)})
    for split, values in {"test": test, "validation": validation or {}}.items():
        if values and evaluated:
            last = torch.tensor([values[seed] for seed in seeds], dtype=torch.float64)
            trace.record_evaluation([0, 2], split, {"ndcg_10": torch.stack([0 * last, last])})
    trace.finish()
    manifest = Manifest(
        directory,
        id="0123456789",
        choices=choices,
        fingerprint=fingerprint or f"data of fold {settings['dataset']['fold']}",
        code={"ranker": code} if code else None,
        seeds=seeds,
        rounds=2,
        device="cpu",
        engine="tensors",
        threads=1,
        note=note,
        command=shlex.join(["ol2r", "run", *overrides]) if command is None else command,
    )
    run = Run(directory.path, manifest.content, files=directory.files)
    directory.write_json("summary.json", summarise(run))
    directory.write_json("run.json", manifest.content | {"status": status, "files": directory.files})
    return directory.path


def groups_below(root: Path) -> list[Group]:
    """The groups of the runs below `root`."""
    return group_runs(collect([root]).runs)


def only(root: Path) -> Group:
    """The only group below `root`."""
    (group,) = groups_below(root)
    return group
