"""The `ol2r` command: finds a subcommand by the name of its module and runs it.

Nothing heavy is imported before a subcommand is.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec

from ol2r_cli.commands.command import HelpFormatter, with_hyphens
from ol2r_cli.plugins import installed, plugins
from ol2r_cli.run import BAD_CONFIGURATION, DONE, INTERRUPTED, UNREAD, exits_when_interrupted
from ol2r_cli.text.formatting import nearest, wrapped
from ol2r_cli.text.program import as_called, commands, core_commands, if_there, program
from ol2r_cli.text.terminal import printing

_MEANT = {  # words that are no commands, with what to type; plug-ins have others
    "compare": "ol2r report --compare all",
    "table": "ol2r report",
    "sweep": "ol2r run -m",
    "train": "ol2r run",
    "resume": "the command of the run again, which goes on from its checkpoint: `ol2r status` shows it",
    "continue": "the command of the run again, which goes on from its checkpoint: `ol2r status` shows it",
    "ls": "ol2r status",
    "show": "ol2r status",
    "info": "ol2r status",
    "datasets": "ol2r list dataset",
    "rankers": "ol2r list ranker",
}

ABOUT = """Online learning to rank from simulated clicks. For researchers who compare
rankers that learn from clicks, and engineers who ask what one would do."""
FIRST = """what to type first:
  ol2r run                                       PairRank on generated data
  ol2r run ranker=pdgd click=navigational        another ranker, other users
  ol2r run -m ranker=pairrank,pdgd seed=0,1,2    a sweep, and then: ol2r report
  ol2r list ranker                               rankers and their settings
  ol2r run dataset=letor dataset.path=FOLDER     your data, LETOR files"""
ADVISE = "  ol2r advise log.csv                            would it pay, from a click log"
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
    lines = {name: f"  {name:10}  {command.about}" for name, command in commands().items()}
    core = core_commands()
    about = [
        ABOUT,
        "",
        "commands to begin with:",
        *(lines[name] for name in core),
        "",
        "other commands:",
        *(line for name, line in lines.items() if name not in core),
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


def first_screen() -> str:
    """Return what `ol2r` alone prints, in 24 lines: for whom it is, what to type first, and the other commands."""
    core = core_commands()
    others = [name for name in commands() if name not in core]
    lines = [
        ABOUT,
        "",
        *filter(None, [FIRST, if_there(ADVISE)]),
        "",
        "commands to begin with:",
        *(f"  {name:10}  {commands()[name].about}" for name in core),
        "",
        wrapped(f"other commands: {', '.join(others)}", 2),
        "",
        f"`{program()} help` says what they do, and `ol2r COMMAND --help` more about one",
    ]
    return as_called("\n".join(lines))


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
    if find_spec("fcntl") is None:  # locks of files, which Windows has not
        print("ol2r runs on Linux and macOS; on Windows type wsl --install, and install it inside WSL", file=sys.stderr)
        return BAD_CONFIGURATION
    try:
        os.getcwd()
    except OSError as error:
        print(f"ol2r: there is no working folder ({error.strerror}): type cd FOLDER first", file=sys.stderr)
        return BAD_CONFIGURATION
    if "_ARGCOMPLETE" in os.environ and "completion" in commands():  # a shell asks, by the script of `ol2r completion`
        import_module(commands()["completion"].module).answer(parser())
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [*arguments[1:], "--help"]
    if not arguments:
        print(first_screen())
        return DONE
    if arguments[0] in ("-h", "--help", "help"):
        parser().print_help()
        return DONE
    name, *rest = arguments
    if name == "--version":
        from ol2r_cli.run.versions import version_line

        print(f"ol2r {version_line()}")
        return DONE
    if rest and f"{name} {rest[0]}" in commands():
        name, rest = f"{name} {rest[0]}", rest[1:]
    if name not in commands():
        print(f"ol2r: no command '{name}'{_advice(name)}", file=sys.stderr)
        return BAD_CONFIGURATION
    command = commands()[name]
    for package, extra in command.packages.items():
        if find_spec(package) is None:
            print(f"ol2r {name}: needs {package}: type pip install 'ol2r[{extra}]'", file=sys.stderr)
            return BAD_CONFIGURATION
    with exits_when_interrupted():
        from ol2r_cli import source  # noqa: F401  # hashes the files of ol2r before more of them are imported

        main = command.main()
    return main(rest)


def _advice(name: str) -> str:
    """Return what to type for a word that is no command."""
    if with_hyphens(name) != name:
        return f": it has a hyphen of typography, type {with_hyphens(name)}"
    meant = _MEANT | {word: typed for plugin in plugins() for word, typed in plugin.meant.items()}
    if name in meant:
        return as_called(f": type {meant[name]}")
    if name in installed().left_out:
        return f": its plug-in cannot be used ({installed().left_out[name]})"
    near = nearest(name, [*commands(), "--help", "--version"], "ol2r ")
    return as_called(near) or f": choose from {', '.join(commands())}; or its plug-in is not installed"
