"""The commands of `ol2r`, and what to type for `ol2r` where a shell does not find it by this name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from functools import cache

from ol2r_cli.plugins import Command, plugins, run_kinds
from ol2r_cli.text.formatting import shown_path

_CORE = {  # of the core: a description; their modules are in commands/
    "list": "all components and settings: rankers, click models, datasets, ..",
    "status": "runs in a folder: finished, running, interrupted, failed and why",
    "report": "tables of finished runs, with paired comparisons",
    "data": "statistics of a dataset, parsing it ahead, checking its files",
}


@cache
def commands() -> dict[str, Command]:
    """Return all commands by name, those of the core first; no plug-in replaces one."""
    core = {"run": run_kinds()["run"].about, **_CORE}
    found = {name: Command(name=name, about=about, module=f"ol2r_cli.commands.{name}") for name, about in core.items()}
    for command in sorted((each for plugin in plugins() for each in plugin.commands), key=lambda each: each.name):
        found.setdefault(command.name, command)
    return found


def core_commands() -> list[str]:
    """Return the names of the commands that are always there."""
    return ["run", *_CORE]


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
    names = "|".join([*commands(), "COMMAND"])
    return re.sub(rf"(?<![\w./-])ol2r(?= (?:{names})\b)", lambda _: program(), str(text))


def if_there(text: str) -> str:
    """Return text that has a command to type, such as `ol2r clean`; empty where its plug-in is not installed."""
    named = re.search(r"ol2r ([\w-]+)", text)
    return text if named and named[1] in commands() else ""
