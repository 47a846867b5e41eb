"""`ol2r score RUN FILE`: the scores of a finished run's ranker for the documents of a file, one per line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ol2r_cli.atomic_file import write_text
from ol2r_cli.config.own_choices import add_config_dir
from ol2r_cli.formatting import HelpFormatter
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE

EPILOG = """examples:
  ol2r score outputs/mq2008/pairrank-informational-0123456789 test.txt     to the terminal
  ol2r score 0123456789 test.txt.gz --output scores.txt                    a run below outputs by its id
  ol2r score tour/0123456789 test.txt                                      a run below another folder by its id
  ol2r score 0123456789 test.txt --seed 3                                  by the replica of seed 3
  ol2r score 0123456789 test.txt --config-dir choices                      a ranker of your own
"""


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r score`."""
    options = argparse.ArgumentParser(
        "ol2r score",
        description=(__doc__ or "").partition(": ")[2]
        + " The scores are those of the offline evaluation, without exploration,"
        " in the order of the file; features are normalised as those of the run's dataset.",
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    options.add_argument("run", metavar="RUN", help="finished run: its directory, its id below outputs, or FOLDER/ID")
    options.add_argument("file", metavar="FILE", type=Path, help="LETOR text, plain or .gz; its grades are ignored")
    options.add_argument("--seed", metavar="S", type=int, help="replica to score with (default: the run's first seed)")
    options.add_argument("--output", metavar="FILE", type=Path, help="write the scores to this file")
    options.add_argument("--data", metavar="DIR", type=Path, help="where the run's data are now, if they are needed")
    add_config_dir(options)
    return options


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when the run or the file is not what it should be."""
    options = parser().parse_intermixed_args(arguments)
    try:
        scores = _scores(options)
        if options.output is None:
            sys.stdout.write(scores)
        else:
            _write(options.output, scores)
    except ValueError as error:
        print(f"ol2r score: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    return DONE


def _scores(options: argparse.Namespace) -> str:
    """One score per line, in as many digits as identify it in its precision."""
    from ol2r_cli.run.run import Run, find_run

    path = find_run(options.run)

    import torch

    from ol2r_cli.config.instantiate import trusted_targets

    with torch.inference_mode():
        ranker = Run.read_finished(path).read_ranker(trusted_targets(options.config_dir))
        scores = ranker.scores(options.file, options.seed, options.data)
    return "".join(f"{score!s}\n" for score in scores.numpy())


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise ValueError(f"--output must be a file that can be written, got {path} ({error.strerror})") from error
    print(f"written: {path}")
