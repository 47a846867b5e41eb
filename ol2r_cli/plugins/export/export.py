"""`ol2r export RUN|DIR --to WHAT --out PATH`: finished runs for other tools (values by query, TREC files, weights to
serve, TensorBoard).
Exporting again replaces what was exported before.

examples:
  ol2r export outputs --to per-query --out queries.parquet       NDCG, reciprocal rank and ERR by seed and query
  ol2r export 0123456789 --to per-query --out queries.csv        a run below outputs by its id
  ol2r export 0123456789 --to per-query --split validation --out queries.csv
  ol2r export 0123456789 --to trec --out trec                    trec/seed-0.run, .. and trec/qrels.txt
  ol2r export 0123456789 --to clicks --out log.parquet           clicks and examination; or log.csv, log.txt
  ol2r export 0123456789 --to weights --out weights.json         a linear ranker, to be served without ol2r
  ol2r export outputs --to tensorboard --out tb                  then: tensorboard --logdir tb
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir, default_output_dir
from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.report.frames import as_csv
from ol2r_cli.run.own_code import explained, is_own, trusted_targets
from ol2r_cli.run.run import named_runs
from ol2r_cli.text.formatting import one_of, plural

SUFFIXES = {
    "per-query": (".csv", ".parquet"),
    "clicks": (".parquet", ".csv", ".txt"),
    "weights": (".json",),
}  # of --out
WHAT = ("per-query", "trec", "clicks", "weights", "tensorboard")


@command(
    argument("runs", metavar="RUN|DIR", nargs="*", help="a folder of runs, a run, its id or FOLDER/ID"),
    argument("--to", metavar="WHAT", required=True, choices=WHAT, help=f"one of {', '.join(WHAT)}"),
    argument("--out", metavar="PATH", required=True, type=Path, help="a file or a folder: see the examples"),
    argument("--split", choices=("test", "validation"), help="for per-query and trec (default: test)"),
    argument("--data", metavar="DIR", type=Path, help="where the runs' data are now, not for tensorboard"),
    add_config_dir,
    argument(
        "--team", metavar="NAME", help="for trec: metadata of a team in the files of runs, as shared tasks require"
    ),
    argument("--points", metavar="N", type=int, help="of a curve of TensorBoard, at most (default: 500)"),
)
def main(given: argparse.Namespace) -> None:
    _check_options(given)
    names = given.runs or [str(default_output_dir())]
    paths = list(dict.fromkeys(path for name in names for path in named_runs(name)))
    try:
        for line in _export(given, paths):
            print(line)
    except OSError as error:
        if is_own(error):
            raise ValueError(explained(error)) from error
        reason = f"{error.strerror}: {error.filename}"
        raise ValueError(f"--out must be a place that can be written, got {given.out} ({reason})") from error


def _check_options(given: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go with --to, or that it cannot do with."""
    is_tensorboard = given.to == "tensorboard"
    for option in ("split", "data", "config_dir") if is_tensorboard else ("points",):
        if getattr(given, option) not in (None, []):
            raise ValueError(f"--{option.replace('_', '-')} does not go with --to {given.to}: leave it out")
    if is_tensorboard and find_spec("tensorboard") is None:
        raise ValueError("--to tensorboard needs the package tensorboard: type pip install 'ol2r[tensorboard]'")
    if given.team is not None and given.to != "trec":
        raise ValueError(f"--team does not go with --to {given.to}: leave it out")
    if given.team is not None and not given.team.strip():
        raise ValueError("--team must be the name of a team, got nothing: leave it out for files without metadata")
    if given.points is not None and given.points < 1:
        raise ValueError(f"--points must be 1 or more, got {given.points}")
    if given.to == "clicks" and given.split is not None:
        raise ValueError("--split does not go with --to clicks, as users click in training: leave it out")
    if given.to == "weights" and given.split is not None:
        raise ValueError("--split does not go with --to weights: leave it out")
    suffixes = SUFFIXES.get(given.to)
    if suffixes and given.out.suffix not in suffixes:
        raise ValueError(f"--out must end in {one_of(suffixes)}, got {given.out}")


def _export(given: argparse.Namespace, paths: list[Path]) -> Iterator[str]:
    """Export runs, and yield a line for each file or folder that is written."""
    if given.to == "clicks":
        return _clicks(given, paths)
    if given.to == "weights":
        return _weights(given, paths)
    if given.to == "tensorboard":
        from ol2r_cli.plugins.export import tensorboard

        runs = _readable(paths, lambda path: tensorboard.tracked_run(path, given.points or tensorboard.POINTS))
        return tensorboard.write(runs, given.out)
    return _ranked(given, paths)


def _ranked(given: argparse.Namespace, paths: list[Path]) -> Iterator[str]:
    import polars as pl
    import torch

    from ol2r_cli.plugins.export import ranked_split

    own, out = trusted_targets(given.config_dir), given.out
    with torch.inference_mode():
        runs = _readable(paths, lambda path: ranked_split.RankedSplit(path, given.split or "test", given.data, own))
        if given.to == "trec":
            for run in runs:
                folder = out / run.run.path.name if len(paths) > 1 else out
                files = ranked_split.write_trec(run, folder, given.team or "")
                yield f"written: {folder} ({', '.join(file.name for file in files)})"
            return
        table = pl.concat([ranked_split.per_query(run) for run in runs], how="diagonal")  # runs may have other measures
        table = table.unique(["run", "seed", "query"], keep="first", maintain_order=True)  # and copies
    if out.suffix == ".csv":
        write_text(out, as_csv(table))
    else:
        write_parquet(out, table)
    yield f"written: {out} ({len(table):,} rows of {plural(table['run'].n_unique(), 'run')})"


def _only(given: argparse.Namespace, paths: list[Path]) -> Path:
    """Return the one run; ValueError for several."""
    if len(paths) > 1:
        raise ValueError(f"--to {given.to} is for one RUN, got {len(paths)}: type its id")
    return paths[0]


def _weights(given: argparse.Namespace, paths: list[Path]) -> Iterator[str]:
    import torch

    from ol2r_cli.plugins.export import weights

    with torch.inference_mode():
        content = weights.weights(_only(given, paths), given.data, trusted_targets(given.config_dir))
    write_text(given.out, json.dumps(content, indent=1, allow_nan=False) + "\n")
    seeds, normalised = plural(len(content["weights"]), "seed"), f"normalise {content['normalise']}"
    yield f"written: {given.out} (weights of {plural(len(content['features']), 'feature')}, {seeds}, {normalised})"


def _clicks(given: argparse.Namespace, paths: list[Path]) -> Iterator[str]:
    import torch

    from ol2r_cli.plugins.export import click_log

    with torch.inference_mode():
        table, dataset = click_log.click_log(_only(given, paths), given.data, trusted_targets(given.config_dir))
        click_log.write(table, dataset, given.out)
    clicks = f"{int(table['click'].sum()):,} clicks"
    yield f"written: {given.out} ({len(table):,} shown documents, {clicks}, {table['session'].n_unique():,} sessions)"


def _readable(paths: list[Path], read: Callable[[Path], Any]) -> Iterator[Any]:
    """Yield the runs that can be exported. Prints why others are left out; ValueError when none can be exported."""
    reasons: list[str] = []
    for path in paths:
        try:
            run = read(path)
        except ValueError as error:
            reasons.append(str(error))
            continue
        yield run
    none_is_left = len(reasons) == len(paths)
    for reason in reasons[1:] if none_is_left else reasons:  # the first is that of the error
        print(f"ol2r export: left out: {reason}", file=sys.stderr)
    if none_is_left:
        raise ValueError(reasons[0])
