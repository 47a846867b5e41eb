"""The `ol2r` command: imports the module of the subcommand and calls its `main`. Nothing heavy is imported before."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from importlib import import_module
from importlib.util import find_spec

from ol2r_cli.formatting import nearest
from ol2r_cli.run.exit_status import INTERRUPTED, exits_when_interrupted

# subcommand, `main` of the module of its name in commands/: a description
COMMANDS = {
    "run": "one experiment, or with -m a sweep; finished runs are not repeated",
    "list": "all choices and settings: rankers, click models, datasets, ..",
    "status": "runs in a folder: finished, running, interrupted, failed and why",
    "report": "tables and figures of finished runs, with comparisons",
    "data": "statistics of a dataset, parsing it ahead, checking its files",
    "benchmark": "expected results of every ranker, and your own beside them",
    "search": "the best settings within ranges by validation NDCG, by Optuna",
    "reproduce": "a figure or table of the papers: runs, draws, compares",
    "new": "a choice of your own that works: class, settings and test",
    "check": "whether choices, such as your own, keep the laws of all",
    "diff": "two runs side by side: settings, results, where rounds part",
    "score": "scores of a finished run's ranker for the documents of a file",
    "export": "finished runs for other tools: by query, TREC, trackers",
    "verify": "whether finished runs are intact: hashes, rows, sums, summaries",
    "clean": "disk usage of runs, and removal after confirmation",
    "bench": "rounds per second on a generated MSLR-sized dataset",
    "doctor": "versions, CUDA, data found, disk",
    "completion": "completion script for bash, zsh, fish or tcsh",
}
_MEANT = {"compare": "ol2r report --compare all", "plot": "ol2r report --figure", "sweep": "ol2r run -m"}  # no commands

EPILOG = """examples:
  ol2r run                                            PairRank on generated data
  ol2r run click=navigational rounds=2000 replicas=5  five seeds at once
  ol2r run dataset=mq2008 dataset.path=$HOME/MQ2008   real data (LETOR folders)
  ol2r run -m ranker.l2=0.1,0.01 click=per,nav,inf    a sweep
  ol2r COMMAND --help                                 more about one command
exit codes: 0 done, 1 a run failed, 2 bad configuration or data,
  3 a sweep with failed jobs, 130 interrupted
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `ol2r` itself; subcommands parse what follows their name."""
    lines = [f"  {name:11} {what}" for name, what in COMMANDS.items()]
    lines[6:6] = ["\nother commands:"]
    top = argparse.ArgumentParser(
        prog="ol2r",
        usage="ol2r COMMAND [ARGUMENT ...]",
        description="\n".join(["Online learning to rank from simulated clicks.\n", "commands to begin with:", *lines]),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="show the version, and the commit of a checkout")
    top.add_argument("command", help=argparse.SUPPRESS, metavar="COMMAND")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    code = 0
    try:
        try:
            code = _command(sys.argv[1:] if arguments is None else arguments)
        finally:  # also after SystemExit, by which argparse ends after --help
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        exec("")  # if it passed an exec() of text, as in a dataclass, Python would end with SIGINT instead of this code
        code = INTERRUPTED
    except BrokenPipeError:  # `ol2r list | head`
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.close()  # or the interpreter would flush it at the end, and complain
    return code


def _command(arguments: list[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:  # a shell asks, by the script of `ol2r completion`
        import_module("ol2r_cli.commands.completion").answer(parser())
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        parser().print_help()
        return 0
    command, *rest = arguments
    if command == "--version":
        from ol2r_cli.run.identity import version_line

        print(f"ol2r {version_line()}")
        return 0
    if command not in COMMANDS:
        near = nearest(command, [*COMMANDS, "--help", "--version"], "ol2r ")
        meant = f": type {_MEANT[command]}" if command in _MEANT else near
        print(f"ol2r: no command '{command}'{meant or ': choose from ' + ', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    if command == "completion" and find_spec("argcomplete") is None:
        print("ol2r completion: needs argcomplete: type pip install 'ol2r[completion]'", file=sys.stderr)
        return 2
    with exits_when_interrupted():
        module = import_module(f"ol2r_cli.commands.{command}")
    return module.main(rest)


if __name__ == "__main__":
    sys.exit(main())
