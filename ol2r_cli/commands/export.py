"""`ol2r export RUN|DIR --to WHAT --out PATH`: finished runs for other tools (values by query, TREC files, trackers).
Exporting again replaces what was exported before.

examples:
  ol2r export outputs --to per-query --out queries.parquet       NDCG, reciprocal rank and ERR by seed and query
  ol2r export 0123456789 --to per-query --out queries.csv        a run below outputs by its id
  ol2r export 0123456789 --to per-query --split validation --out queries.csv
  ol2r export 0123456789 --to trec --out trec                    trec/seed-0.run, .. and trec/qrels.txt
  ol2r export outputs --to tensorboard --out tb                  then: tensorboard --logdir tb
  ol2r export outputs --to mlflow --out runs.db                  then: mlflow ui --backend-store-uri sqlite:///runs.db
  ol2r export outputs --to wandb --out wb                        offline; then, if wanted: wandb sync wb/wandb/offline-*
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.atomic_file import write_parquet, write_text
from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.instantiate import trusted_targets
from ol2r_cli.config.own_choices import add_config_dir, default_output_dir
from ol2r_cli.formatting import plural
from ol2r_cli.report.frames import as_csv
from ol2r_cli.run.exit_status import DONE
from ol2r_cli.run.run import named_runs

if TYPE_CHECKING:
    from ol2r_cli.export.ranked_split import RankedSplit

TRACKERS = ("tensorboard", "mlflow", "wandb")
WHAT = ("per-query", "trec", *TRACKERS)


@command(
    argument("runs", metavar="RUN|DIR", nargs="*", help="a folder of runs, a run, its id or FOLDER/ID"),
    argument("--to", metavar="WHAT", required=True, choices=WHAT, help=f"one of {', '.join(WHAT)}"),
    argument("--out", metavar="PATH", required=True, type=Path, help="a file or a folder: see the examples"),
    argument("--split", choices=("test", "validation"), help="for per-query and trec (default: test)"),
    argument("--data", metavar="DIR", type=Path, help="where the runs' data are now, for per-query and trec"),
    add_config_dir,
    argument("--points", metavar="N", type=int, help="of a curve of a tracker, at most (default: 500)"),
)
def main(given: argparse.Namespace) -> int:
    try:
        for line in _export(given):
            print(line)
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        raise ValueError(f"--out must be a place that can be written, got {given.out} ({reason})") from error
    return DONE


def _export(options: argparse.Namespace) -> Iterable[str]:
    _check(options)
    names = options.runs or [str(default_output_dir())]
    paths = list(dict.fromkeys(path for name in names for path in named_runs(name)))
    if options.to in TRACKERS:
        from ol2r_cli.export import trackers

        points = options.points or trackers.POINTS
        write = getattr(trackers, f"write_{options.to}")
        yield from write(_readable(paths, lambda path: trackers.tracked_run(path, points)), options.out)
        return

    import torch

    from ol2r_cli.export.ranked_split import RankedSplit

    own_targets = trusted_targets(options.config_dir)
    with torch.inference_mode():
        runs = _readable(paths, lambda path: RankedSplit(path, options.split or "test", options.data, own_targets))
        if options.to == "per-query":
            yield _write_table(runs, options.out)
        else:
            yield from _write_trec(runs, options.out, several=len(paths) > 1)


def _check(options: argparse.Namespace) -> None:
    if options.to in TRACKERS:
        if find_spec(options.to) is None:
            package = options.to
            raise ValueError(f"--to {package} needs the package {package}: type pip install 'ol2r[{package}]'")
        unused = [option for option in ("split", "data", "config_dir") if getattr(options, option)]
    else:
        unused = ["points"] if options.points is not None else []
    if unused:
        raise ValueError(f"--{unused[0].replace('_', '-')} does not go with --to {options.to}: leave it out")
    if options.points is not None and options.points < 1:
        raise ValueError(f"--points must be 1 or more, got {options.points}")
    if options.to == "per-query" and options.out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--out must end in .csv or .parquet, got {options.out}")


def _readable(paths: list[Path], read: Callable[[Path], Any]) -> Iterator[Any]:
    """Return the runs that can be exported. Prints why others are left out; ValueError when none can be exported."""
    exported, reason = False, ""
    for path in paths:
        try:
            run = read(path)
        except ValueError as error:
            if reason:
                print(f"ol2r export: left out: {reason}", file=sys.stderr)
            reason = str(error)
            continue
        exported = True
        yield run
    if not exported:
        raise ValueError(reason)
    if reason:
        print(f"ol2r export: left out: {reason}", file=sys.stderr)


def _write_table(runs: Iterable[RankedSplit], out: Path) -> str:
    import polars as pl

    from ol2r_cli.export.ranked_split import per_query

    table = pl.concat([per_query(run) for run in runs], how="diagonal")  # runs may have other measures
    if out.suffix == ".csv":
        write_text(out, as_csv(table))
    else:
        write_parquet(out, table)
    return f"written: {out} ({len(table):,} rows of {plural(table['run'].n_unique(), 'run')})"


def _write_trec(runs: Iterable[RankedSplit], out: Path, several: bool) -> Iterator[str]:
    from ol2r_cli.export.ranked_split import write_trec

    for run in runs:
        folder = out / run.trained.run.path.name if several else out
        files = write_trec(run, folder)
        yield f"written: {folder} ({', '.join(file.name for file in files)})"
