"""The `ol2r` command: finds a subcommand by the name of its module and runs it.

Nothing heavy is imported before a subcommand is.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec

from ol2r_cli.command import HelpFormatter, with_hyphens
from ol2r_cli.formatting import nearest
from ol2r_cli.program import COMMANDS, as_called
from ol2r_cli.run import BAD_CONFIGURATION, DONE, INTERRUPTED, UNREAD, exits_when_interrupted
from ol2r_cli.terminal import printing

_MEANT = {  # words that are no commands, with what to type
    "compare": "ol2r report --compare all",
    "plot": "ol2r report --figure",
    "figure": "ol2r report --figure",
    "table": "ol2r report",
    "sweep": "ol2r run -m",
    "train": "ol2r run",
    "resume": "the command of the run again, which goes on from its checkpoint: `ol2r status` shows it",
    "continue": "the command of the run again, which goes on from its checkpoint: `ol2r status` shows it",
    "tune": "ol2r search",
    "remove": "ol2r clean",
    "delete": "ol2r clean",
    "ls": "ol2r status",
    "show": "ol2r status",
    "info": "ol2r status",
    "datasets": "ol2r list dataset",
    "rankers": "ol2r list ranker",
}
_FIRST = 6  # commands that the help names before the others

EPILOG = """examples:
  ol2r run                                            PairRank, generated data
  ol2r run click=navigational rounds=2000 replicas=5  five seeds at once
  ol2r run dataset=mq2008 dataset.path=$HOME/MQ2008   real data, LETOR folders
  ol2r run -m ranker.l2=0.1,0.01 click=per,nav,inf    a sweep
  ol2r COMMAND --help                                 more about one command
exit codes: 0 done, 1 a run failed, 2 bad configuration or data,
  3 a sweep with failed jobs, 130 interrupted,
  141 nobody reads what is printed
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `ol2r` itself; subcommands parse what follows their name."""
    lines = [f"  {name:11} {what}" for name, what in COMMANDS.items()]
    about = [
        "Online learning to rank from simulated clicks.",
        "",
        "commands to begin with:",
        *lines[:_FIRST],
        "",
        "other commands:",
        *lines[_FIRST:],
    ]
    top = argparse.ArgumentParser(
        prog="ol2r",
        usage="ol2r COMMAND [ARGUMENT ...]",
        description="\n".join(about),
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="show the version, and the commit of a checkout")
    top.add_argument("command", help=argparse.SUPPRESS, metavar="COMMAND")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    code = DONE
    with printing() as stdout_error:
        try:
            try:
                code = _command(words)
            finally:  # also after SystemExit, by which argparse ends after --help
                sys.stdout.flush()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            exec("")  # if it passed an exec() of text, as in a dataclass, Python would end with SIGINT, not this code
            code = INTERRUPTED
        except (BrokenPipeError, SystemExit):
            if stdout_error() is None:
                raise
        if error := stdout_error():  # of `ol2r list | head` nothing is said
            code = UNREAD if isinstance(error, BrokenPipeError) else _unprinted(words, code, error)
    return code


def _unprinted(words: list[str], code: int, error: OSError) -> int:
    """Say that what a command has printed is lost, and return the exit code, which is never 0."""
    print(f"{' '.join(['ol2r', *words[:1]])}: what it prints cannot be written ({error.strerror})", file=sys.stderr)
    return code if code != DONE else BAD_CONFIGURATION


def _command(arguments: list[str]) -> int:
    """Run the command that the words name, or answer without one, and return the exit code."""
    try:
        os.getcwd()
    except OSError as error:
        print(f"ol2r: there is no working folder ({error.strerror}): type cd FOLDER first", file=sys.stderr)
        return BAD_CONFIGURATION
    if "_ARGCOMPLETE" in os.environ:  # a shell asks, by the script of `ol2r completion`
        import_module("ol2r_cli.commands.completion").answer(parser())
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        parser().print_help()
        return DONE
    name, *rest = arguments
    if name == "--version":
        from ol2r_cli.run.versions import version_line

        print(f"ol2r {version_line()}")
        return DONE
    if name not in COMMANDS:
        print(f"ol2r: no command '{name}'{_advice(name)}", file=sys.stderr)
        return BAD_CONFIGURATION
    if name == "completion" and find_spec("argcomplete") is None:
        print("ol2r completion: needs argcomplete: type pip install 'ol2r[completion]'", file=sys.stderr)
        return BAD_CONFIGURATION
    with exits_when_interrupted():
        module = import_module(f"ol2r_cli.commands.{name}")
    return module.main(rest)


def _advice(name: str) -> str:
    """Return what to type for a word that is no command."""
    if with_hyphens(name) != name:
        return f": it has a hyphen of typography, type {with_hyphens(name)}"
    if name in _MEANT:
        return as_called(f": type {_MEANT[name]}")
    near = nearest(name, [*COMMANDS, "--help", "--version"], "ol2r ")
    return as_called(near) or f": choose from {', '.join(COMMANDS)}"
