"""`ol2r export RUN|DIR --to WHAT --out PATH`: finished runs for other tools: values by query, TREC files, trackers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ol2r_cli.export.ranked import Ranked

TRACKERS = ("tensorboard", "mlflow", "wandb")
WHAT = ("per-query", "trec", *TRACKERS)
EPILOG = """examples:
  ol2r export outputs --to per-query --out queries.parquet       NDCG, reciprocal rank and ERR by seed and query
  ol2r export 0123456789 --to per-query --out queries.csv        a run below outputs by its id
  ol2r export 0123456789 --to per-query --split validation --out queries.csv
  ol2r export 0123456789 --to trec --out trec                    trec/seed-0.run, .. and trec/qrels.txt
  ol2r export outputs --to tensorboard --out tb                  then: tensorboard --logdir tb
  ol2r export outputs --to mlflow --out runs.db                  then: mlflow ui --backend-store-uri sqlite:///runs.db
  ol2r export outputs --to wandb --out wb                        offline; then, if wanted: wandb sync wb/wandb/offline-*
"""


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when there is nothing to export, or not what was asked for."""
    parser = argparse.ArgumentParser(
        "ol2r export",
        usage="ol2r export RUN|DIR [RUN|DIR ...] --to WHAT --out PATH [--split SPLIT] [--data DIR] [--points N]",
        description=__doc__.partition(": ")[2] + " Exporting again replaces what was exported before.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", metavar="RUN|DIR", nargs="+", help="a run, its id below outputs, or a folder of runs")
    parser.add_argument("--to", metavar="WHAT", required=True, choices=WHAT, help=f"one of {', '.join(WHAT)}")
    parser.add_argument("--out", metavar="PATH", required=True, type=Path, help="a file or a folder: see the examples")
    parser.add_argument("--split", choices=("test", "validation"), help="for per-query and trec (default: test)")
    parser.add_argument("--data", metavar="DIR", type=Path, help="where the runs' data are now, for per-query and trec")
    parser.add_argument("--points", metavar="N", type=int, help="of a curve of a tracker, at most (default: 500)")
    given = parser.parse_intermixed_args(arguments)
    try:
        for line in _export(given):
            print(line)
    except ValueError as error:
        print(f"ol2r export: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        what = f"--out must be a place that can be written, got {given.out}"
        print(f"ol2r export: {what} ({error.strerror}: {error.filename})", file=sys.stderr)
        return 2
    return 0


def _export(given: argparse.Namespace) -> Iterable[str]:
    """Do it; lines that say what was done."""
    _check(given)
    paths = list(dict.fromkeys(path for name in given.runs for path in _paths(name)))
    if given.to in TRACKERS:
        from ol2r_cli.export.tracked import POINTS, tracked

        write = import_module(f"ol2r_cli.export.{given.to}").write
        return write(_each(paths, lambda path: tracked(path, given.points or POINTS)), given.out)

    import torch

    from ol2r_cli.export.ranked import Ranked

    with torch.inference_mode():
        ranked = _each(paths, lambda path: Ranked(path, given.split or "test", given.data))
        if given.to == "per-query":
            return _write_table(ranked, given.out)
        return _write_trec(ranked, given.out, several=len(paths) > 1)


def _check(given: argparse.Namespace) -> None:
    """What can be said before a run is read."""
    if given.to in TRACKERS:
        if find_spec(given.to) is None:
            raise ValueError(f"--to {given.to} needs the package {given.to}: type pip install 'ol2r[{given.to}]'")
        unused = [option for option in ("split", "data") if getattr(given, option) is not None]
    else:
        unused = ["points"] if given.points is not None else []
    if unused:
        raise ValueError(f"--{unused[0]} does not go with --to {given.to}: leave it out")
    if given.points is not None and given.points < 1:
        raise ValueError(f"--points must be 1 or more, got {given.points}")
    if given.to == "per-query" and given.out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--out must end in .csv or .parquet, got {given.out}")


def _paths(name: str) -> list[Path]:
    from ol2r_cli.results.survey import find_run, find_runs

    found = list(find_runs(name)) if Path(name).is_dir() else []
    return found or [find_run(name)]


def _each(paths: list[Path], read: Callable[[Path], Any]) -> Iterator[Any]:
    """The runs that can be exported; of several, those that cannot are told. ValueError when none can."""
    some, last = False, ""
    for path in paths:
        try:
            run = read(path)
        except ValueError as error:
            if last:
                print(f"ol2r export: left out: {last}", file=sys.stderr)
            last = str(error)
            continue
        some = True
        yield run
    if not some:
        raise ValueError(last)
    if last:
        print(f"ol2r export: left out: {last}", file=sys.stderr)


def _write_table(ranked: Iterable[Ranked], out: Path) -> list[str]:
    import polars as pl

    from ol2r_cli.export.per_query import per_query
    from ol2r_cli.results.directory import RunDirectory

    table = pl.concat([per_query(run) for run in ranked])
    if out.suffix == ".csv":
        RunDirectory(out.parent).write_text(out.name, table.write_csv())
    else:
        RunDirectory(out.parent).write_parquet(out.name, table)
    count = table["run"].n_unique()
    return [f"written: {out} ({len(table):,} rows of {count} run{'s' * (count > 1)})"]


def _write_trec(ranked: Iterable[Ranked], out: Path, several: bool) -> list[str]:
    from ol2r_cli.export.trec import write_trec

    lines = []
    for run in ranked:
        folder = out / run.learned.path.name if several else out
        files = write_trec(run, folder)
        lines.append(f"written: {folder} ({', '.join(file.name for file in files)})")
    return lines
