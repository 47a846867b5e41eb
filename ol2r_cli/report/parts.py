"""The parts of an experiment, which part a setting belongs to, and which settings make another task."""

from __future__ import annotations

from functools import cache

from ol2r_cli.plugins import run_parts

# Settings of what is recorded of an experiment. They do not change what happens in it.
RECORDING = {
    *("evaluate_every", "evaluate_rounds", "evaluate_on", "measures"),
    *(part.setting for part in run_parts() if part.start is None),
}
PARTS = ("dataset", "click", "intent", "ranker", "ranker/model", "exploration", "fairness")
TASK_PARTS = ("dataset", "click", "intent")
NAMED_PARTS = ("ranker/model", "exploration", "fairness")  # a name has those that its ranker does not bring
ROUNDING = ("device.dtype",)
_CLICKS = ("perfect", "navigational", "informational")  # in the order of the papers


@cache
def part_of(setting: str) -> str:
    """Return the part of a setting, `ranker/model` for ranker.model.width; empty for a setting of the run."""
    parts = [part for part in PARTS if setting.startswith(f"{part.replace('/', '.')}.")]
    return max(parts, key=len, default="")


def defines_task(setting: str) -> bool:
    """Return whether different values of a setting are different tasks, instead of competitors in one task.

    What is recorded makes no other task, and neither does how numbers are rounded, or with what a ranker begins.
    """
    is_of_row = setting in {*RECORDING, *ROUNDING} or setting.startswith("start.")
    return not is_of_row and part_of(setting) in (*TASK_PARTS, "")


def click_order(click: str) -> tuple[int, str]:
    """Return a key that sorts click models: those of the papers in their order, then others by name."""
    return ([*_CLICKS, click].index(click), click)
