"""Run directories as `ol2r run` writes them, with values for each seed that a test chooses."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from ol2r_cli.plugins.figures.drawing import draw
from ol2r_cli.report.collection import collect
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.run.run import BLOCKS, Run
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
    "fairness": "none",
}
EXPLORATIONS = {  # that come with these rankers
    "pdgd": "plackett_luce",
    "dbgd": "team_draft",
    "toprank": "stated",
    "p2neurrank": "ensemble",
    "pepairrank": "ensemble",
}
_OTHER_GROUPS = ("exploration", "ranker/model", "intent")
BySeed = Mapping[int, Sequence[float]]
_numbers = count()


def play(
    root: Path,
    *overrides: str,
    trace: Mapping[str, BySeed] | None = None,
    test: BySeed | None = None,
    validation: BySeed | None = None,
    cosine: BySeed | None = None,
    every: int = 1,
    rounds: int | None = None,
    blocks: Mapping[int, Sequence[Sequence[int]]] | None = None,
    seconds: float = 1.0,
    fingerprint: str | None = None,
    status: str = "finished",
    command: str | None = None,
    code: str = "",
    note: str = "",
    start: Mapping[str, Any] | None = None,
) -> Path:
    """A run: `trace` has a value for each seed and round, `test` and `validation` NDCG@10 and `cosine` one each `every`
    rounds from round 0, `blocks` the sizes by seed and rank in some rounds.

    `code` is the hash of the code of its ranker, if it is a ranker of the user. The data are those of the fold, unless
    a `fingerprint` says otherwise. start: what run.json says of the run that it started from.
    """
    trace = {"online_ndcg": {0: [0.5]}} if trace is None else trace
    seeds = sorted(next(iter(trace.values())))
    rounds = rounds or len(next(iter(trace.values()))[seeds[0]])
    words = [word for word in overrides if word.partition("=")[0] not in (*CHOICES, *_OTHER_GROUPS)]
    choices = CHOICES | dict(word.split("=") for word in overrides if word not in words)
    choices.setdefault("exploration", EXPLORATIONS.get(choices["ranker"], "confidence"))
    config = OmegaConf.merge(SETTINGS, {"rounds": rounds, "replicas": len(seeds)}, OmegaConf.from_dotlist(words))
    settings: Any = OmegaConf.to_container(config, resolve=True)
    number = next(_numbers)
    directory = RunDirectory(root / f"run-{number:04}")
    directory.write_text("config.yaml", OmegaConf.to_yaml(OmegaConf.create(settings | {"seed": seeds[0]})))
    record = Trace(directory, seeds, tables=[BLOCKS])
    record.record(1, {name: _by_round(values, seeds) for name, values in trace.items()})
    for split, values in {"test": test, "validation": validation}.items():
        if values is not None:
            measured = {"ndcg_10": _by_round(values, seeds)} | ({"cosine": _by_round(cosine, seeds)} if cosine else {})
            record.record_evaluation(range(0, every * len(measured["ndcg_10"]), every), split, measured)
    for round, sizes in (blocks or {}).items():
        record.record_places(BLOCKS, round, np.array(sizes) > 0, {"block_size": np.array(sizes)})
    record.finish()
    manifest = Manifest(
        directory,
        id="0123456789",
        choices=choices,
        fingerprint=fingerprint or f"{choices['dataset']}, fold {settings['dataset']['fold']}",
        code={"ranker": code} if code else None,
        seeds=seeds,
        rounds=rounds,
        device="cpu",
        threads=1,
        note=note,
        start=start,
        command=shlex.join(["ol2r", "run", *overrides]) if command is None else command,
    )
    ended = {
        "started": f"2026-01-01T00:00:00.{number:06}+00:00",
        "ended": "2026-01-01T00:01:00+00:00",
        "seconds": seconds,
    }
    directory.write_json("summary.json", summarise(Run(directory.path, manifest.content, files=directory.files)))
    directory.write_json("run.json", manifest.content | ended | {"status": status, "files": directory.files})
    return directory.path


def make(
    root: Path,
    *overrides: str,
    test: Mapping[int, float] | None = None,
    validation: Mapping[int, float] | None = None,
    evaluated: bool = True,
    **more: Any,
) -> Path:
    """A run of two rounds; `test` and `validation` are final NDCG@10 by seed, and online NDCG is that on test."""
    test = {0: 0.5} if test is None else test
    curves = {
        split: {seed: [0, value] for seed, value in values.items()} if values and evaluated else None
        for split, values in {"test": test, "validation": validation}.items()
    }
    online = {"online_ndcg": {seed: [value] for seed, value in test.items()}}
    return play(root, *overrides, trace=online, **curves, every=2, rounds=2, **more)


def groups_below(root: Path) -> list[Group]:
    """The groups of the runs below `root`."""
    return group_runs(collect([root]).runs)


def only(root: Path) -> Group:
    """The only group below `root`."""
    (group,) = groups_below(root)
    return group


def groups_and_labels(root: Path) -> tuple[list[Group], Labels]:
    """The groups of the runs below `root`, and their labels."""
    groups = groups_below(root)
    return groups, Labels(groups)


def drawn(root: Path, kind: str, **options: Any) -> Any:
    """The figure of these groups."""
    return draw(kind, *groups_and_labels(root), **options)


def lines(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    """What the curves of a panel show: label -> x, y."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def _by_round(values: BySeed, seeds: Sequence[int]) -> torch.Tensor:
    return torch.tensor([list(values[seed]) for seed in seeds], dtype=torch.float64).T.contiguous()
