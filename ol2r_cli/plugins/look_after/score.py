"""`ol2r score RUN FILE`: the scores of a finished run's ranker for the documents of a file, one per line. The scores
are those of the offline evaluation, without exploration, in the order of the file; features are normalised as those of
the run's dataset.

examples:
  ol2r score outputs/mq2008/pairrank-informational-0123456789 test.txt     to the terminal
  ol2r score 0123456789 test.txt.gz --output scores.txt                    a run below outputs by its id
  ol2r score tour/0123456789 test.txt                                      a run below another folder by its id
  ol2r score 0123456789 test.txt --seed 3                                  by the replica of seed 3
  ol2r score 0123456789 - < test.txt                                       from stdin, or a pipe
  ol2r score 0123456789 test.txt --config-dir choices                      a ranker of your own
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir
from ol2r_cli.files import is_special, write_text
from ol2r_cli.run.own_code import trusted_targets
from ol2r_cli.run.run import Run, find_run


@command(
    argument("run", metavar="RUN", help="finished run: its directory, its id below outputs, or FOLDER/ID"),
    argument(
        "file", metavar="FILE", type=Path, help="LETOR text, plain or .gz, or - for stdin; its grades are ignored"
    ),
    argument("--seed", metavar="S", type=int, help="replica to score with (default: the run's first seed)"),
    argument("--output", metavar="FILE", type=Path, help="write the scores to this file"),
    argument("--data", metavar="DIR", type=Path, help="where the run's data are now, if they are needed"),
    add_config_dir,
)
def main(given: argparse.Namespace) -> None:
    path = find_run(given.run)
    import torch

    from ol2r_cli.run.recomputed import TrainedRanker

    with torch.inference_mode():
        ranker = TrainedRanker(Run.read_finished(path), trusted_targets(given.config_dir))
        replica = ranker.replica(given.seed, "--seed")
        with _regular(given.file) as file:
            documents = ranker.feature_source(given.data).of_file(file)
        for line in documents.warnings:
            print(f"warning: {line}", file=sys.stderr)
        scores = ranker.scores(documents, replica)
    text = "".join(f"{score!s}\n" for score in scores.numpy())  # as many digits as identify it in its precision
    if given.output is None:
        sys.stdout.write(text)
        return
    try:
        write_text(given.output, text)
    except OSError as error:
        raise ValueError(
            f"--output must be a file that can be written, got {given.output} ({error.strerror})"
        ) from error
    print(f"written: {given.output}")


@contextmanager
def _regular(file: Path) -> Iterator[Path]:
    """Yield a file that can be read more than once, which a pipe cannot: a copy of what it has. `-` is stdin."""
    is_stdin = str(file) == "-"
    if not is_stdin and not is_special(file):
        yield file
        return
    if is_stdin and sys.stdin is None:
        raise ValueError("FILE must be a file, got -, and stdin is closed")
    with TemporaryDirectory(prefix="ol2r-") as folder:
        copy = Path(folder, "stdin" if is_stdin else file.name)
        with copy.open("wb") as written, nullcontext(sys.stdin.buffer) if is_stdin else file.open("rb") as pipe:
            shutil.copyfileobj(pipe, written)
        try:
            yield copy
        except ValueError as error:
            raise ValueError(str(error).replace(f"{folder}/", "")) from None
