"""Finished runs for Weights & Biases, offline: `wandb sync` sends them when wanted. Needs the extra `wandb`."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from ol2r_cli.export.tracked import Tracked

PROJECT = "ol2r"


def write(runs: Iterable[Tracked], out: Path) -> list[str]:
    """Write each run to `<out>/wandb/offline-run-<time>-<id>`, in place of what was written of it before.

    Its id there is that of the run, so that runs which are sent twice are one run. Nothing is sent.
    """
    import wandb

    out.mkdir(parents=True, exist_ok=True)
    lines = []
    try:
        for run in runs:
            before = list((out / "wandb").glob(f"offline-run-*-{run.id}"))
            for folder in before:  # first: within a second the new one gets the same name
                shutil.rmtree(folder)
            _record(wandb, run, out)
            lines.append(f"{'replaced' if before else 'written'}: {run.name}")
    finally:
        wandb.teardown()  # waits for the process that writes: the end of a run does not, on a busy machine
    return lines


def _record(wandb: object, run: Tracked, out: Path) -> None:
    settings = wandb.Settings(  # type: ignore[attr-defined]
        console="off",
        silent=True,
        disable_git=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
    )
    record = wandb.init(  # type: ignore[attr-defined]
        mode="offline",
        dir=str(out),
        project=PROJECT,
        id=run.id,
        name=run.name,
        tags=[f"{group}={choice}"[:64] for group, choice in run.choices.items()],
        config={**run.settings, "ol2r": dict(run.facts)},
        settings=settings,
    )
    by_round: dict[int, dict[str, float]] = {}
    for name, curve in run.curves.items():
        for round, value in curve:
            by_round.setdefault(round, {})[name] = value
    for round in sorted(by_round):
        record.log(by_round[round], step=round)
    record.summary.update(dict(run.summary))
    record.finish()
