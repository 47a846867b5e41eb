"""One finished run as a report reads it: choices, settings that can change results, and metrics."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ol2r_cli.columns import RunColumns
from ol2r_cli.config.catalogue import Catalogue, dotted
from ol2r_cli.formatting import one_line, printable
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.report.measures import declare, described
from ol2r_cli.run.directory import RunDirectory
from ol2r_cli.run.identity import ADDED, NOT_HASHED
from ol2r_cli.run.integrity import DamagedTable
from ol2r_cli.run.run_state import RunState
from ol2r_cli.untrusted_file import invalid_fields, parse_yaml, read_text

FOLD = "dataset.fold"
CODE = "own_code"  # added to the settings, as `ranker.own_code`: the hash of the user's code
# Settings that never distinguish groups. The dataset does, by its data instead of the path of its files: `group_runs`.
IGNORED = (NOT_HASHED - {"dataset", "measures"}) | {"seed", "replicas", FOLD}
# Settings of what is recorded of an experiment. They do not change what happens in it.
RECORDING = {
    *("evaluate_every", "evaluate_rounds", "evaluate_on", "measures", "trace_blocks", "trace_regret", "trace_cosine"),
    *("block_rounds", "save_interactions"),
}
_SUMMARY: dict[Any, Any] = {
    "metrics": {...: {"mean": (int, float), "sd": (int, float, None), "n": int}},
    "by_seed": ({"seed": [int]}, None),
}
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,[^{}]*)?\}")  # ${ranker.l2}, ${oc.select:ranker.l2,1.0}
_ENTRY = re.compile(r"^(?=\w+:)", re.MULTILINE)  # where an entry of the outermost mapping begins


@dataclass(frozen=True)
class FinishedRun:
    """One finished run.

    settings: those that can change results, by dotted name (`dataset.queries.train`), without seed, replicas and
    dataset.fold, and the hashes of its own code, as `ranker.own_code`. fingerprint: that of the dataset. metrics: mean,
    sd and n of summary.json. typed: names of settings on the command line. by_seed: the values of each metric, in the
    order of its entry "seed"; empty where an earlier version wrote the summary. columns: those of its tables.
    cpu_seconds, peak_memory_gb, note: as in run.json; None or empty where an earlier version wrote it.
    """

    path: Path
    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    fold: Any
    fingerprint: str
    seeds: tuple[int, ...]
    metrics: Mapping[str, Estimate]
    typed: frozenset[str] = frozenset()
    by_seed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    id: str = ""
    columns: RunColumns = field(default_factory=RunColumns)
    cpu_seconds: float | None = None
    peak_memory_gb: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Make text, which may be of others, printable; ValueError for unknown metrics and a wrong number of values."""
        vars(self).update(_printable(vars(self)))
        for name in self.metrics:
            described(name)
        seeds = self.by_seed.get("seed", ())
        if self.by_seed and not (set(self.seeds) <= {*seeds} and {*map(len, self.by_seed.values())} == {len(seeds)}):
            raise ValueError("by_seed must have a value of every metric for each seed")


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_printable(name): _printable(each) for name, each in value.items()}
    if isinstance(value, list | frozenset):
        return type(value)(map(_printable, value))
    return printable(value) if isinstance(value, str) else value


def read_run(state: RunState) -> FinishedRun:
    """The run in this state; ValueError, OSError or LookupError where its files cannot be read."""
    if state.state in ("damaged", "unreadable"):
        raise ValueError(state.error)
    directory, manifest = RunDirectory(state.path), state.manifest
    settings = read_settings(directory / "config.yaml")
    fold = settings.get(FOLD)
    settings = {name: value for name, value in settings.items() if distinguishes(name)}
    settings["results_version"] = manifest["results_version"]
    settings |= code_settings(manifest)
    content = directory.read_json("summary.json")
    if wrong := invalid_fields(content, _SUMMARY):
        raise ValueError(f"summary.json has no valid {', '.join(wrong)}")
    declare(columns := RunColumns.of(manifest))
    choices = {part: str(manifest["choices"][part]) for part in ("dataset", "click", "ranker")} | manifest["choices"]
    choices.setdefault("intent", "none")
    settings = added_settings(choices) | settings
    return FinishedRun(
        path=state.path,
        choices=choices,
        settings=settings,
        fold=fold,
        fingerprint=manifest["dataset"]["fingerprint"],
        seeds=tuple(manifest["seeds"]),
        metrics={
            name: Estimate(values["mean"], values["sd"], values["n"]) for name, values in content["metrics"].items()
        },
        typed=_typed(manifest["command"]),
        by_seed=content.get("by_seed") or {},
        id=manifest["id"],
        columns=columns,
        cpu_seconds=manifest.get("cpu_seconds"),
        peak_memory_gb=manifest.get("peak_memory_gb"),
        note=manifest.get("note") or "",
    )


