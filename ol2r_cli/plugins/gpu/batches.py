"""Which jobs of a sweep one process plays together, and how many of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ol2r_cli.config.catalogue import targets
from ol2r_cli.device import BreakEven
from ol2r_cli.source import is_shipped

# Settings that say where a job writes, which data of equal form it reads, or what its random numbers are.
_OWN = ("seed", "output_dir", "note", "launcher", "hydra")
_OF_DATA = ("fold",)
# Settings of the roles below that are no sizes: numbers, and lists of probabilities.
_ROLES = ("ranker", "exploration", "click")
NUMBERS = frozenset(
    {
        *("learning_rate", "decay", "floor", "l2", "damping", "variance_penalty", "clip"),
        *("alpha", "epsilon", "tau", "temperature", "delta", "sigma", "c", "label_noise_variance"),
        *("click", "stop", "examination", "eta", "continuation", "epsilon_plus", "epsilon_minus", "beta"),
    }
)

SHARE = 3  # batches that each worker would get of the jobs that wait, so that none is without work before the end
ON_GPU = 1000  # jobs of a batch on a GPU
REPLICAS_ON_GPU = 10_000  # of all its jobs: with more, the rate of an H200 does not grow
MOST = 50  # jobs of a batch, each of which has files open
SECONDS = 5.0  # that a batch takes: the start of a process is little beside it, and its jobs do not end much later


def shared_form(settings: Mapping[str, Any], choices: Mapping[str, str]) -> str | None:
    """Return what jobs have in common that one process can play together; None for a job that is played alone.

    It is everything but the seed, the fold, where outputs go, and the values of `NUMBERS`. Jobs with classes of the
    user's own are played alone, as they may find what those of another job have left in the process.
    """
    if not all(is_shipped(target) for _, target in targets(settings)):
        return None
    form: dict[str, Any] = {name: value for name, value in settings.items() if name not in _OWN}
    if isinstance(form.get("dataset"), Mapping):
        form["dataset"] = {name: value for name, value in form["dataset"].items() if name not in _OF_DATA}
    for role in _ROLES:
        node = form.get(role) or {}
        form[role] = {name: _form_of(value) if name in NUMBERS else value for name, value in node.items()}
    return json.dumps([dict(choices), form], sort_keys=True, default=str)


def _form_of(value: Any) -> Any:
    """Return what values must have in common: whether they are numbers, or how many numbers they have."""
    if isinstance(value, list):
        return [_form_of(entry) for entry in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "a number" if is_number else value


def automatic_size(waiting: int, workers: int, seconds: float | None) -> int:
    """Return how many of the waiting jobs a worker should play together, at least one.

    `seconds` is how long such a job takes alone, None while that is unknown. A long job gains nothing in a batch, and
    needs its memory there all the while.
    """
    if seconds is None:
        return 1
    of_worker = waiting // (SHARE * workers)
    return max(1, min(of_worker, int(SECONDS / max(seconds, SECONDS / MOST))))


def size_on_gpu(waiting: int, workers: int, replicas: int) -> int:
    """Return how many of the waiting jobs a GPU should play together, at least one: as many as it can, because a launch
    of many replicas takes little longer than one of few, and every process compiles its loops."""
    return max(1, min(-(-waiting // workers), ON_GPU, REPLICAS_ON_GPU // replicas))


def gpu_is_faster(even: BreakEven, replicas: int, rounds: int, launches: int, cores: int) -> bool:
    """Return whether a GPU plays the jobs of a batch faster than so many cores play them one by one.

    `replicas` are those of all its jobs. Jobs of different data are played by several launches, one after the other.
    """
    return replicas >= cores * even.replicas_of(rounds, launches)
