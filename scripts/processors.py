"""Play the published settings of the benchmark as other processors would, for the mark ‡ of its pages.

    python scripts/processors.py data_dir=FOLDER             plays what is missing, and writes the table
    python scripts/processors.py data_dir=FOLDER --only linear drift          only those of two benchmarks, and no table

Instruction sets are limited by variables of the environment, which torch, MKL, OpenBLAS and numba read when they are
imported: each processor has a process of its own. What was played is kept in outputs/processors, and the same command
continues. Some settings are played on the processor at hand as it is. docs/benchmark/protocol.md has the rule.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from ol2r_cli.config.composer import Composer  # noqa: E402
from ol2r_cli.config.instantiate import build  # noqa: E402
from ol2r_cli.files import write_parquet  # noqa: E402
from ol2r_cli.plugins.benchmark.processors import (  # noqa: E402
    EVERY,
    FILE,
    PROCESSORS,
    Key,
    Play,
    PublishedSetting,
    Values,
    compared,
    missing,
    published_settings,
)
from ol2r_cli.plugins.benchmark.recipe import recipe_names  # noqa: E402
from ol2r_cli.plugins.benchmark.results import published_dir  # noqa: E402
from ol2r_cli.run import DONE  # noqa: E402
from ol2r_cli.run.experiment import Experiment  # noqa: E402
from ol2r_cli.run.run import Run  # noqa: E402
from ol2r_cli.run.runner import Runner  # noqa: E402

KEPT = Path("outputs/processors")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="SETTING=VALUE", help="data_dir, cache_dir")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="benchmarks (all)")
    parser.add_argument("--processor", choices=[*PROCESSORS], help="play on this one alone, and write nothing")
    parser.add_argument("--kept", type=Path, default=KEPT, help=f"folder of what was played ({KEPT})")
    options = parser.parse_args()
    settings = published_settings(options.only or recipe_names("benchmark"))
    if options.processor:
        play_all(options.processor, settings, options.overrides, options.kept)
        return 0
    while todo := plays(settings, kept(options.kept)):
        for processor in dict.fromkeys(play.processor for play in todo):
            again = [sys.executable, __file__, *sys.argv[1:], "--processor", processor]
            subprocess.run(again, env=os.environ | PROCESSORS[processor], check=True)
    if options.only:
        return 0
    write_parquet(published_dir() / FILE, compared(settings, kept(options.kept)))
    print(f"written: {published_dir() / FILE}")
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