def read_settings(path: Path) -> dict[str, Any]:
    """The leaves of a `config.yaml` by dotted name; whole numbers are equal written 1 or 1.0, as in the id of a run.

    Parsing YAML takes milliseconds, which adds up over a thousand runs, and the runs of a sweep share most of their
    text. So the text is split where an entry of the outermost mapping begins (`ranker:`, `rounds: 500`), and each
    distinct piece is parsed once. If a piece is not a mapping by itself, the text is parsed as a whole. OSError,
    or ValueError for content that is not a mapping.
    """
    text = read_text(path)
    pieces = [piece for piece in _ENTRY.split(text) if piece] or [text]
    try:
        return {name: value for piece in pieces for name, value in _leaves(piece).items()}
    except ValueError:
        return _leaves(text)


@lru_cache(maxsize=4096)
def _leaves(text: str) -> dict[str, Any]:
    tree = parse_yaml(text)
    if not isinstance(tree, dict):
        raise ValueError(f"a configuration must be a mapping, got {type(tree).__name__}")
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in dotted(tree)
    }


@lru_cache(maxsize=4096)
def distinguishes(setting: str) -> bool:
    """Whether different values of a setting can make different groups.

    False for the dataset's data_dir and cache_dir, and for what the columns of a measure say: its class and cutoff.
    """
    parts = setting.split(".")
    prefixes = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    never = {"dataset": NOT_HASHED, "measure": {"_target_", "cutoff"}}.get(parts[0], ())
    return not prefixes & IGNORED and parts[-1] not in never


@lru_cache(maxsize=1)
def _catalogue() -> Catalogue:
    return Catalogue()


def default_settings(choices: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of the chosen files of ol2r beside these settings, without those that depend on the machine.

    A default that follows another setting, as exploration.l2 follows ranker.l2, is that setting's value.
    """
    defaults = {}
    for name, value in _defaults(tuple(choices.items())):
        reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if reference and reference[1] in settings:
            value = settings[reference[1]]
        if not (isinstance(value, str) and "${" in value):
            defaults[name] = value
    for name in settings:
        if found := re.fullmatch(r"measure\.(\w+)(?:@\d+)?\.(\w+)", name):  # measures are no choices of a run
            choice = _catalogue().choices["measure"].get(found[1])
            defaults |= {name: choice.values[found[2]]} if choice and found[2] in choice.values else {}
    return defaults


@lru_cache(maxsize=4096)
def _defaults(choices: tuple[tuple[str, str], ...]) -> list[tuple[str, Any]]:
    return list(dotted(_catalogue().tree([f"{group}={choice}" for group, choice in choices])))


def added_settings(choices: Mapping[str, str]) -> dict[str, Any]:
    """Settings that an earlier version did not write for these choices, with the values that do as it did."""
    added: dict[str, Any] = {}
    for name, value in ADDED.items():
        group, _, key = name.partition(".")
        choice = _catalogue().choices.get(group, {}).get(choices.get(group, ""))
        if choice is not None and (not key or key in choice.content):
            added |= dict(dotted({name: int(value) if isinstance(value, float) and value.is_integer() else value}))
    return added


def code_settings(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of its own code: {"ranker.own_code": "3f2a99c10b7d"}."""
    return {f"{part}.{CODE}": str(hash) for part, hash in (manifest.get("code") or {}).items()}


def _typed(command: str) -> frozenset[str]:
    words = command.split()
    if not {"'", '"', "\\"}.isdisjoint(command):  # shlex takes a millisecond
        with suppress(ValueError):  # an unbalanced quote
            words = shlex.split(command)
    return frozenset(word.partition("=")[0].lstrip("+~") for word in words)


def by_seed(run: FinishedRun) -> dict[int, dict[str, float | None]]:
    """The metrics of each seed, from the summary, or from the tables where the summary lacks them.

    ValueError where the tables cannot be read or lack a seed.
    """
    if run.by_seed:
        rows = [dict(zip(run.by_seed, row, strict=True)) for row in zip(*run.by_seed.values(), strict=True)]
    elif len(run.seeds) == 1:
        rows = [{"seed": run.seeds[0]} | {name: estimate.mean for name, estimate in run.metrics.items()}]
    else:
        from ol2r_cli.run import summary  # imports torch

        with tables_of(run.path):
            rows = summary.by_seed(RunDirectory(run.path)).to_dicts()
    values = {int(row.pop("seed")): row for row in rows}
    if missing := sorted(set(run.seeds) - values.keys()):
        raise ValueError(f"the tables of {run.path} must have its seeds {missing}: force=true runs it again")
    return values


@contextmanager
def tables_of(path: Path) -> Iterator[None]:
    """Turns an error while reading the tables of a run into a ValueError that names the run."""
    from polars.exceptions import PolarsError

    try:
        yield
    except (OSError, DamagedTable, PolarsError) as error:
        raise ValueError(
            f"the tables of {path} cannot be read ({one_line(error)}): force=true runs it again"
        ) from error
