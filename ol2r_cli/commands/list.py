"""`ol2r list [GROUP [CHOICE]]`: every choice of every group with its settings, from the comments of the YAML files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ol2r_cli.catalogue import Catalogue, dotted
from ol2r_cli.choice import Choice
from ol2r_cli.commands.columns import show
from ol2r_cli.compose import ALIASES
from ol2r_cli.settings import nearest

_LONG = 60  # characters of a default; longer ones are told by their number of entries

EPILOG = """examples:
  ol2r list                  all there is to choose from
  ol2r list ranker           rankers and their settings
  ol2r list dataset yahoo    one choice
  ol2r list click            with the probabilities of clicking and stopping
"""


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when the group, the choice or the folder does not exist."""
    parser = argparse.ArgumentParser(
        "ol2r list",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("group", metavar="GROUP", nargs="?", help="only this group: ranker, ranker/model, click, ..")
    parser.add_argument("choice", metavar="CHOICE", nargs="?", help="only this choice of it")
    parser.add_argument(
        "--config-dir", metavar="DIR", type=Path, help="also list your own choices, DIR/GROUP/NAME.yaml"
    )
    given = parser.parse_args(arguments)
    try:
        _list(Catalogue([given.config_dir.expanduser()] if given.config_dir else []), given.group, given.choice)
    except ValueError as error:
        print(f"ol2r list: {error}", file=sys.stderr)
        return 2
    return 0


def _list(catalogue: Catalogue, group: str | None, name: str | None) -> None:
    if group is None:
        _overview(catalogue)
    else:
        _check_known("GROUP", group, catalogue.groups)
        choices = catalogue.choices[group]
        if name is not None:
            name = ALIASES.get(group, {}).get(name, name)
            _check_known("CHOICE", name, list(choices))
            choices = {name: choices[name]}
        # Neighbours with the same settings, as most click models, share one list of them.
        for settings, alike in groupby(choices.values(), lambda choice: _settings(catalogue, choice)):
            for choice in alike:
                _describe(catalogue, choice)
            if settings:
                show(settings, indent=4)
            print()
        _show_tables([(_typed(choice), catalogue.values(choice).get("tables", {})) for choice in choices.values()])
    for path in catalogue.hidden:
        print(f"ignored: {path} has the name of a choice that comes with ol2r; rename it")


def _check_known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, got '{name}'{nearest(name, known)}")


def _overview(catalogue: Catalogue) -> None:
    """One line a choice, as one types it; `*` marks what `ol2r run` takes unasked."""
    defaults = catalogue.chosen([])
    show(
        [
            ("*" if defaults.get(group) == name else "", _typed(choice), _title(catalogue, choice))
            for group in catalogue.groups
            for name, choice in catalogue.choices[group].items()
        ]
    )
    print(
        "\n* is what `ol2r run` takes unasked; `ol2r run GROUP=CHOICE ..` takes another; `ol2r list GROUP` has settings"
    )


def _typed(choice: Choice) -> str:
    return f"{choice.group}={choice.name}"


def _title(catalogue: Catalogue, choice: Choice) -> str:
    """The first line of the file, the short names, and whose it is."""
    short = [alias for alias, name in ALIASES.get(choice.group, {}).items() if name == choice.name]
    title = choice.header[0].rstrip(":") + "".join(f" Short: {choice.group}={alias}" for alias in short)
    return title + ("" if catalogue.comes_along(choice) else f" (yours: {choice.path})")


def _describe(catalogue: Catalogue, choice: Choice) -> None:
    """What the file says of the choice, and what comes with it."""
    print(_typed(choice) + (" (default)" if catalogue.chosen([]).get(choice.group) == choice.name else ""))
    for line in choice.header:
        print(f"  {line}")
    for group, name in catalogue.brings(choice).items():
        print(f"  brings {group}={name}")
    if choice.group == "experiment":
        print(f"  type: ol2r run {'-m ' if _grid(choice) else ''}experiment={choice.name}")
    if not catalogue.comes_along(choice):
        print(f"  yours: {choice.path}")


def _settings(catalogue: Catalogue, choice: Choice) -> list[tuple[str, str, str]]:
    """(as typed, default, comment) of every setting; presets have values of other groups instead, grids several."""
    if choice.group == "experiment":
        single = [(name, _short(value), "") for name, value in dotted(choice.values)]
        return single + [(name, str(values), "") for name, values in _grid(choice).items()]
    values = catalogue.values(choice)
    return [
        (
            f"{choice.node}.{setting.name}",
            setting.default if len(setting.default) <= _LONG else _short(values[setting.name]),
            setting.comment,
        )
        for setting in catalogue.settings(choice)
    ]


def _grid(choice: Choice) -> dict[str, Any]:
    """The values that a preset has `ol2r run -m` combine, by setting; empty where it is one experiment."""
    tree: Any = choice.content
    for key in ("hydra", "sweeper", "params"):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return dict(tree) if isinstance(tree, dict) else {}


def _short(value: Any) -> str:
    """A default on one line of bearable length."""
    if isinstance(value, dict) and value:
        return f"{{{', '.join(map(str, value))}}}" if len(value) <= 4 else f"({len(value)} entries)"
    text = (
        {True: "true", False: "false", None: "null"}[value] if value is None or isinstance(value, bool) else str(value)
    )
    return text if len(text) <= _LONG else text[: _LONG - 2] + ".."


def _show_tables(tables: Sequence[tuple[str, Any]]) -> None:
    """P(click | grade) and P(stop | grade) of click models, by name, a table for each number of grades."""
    for grades in sorted({grades for _, table in tables for grades in table}, reverse=True):
        rows = [
            [name, *(cell for what in ("click", "stop") for cell in _probabilities(table[grades].get(what), grades))]
            for name, table in tables
            if grades in table
        ]
        headings = [f"P({what} | {g})" if g == 0 else f"{g})" for what in ("click", "stop") for g in range(grades)]
        show(rows, headings=[f"{grades} grades", *headings], numbers=True)
        print()


def _probabilities(given: Sequence[float] | None, grades: int) -> list[str]:
    return ["-"] * grades if given is None else [f"{probability:.2f}" for probability in given]
