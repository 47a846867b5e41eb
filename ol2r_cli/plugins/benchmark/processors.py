"""Which published numbers are others on another processor: the mark ‡.

With other instructions sums round otherwise, and where two numbers are nearly equal a list differs. Whether that
happens with the settings of a row is not derived but played: `scripts/processors.py` plays the settings of every row
with the fewest instructions, and writes the table that is read here. docs/benchmark/protocol.md has the rule.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ol2r_cli.lazy import pl
from ol2r_cli.plugins.benchmark import results
from ol2r_cli.plugins.benchmark.overrides import by_name
from ol2r_cli.plugins.benchmark.results import TEST, About
from ol2r_cli.plugins.benchmark.trials import Condition
from ol2r_cli.report.finished_run import FinishedRun

FILE = "processors.parquet"
HERE, LEAST, AVX2 = "as it is", "x86-64", "AVX2"
PROCESSORS: dict[str, dict[str, str]] = {  # by name: what limits the instructions that are used
    HERE: {},
    LEAST: {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
    },
    AVX2: {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "haswell",
    },
}
_METRICS = (TEST, "cumulative_ndcg")
ROUNDING = 1e-9  # of a value, by which sums of equal numbers may differ that are added up in another order
SECONDS = 0.5  # of CPU time, as published, that the seeds of a setting may take; one is played in any case
MOST_SECONDS = 0.6  # of CPU time of a seed, as published, of settings whose rounds are all played
FIRST_ROUNDS = 500  # that are played of others, and of networks, most of which differ by then
EVERY = 40  # one of so many settings is played on all processors
Key = tuple[str, str, int, int]  # of a play: processor, setting, seeds, rounds
Values = Mapping[int, Mapping[str, float | None]]  # by seed and metric


@cache
def _differing(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    return frozenset(pl.read_parquet(file).filter("differs")["overrides"])


def differs_elsewhere(about: About) -> bool:
    """Return whether the settings of a row have given other results on another processor; not where none was tried."""
    return shlex.join(about.words) in _differing(results.published_dir() / FILE)


@dataclass
class PublishedSetting:
    """Rounds that were published: the run of their first fold, and the rows that have them, by benchmark.

    Benchmarks differ in what they evaluate, so that several published runs may have the same rounds.
    """

    run: FinishedRun
    rows: list[tuple[str, About]]

    @property
    def is_single(self) -> bool:
        """Return whether it computes in single precision, as networks do."""
        return self.run.choices.get("ranker/model", "linear") != "linear"

    @property
    def depends_on_replicas(self) -> bool:
        """Return whether a seed may differ with the number of seeds beside it (docs/explanation/reliability.md)."""
        return self.is_single or self.run.choices["fairness"] == "mcfair"

    @property
    def seconds(self) -> float:
        """Return the published CPU seconds of a seed."""
        return (self.run.cpu_seconds or 0.0) / len(self.run.seeds)

    @property
    def words(self) -> list[str]:
        """Return the overrides of its rounds, without seeds."""
        return _words_of(self.run, self.rows[0][1])

    @property
    def name(self) -> str:
        """Return what it is kept by: the overrides that decide its rounds, in order."""
        return shlex.join(sorted(word for word in self.words if not word.startswith("measures=")))

    @property
    def rounds(self) -> int:
        """Return how many rounds were published."""
        return int(self.run.settings["rounds"])

    @property
    def least_rounds(self) -> int:
        """Return how many rounds must be played: all, or of what is costly or in single precision the first."""
        return FIRST_ROUNDS if self.is_single or self.seconds > MOST_SECONDS else self.rounds

    def play(self, processor: str, rounds: int) -> Play:
        """Return what is played of it on a processor."""
        affordable = 1 if self.is_single or not self.seconds else int(SECONDS / self.seconds)
        seeds = max(1, min(len(self.run.seeds), affordable))
        words = [word for word in self.words if not word.startswith("rounds=")]
        evaluated = ("evaluate_rounds=even", f"evaluate_every={rounds}", "evaluate_on=[test]")
        return Play(processor, self.name, seeds, rounds, (*words, f"rounds={rounds}", f"replicas={seeds}", *evaluated))


def _words_of(run: FinishedRun, about: About) -> list[str]:
    named = by_name(about.words)
    if run.fold is not None:
        named["dataset.fold"] = f"dataset.fold={run.fold}"
    return [word for name, word in named.items() if name != "replicas" and not name.startswith("evaluate_")]


@dataclass(frozen=True)
class Play:
    """Some seeds of a setting on one processor."""

    processor: str
    setting: str
    seeds: int
    rounds: int
    words: tuple[str, ...]

    @property
    def key(self) -> Key:
        """Return what it is kept by."""
        return self.processor, self.setting, self.seeds, self.rounds


def published_settings(names: Iterable[str]) -> list[PublishedSetting]:
    """Return what these benchmarks have published, each setting of the first fold once, cheap ones first."""
    found: dict[str, PublishedSetting] = {}
    for name in names:
        first: dict[Condition, tuple[FinishedRun, About]] = {}
        for run, about in results.published(name):
            row = about.row(run)
            if row not in first or (run.fold or 0) < (first[row][0].fold or 0):
                first[row] = run, about
        for run, about in first.values():
            setting = PublishedSetting(run, [(name, about)])
            if setting.name in found:
                found[setting.name].rows.append((name, about))
            else:
                found[setting.name] = setting
    return sorted(found.values(), key=lambda setting: setting.seconds)


def missing(setting: PublishedSetting, kept: Mapping[Key, Values], is_sample: bool) -> list[Play]:
    """Return what is to be played of a setting. kept: the values of plays. is_sample: whether to play it everywhere."""
    rounds = _played_rounds(setting, kept) or setting.least_rounds
    others = [HERE, AVX2] if is_sample else [HERE] if _needs_play_here(setting, rounds) else []
    plays = [setting.play(processor, rounds) for processor in (LEAST, *others)]
    return [play for play in plays if play.key not in kept]


def _played_rounds(setting: PublishedSetting, kept: Mapping[Key, Values]) -> int | None:
    """Return the most rounds that were played with the fewest instructions."""
    return next((n for n in (setting.rounds, FIRST_ROUNDS) if setting.play(LEAST, n).key in kept), None)


def _needs_play_here(setting: PublishedSetting, rounds: int) -> bool:
    """Return whether plays are compared with one on this processor, and not with the published values.

    Those are of all rounds, and of another number of seeds.
    """
    return setting.depends_on_replicas or rounds < setting.rounds


def is_other(values: Mapping[str, float | None], expected: Mapping[str, float | None]) -> bool:
    """Return whether a metric that both have is another number, but for the rounding of sums."""
    return any(not _are_equal(values[name], expected[name]) for name in values.keys() & expected.keys())


def _are_equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


def compared(settings: Iterable[PublishedSetting], kept: Mapping[Key, Values]) -> pl.DataFrame:
    """Return a row for each published row, processor and seed that was played: what was played, and how it differs.

    test_ndcg_10_difference, cumulative_ndcg_difference: absolute, from the published values, or from those that this
    processor gives where a play of it is needed. This processor need not be that of the published values: where it
    gives others, that is a difference, too. Networks and costly settings that are not yet played are left out.
    ValueError for others.
    """
    lines: list[dict[str, Any]] = []
    for setting in settings:
        rounds = _played_rounds(setting, kept)
        here = setting.play(HERE, rounds or 0)
        is_here = rounds is not None and _needs_play_here(setting, rounds)
        if rounds is None or rounds < setting.least_rounds or (is_here and here.key not in kept):
            if setting.least_rounds < setting.rounds:
                continue
            raise ValueError(f"not yet played: {' '.join(setting.words)}")
        expected = kept[here.key] if is_here else setting.run.values
        for processor in PROCESSORS:
            play = setting.play(processor, rounds)
            if play.key not in kept or (is_here and processor == HERE):
                continue
            for seed, values in kept[play.key].items():
                lines += _lines(setting, play, seed, values, expected[seed])
    return pl.DataFrame(lines, infer_schema_length=None)


def _lines(
    setting: PublishedSetting,
    play: Play,
    seed: int,
    values: Mapping[str, float | None],
    expected: Mapping[str, float | None],
) -> Iterator[dict[str, Any]]:
    """Yield what the table has of a seed, for each published row with these settings."""
    for benchmark, about in setting.rows:
        yield {
            "benchmark": benchmark,
            "table": about.table,
            "click": setting.run.choices["click"],
            "competitor": about.competitor,
            "aim": about.aim,
            "overrides": shlex.join(about.words),
            "fold": setting.run.fold,
            "seed": seed,
            "rounds": play.rounds,
            "processor": play.processor,
            "differs": is_other(values, expected),
            **{f"{metric}_difference": abs((values[metric] or 0.0) - (expected[metric] or 0.0)) for metric in _METRICS},
        }
