"""Play the published settings of the benchmark as other processors would, for the mark ‡ of its pages.

    python scripts/processors.py data_dir=FOLDER             plays what is missing, and writes the table
    python scripts/processors.py data_dir=FOLDER --only linear drift          only those of two benchmarks
    python scripts/processors.py data_dir=FOLDER --only linear --data OHSUMED     only those on a set of data

What is not played anew keeps its lines of the table.

Instruction sets are limited by variables of the environment, which torch, MKL, OpenBLAS and numba read when they are
imported: each processor has a process of its own. What was played is kept in outputs/processors, and the same command
continues. Some settings are played on the processor at hand as it is. docs/benchmark/protocol.md has the rule.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import polars as pl  # noqa: E402
import torch  # noqa: E402

from ol2r_cli.config.composer import Composer  # noqa: E402
from ol2r_cli.config.instantiate import build  # noqa: E402
from ol2r_cli.files import write_parquet  # noqa: E402
from ol2r_cli.plugins.benchmark import results  # noqa: E402
from ol2r_cli.plugins.benchmark.recipe import by_name, recipe_names  # noqa: E402
from ol2r_cli.plugins.benchmark.repeat import is_other  # noqa: E402
from ol2r_cli.plugins.benchmark.results import PROCESSORS_FILE, TEST, Row  # noqa: E402
from ol2r_cli.report.finished_run import FinishedRun  # noqa: E402
from ol2r_cli.run import DONE  # noqa: E402
from ol2r_cli.run.experiment import Experiment  # noqa: E402
from ol2r_cli.run.run import Run  # noqa: E402
from ol2r_cli.run.runner import Runner  # noqa: E402

KEPT = Path("outputs/processors")
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
SECONDS = 0.5  # of CPU time, as published, that the seeds of a setting may take; one is played in any case
MOST_SECONDS = 0.6  # of CPU time of a seed, as published, of settings whose rounds are all played
FIRST_ROUNDS = 500  # that are played of others, and of networks, most of which differ by then
EVERY = 40  # one of so many settings is played on all processors
Key = tuple[str, str, int, int]  # of a play: processor, setting, seeds, rounds
Values = Mapping[int, Mapping[str, float | None]]  # by seed and metric


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="SETTING=VALUE", help="data_dir, cache_dir")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="benchmarks (all)")
    parser.add_argument("--data", nargs="+", metavar="DATA", help="sets of data, as pages name them (all)")
    parser.add_argument("--processor", choices=[*PROCESSORS], help="play on this one alone, and write nothing")
    parser.add_argument("--kept", type=Path, default=KEPT, help=f"folder of what was played ({KEPT})")
    options = parser.parse_args()
    settings = published_settings(options.only or recipe_names("benchmark"), options.data)
    if not settings:
        parser.error(f"nothing is published of {' and '.join(options.data or options.only)}")
    if options.processor:
        play_all(options.processor, settings, options.overrides, options.kept)
        return 0
    while todo := plays(settings, kept(options.kept)):
        for processor in dict.fromkeys(play.processor for play in todo):
            again = [sys.executable, __file__, *sys.argv[1:], "--processor", processor]
            subprocess.run(again, env=os.environ | PROCESSORS[processor], check=True)
    table = results.published_dir() / PROCESSORS_FILE
    write_parquet(table, with_others(compared(settings, kept(options.kept)), table, options.only, options.data))
    print(f"written: {table}")
    return 0


def with_others(
    frame: pl.DataFrame, table: Path, names: Sequence[str] | None, data: Sequence[str] | None
) -> pl.DataFrame:
    """Return these rows after those of a table that are not of these benchmarks and sets of data; None is all."""
    if names is None and data is None:
        return frame
    of_names = pl.lit(True) if names is None else pl.col("benchmark").is_in(names)
    of_data = pl.lit(True) if data is None else pl.col("table").is_in(data)
    return pl.concat([pl.read_parquet(table).filter(~(of_names & of_data)), frame])


def play_all(processor: str, settings: Sequence[PublishedSetting], overrides: Sequence[str], folder: Path) -> None:
    """Play on one processor what is not yet kept, cheap settings first."""
    unset = {name: value for name, value in PROCESSORS[processor].items() if os.environ.get(name) != value}
    if unset:
        raise SystemExit(f"{processor} needs {' '.join(f'{name}={value}' for name, value in unset.items())}")
    todo = [play for play in plays(settings, kept(folder)) if play.processor == processor]
    folder.mkdir(parents=True, exist_ok=True)
    composer, began = Composer(), time.process_time()
    with open(folder / f"{processor}.jsonl", "a", encoding="utf-8") as file:
        for number, play in enumerate(todo, 1):
            values = played(play, composer, overrides)
            file.write(json.dumps({"key": play.key, "values": values}) + "\n")
            file.flush()
            seconds = time.process_time() - began
            print(f"{processor}: {number} of {len(todo)}, {seconds:.0f} CPU s", file=sys.stderr, flush=True)


def plays(settings: Sequence[PublishedSetting], before: Mapping[Key, Values]) -> list[Play]:
    """Return what is to be played next, on all processors, cheap settings first."""
    return [play for number, setting in enumerate(settings) for play in missing(setting, before, number % EVERY == 0)]


def kept(folder: Path) -> dict[Key, Values]:
    """Return the values by seed of what was played, by `Play.key`."""
    found = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            content = json.loads(line)
            found[tuple(content["key"])] = {int(seed): values for seed, values in content["values"].items()}
    return found


def played(play: Play, composer: Composer, overrides: Sequence[str]) -> Values:
    """Return the final values of a play by seed."""
    with tempfile.TemporaryDirectory(prefix="ol2r-processors-") as folder, torch.inference_mode():
        composition = composer([*play.words, *overrides, f"output_dir={folder}"])
        experiment = Experiment(composition.settings, composition.choices, make)
        with experiment.directory:
            if Runner(experiment, "scripts/processors.py", render=None).run() != DONE:
                raise SystemExit(f"it failed: {' '.join(play.words)}")
        by_seed = Run.read_finished(experiment.directory.path).per_seed.to_dicts()
    return {row.pop("seed"): row for row in by_seed}


def make(settings: Any, group: str) -> Any:
    """Build the object that the settings of a group name; data are loaded once."""
    return source(json.dumps(settings, sort_keys=True)) if group == "dataset" else build(settings, group)


@cache
def source(settings: str) -> Any:
    return SimpleNamespace(load=cache(build(json.loads(settings), "dataset").load))


@dataclass
class PublishedSetting:
    """Rounds that were published: the run of their first fold, and the rows that have them, by benchmark.

    Benchmarks differ in what they evaluate, so that several published runs may have the same rounds.
    """

    run: FinishedRun
    rows: list[tuple[str, Row]]

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


def _words_of(run: FinishedRun, row: Row) -> list[str]:
    named = by_name(row.words)
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


def published_settings(names: Iterable[str], data: Collection[str] | None = None) -> list[PublishedSetting]:
    """Return what these benchmarks have published, each setting of the first fold once, cheap ones first.

    data: the sets of data, as pages name them; None is all.
    """
    found: dict[str, PublishedSetting] = {}
    for name in names:
        for row in results.published(name):
            if data is not None and row.condition.data not in data:
                continue
            run = min(row.group.runs, key=lambda run: run.fold or 0)
            setting = PublishedSetting(run, [(name, row)])
            if setting.name in found:
                found[setting.name].rows.append((name, row))
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
    for benchmark, row in setting.rows:
        yield {
            "benchmark": benchmark,
            "table": row.condition.data,
            "click": setting.run.choices["click"],
            "competitor": row.competitor,
            "aim": row.aim,
            "overrides": shlex.join(row.words),
            "fold": setting.run.fold,
            "seed": seed,
            "rounds": play.rounds,
            "processor": play.processor,
            "differs": is_other(values, expected),
            **{f"{metric}_difference": abs((values[metric] or 0.0) - (expected[metric] or 0.0)) for metric in _METRICS},
        }


if __name__ == "__main__":
    sys.exit(main())
