"""`ol2r score RUN FILE`: what a finished run's ranker gives the documents of a file, one score a line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EPILOG = """examples:
  ol2r score outputs/mq2008/pairrank-informational-0123456789 test.txt     to the terminal
  ol2r score 0123456789 test.txt.gz --output scores.txt                    a run below outputs by its id
  ol2r score 0123456789 test.txt --seed 3                                  by what the replica of seed 3 has learned
"""


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when the run or the file is not what it should be."""
    parser = argparse.ArgumentParser(
        "ol2r score",
        description=__doc__.partition(": ")[2] + " The scores are those of the offline evaluation, without exploration,"
        " in the order of the file; features are normalised as those of the run's dataset.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="directory of a finished run, or its id, below outputs")
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="LETOR text, plain or .gz; its grades are not looked at"
    )
    parser.add_argument("--seed", metavar="S", type=int, help="replica to score with (default: the run's first seed)")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the scores to this file")
    parser.add_argument("--data", metavar="DIR", type=Path, help="where the run's data are now, if they are needed")
    given = parser.parse_intermixed_args(arguments)
    try:
        scores = _scores(given)
        if given.output is None:
            sys.stdout.write(scores)
        else:
            _write(given.output, scores)
    except ValueError as error:
        print(f"ol2r score: {error}", file=sys.stderr)
        return 2
    return 0


def _scores(given: argparse.Namespace) -> str:
    """One score a line, in as many digits as tell it from its neighbours in its precision."""
    from ol2r_cli.results.survey import find_run

    path = find_run(given.run)

    import torch

    from ol2r_cli.learned import Learned

    with torch.inference_mode():
        scores = Learned(path).scores(given.file, given.seed, given.data)
    return "".join(f"{score!s}\n" for score in scores.numpy())


def _write(path: Path, text: str) -> None:
    from ol2r_cli.results.directory import RunDirectory

    try:
        RunDirectory(path.parent).write_text(path.name, text)
    except OSError as error:
        raise ValueError(f"--output must be a file that can be written, got {path} ({error.strerror})") from error
    print(f"written: {path}")
