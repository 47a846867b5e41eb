"""The commands of `ol2r`, and what to type for `ol2r` where a shell does not find it by this name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys

from ol2r_cli.formatting import shown_path
from ol2r_cli.kinds import other_kinds, run_kinds

# subcommand, `main` of the module of its name in commands/: a description
COMMANDS = {
    "run": run_kinds()["run"].about,
    "list": "all components and settings: rankers, click models, datasets, ..",
    "status": "runs in a folder: finished, running, interrupted, failed and why",
    "report": "tables and figures of finished runs, with paired comparisons",
    "data": "statistics of a dataset, parsing it ahead, checking its files",
    "benchmark": "expected results of every ranker, and your own beside them",
    "search": "settings with the best validation NDCG within ranges, by Optuna",
    "reproduce": "a figure or table of the papers: runs, draws, compares",
    "new": "a component of your own that works: class, settings and test",
    "check": "property checks of components, such as your own",
    "diff": "two runs side by side: settings, results, where rounds diverge",
    "score": "scores of a finished run's ranker for the documents of a file",
    "export": "finished runs for other tools: by query, TREC, trackers",
    "verify": "whether finished runs are intact: hashes, rows, sums, summaries",
    "clean": "disk usage of runs, and removal after confirmation",
    "bench": "rounds per second on a generated MSLR-sized dataset",
    **{kind.name: kind.about for kind in other_kinds()},
    "doctor": "versions, CUDA, data found, disk",
    "completion": "completion script for bash, zsh, fish or tcsh",
}


def program() -> str:
    """Return what to type for this program: `ol2r`, or its path as it was called where that is no name of a shell.

    A shell finds no `ol2r`, or another one, after `make run` and in an environment that is not active. In a notebook,
    in a script of the user's and for `python -m ol2r_cli`, it is `ol2r`.
    """
    called = sys.argv[0]
    found = shutil.which("ol2r")
    if os.path.basename(called) != "ol2r" or (found and os.path.realpath(found) == os.path.realpath(called)):
        return "ol2r"
    return shlex.quote(shown_path(called))


def as_called(text: object) -> str:
    """Return text in which commands to type, such as `ol2r list`, begin with the program as it was called."""
    commands = "|".join([*COMMANDS, "COMMAND"])
    return re.sub(rf"(?<![\w./-])ol2r(?= (?:{commands})\b)", lambda _: program(), str(text))
