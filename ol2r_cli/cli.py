"""The `ol2r` command: finds a subcommand by the name of its module and runs it.

Nothing heavy is imported before a subcommand is.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec

from ol2r_cli.command import HelpFormatter
from ol2r_cli.formatting import nearest
from ol2r_cli.kinds import run_kinds
from ol2r_cli.program import COMMANDS, as_called
from ol2r_cli.run import BAD_CONFIGURATION, DONE, INTERRUPTED, exits_when_interrupted
from ol2r_cli.terminal import printing

_MEANT = {"compare": "ol2r report --compare all", "plot": "ol2r report --figure", "sweep": "ol2r run -m"}  # no commands
_FIRST = 6  # commands that the help names before the others
_ON_DISK = (*run_kinds(), "search", "benchmark", "reproduce")  # what they compute is not what they print

EPILOG = """examples:
  ol2r run                                            PairRank, generated data
  ol2r run click=navigational rounds=2000 replicas=5  five seeds at once
  ol2r run dataset=mq2008 dataset.path=$HOME/MQ2008   real data, LETOR folders
  ol2r run -m ranker.l2=0.1,0.01 click=per,nav,inf    a sweep
  ol2r COMMAND --help                                 more about one command
exit codes: 0 done, 1 a run failed, 2 bad configuration or data,
  3 a sweep with failed jobs, 130 interrupted
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
        except BrokenPipeError:  # `ol2r list | head`
            pass
        except SystemExit:
            if stdout_error() is None:
                raise
        if error := stdout_error():
            code = _unprinted(words, code, error)
    return code


def _unprinted(words: list[str], code: int, error: OSError) -> int:
    """Say that what a command has printed is lost, and return the exit code: of work that is on disk that of the
    work."""
    print(f"{' '.join(['ol2r', *words[:1]])}: what it prints cannot be written ({error.strerror})", file=sys.stderr)
    is_on_disk = bool(words) and words[0] in _ON_DISK
    return code if is_on_disk or code != DONE else BAD_CONFIGURATION


def _command(arguments: list[str]) -> int:
    """Run the command that the words name, or answer without one, and return the exit code."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks, by the script of `ol2r completion`
        import_module("ol2r_cli.commands.completion").answer(parser())
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
    if name in _MEANT:
        return as_called(f": type {_MEANT[name]}")
    near = nearest(name, [*COMMANDS, "--help", "--version"], "ol2r ")
    return as_called(near) or f": choose from {', '.join(COMMANDS)}"
