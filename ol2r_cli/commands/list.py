"""`ol2r list [GROUP [CHOICE]]`: the choices of every group and their settings, from the comments of the YAML files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ol2r_cli.config.catalogue import Catalogue, Choice, dotted
from ol2r_cli.config.overrides import ALIASES, as_typed
from ol2r_cli.formatting import nearest, show
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE

_LONG = 60  # characters of a default; a longer one is shortened

EPILOG = """examples:
  ol2r list                  all choices of all groups
  ol2r list ranker           rankers and their settings
  ol2r list dataset yahoo    one choice
  ol2r list click            with the probabilities of clicking and stopping
"""


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r list`."""
    options = argparse.ArgumentParser(
        "ol2r list",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("group", metavar="GROUP", nargs="?", help="only this group: ranker, ranker/model, click, ..")
    options.add_argument("choice", metavar="CHOICE", nargs="?", help="only this choice of it")
    options.add_argument(
        "--config-dir", metavar="DIR", type=Path, help="also list your own choices, DIR/GROUP/NAME.yaml"
    )
    return options


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when the group, the choice or the folder does not exist."""
    options = parser().parse_args(arguments)
    try:
        _list(Catalogue([options.config_dir.expanduser()] if options.config_dir else []), options.group, options.choice)
    except ValueError as error:
        print(f"ol2r list: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    return DONE


def _list(catalogue: Catalogue, group: str | None, name: str | None) -> None:
    if group is None:
        _show_overview(catalogue)
    else:
        _check_known("GROUP", group, catalogue.groups)
        choices = catalogue.choices[group]
        if name is not None:
            name = ALIASES.get(group, {}).get(name, name)
            _check_known("CHOICE", name, list(choices))
            choices = {name: choices[name]}
        _show_choices(catalogue, list(choices.values()))
    for path in catalogue.hidden:
        print(f"ignored: {path} has the name of a choice that comes with ol2r; rename it")


def _check_known(argument: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"{argument} must be one of {', '.join(known)}, got '{name}'{nearest(name, known)}")


def _show_overview(catalogue: Catalogue) -> None:
    """Prints one line per choice, as it is typed; `*` marks the defaults of `ol2r run`."""
    defaults = catalogue.chosen([])
    show(
        [
            ("*" if defaults.get(group) == name else "", _typed(choice), _title(catalogue, choice))
            for group in catalogue.groups
            for name, choice in catalogue.choices[group].items()
        ]
    )
    print(
        "\n* is the default of `ol2r run`; `ol2r run GROUP=CHOICE ..` takes another; `ol2r list GROUP` shows settings"
    )


def _show_choices(catalogue: Catalogue, choices: Sequence[Choice]) -> None:
    """Prints the description and the settings of each choice; adjacent choices with the same settings share a list."""
    for settings, sharing in groupby(choices, lambda choice: _settings(catalogue, choice)):
        for choice in sharing:
            _describe(catalogue, choice)
        if settings:
            show(settings, indent=4)
        print()
    _show_tables([(_typed(choice), catalogue.values(choice).get("tables", {})) for choice in choices])


def _typed(choice: Choice) -> str:
    return f"{choice.group}={choice.name}"


def _title(catalogue: Catalogue, choice: Choice) -> str:
    """The first line of the file, short names, and the path of a choice of the user's."""
    short = [alias for alias, name in ALIASES.get(choice.group, {}).items() if name == choice.name]
    title = choice.header[0].rstrip(":") + "".join(f" Short: {choice.group}={alias}" for alias in short)
    return title + ("" if catalogue.comes_along(choice) else f" (yours: {choice.path})")


def _describe(catalogue: Catalogue, choice: Choice) -> None:
    """Prints the header of the file, the choices of other groups that it brings, and what to type for a preset."""
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
    """(name as typed, default, comment) of every setting; for a preset the values that it sets or sweeps."""
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
    """The values that a preset sweeps, by setting; empty for a preset that is one experiment."""
    tree: Any = choice.content
    for key in ("hydra", "sweeper", "params"):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return dict(tree) if isinstance(tree, dict) else {}


def _short(value: Any) -> str:
    """A default in at most `_LONG` characters: of a mapping its keys or their number, of other values the beginning."""
    if isinstance(value, dict) and value:
        return f"{{{', '.join(map(str, value))}}}" if len(value) <= 4 else f"({len(value)} entries)"
    text = as_typed(value)
    return text if len(text) <= _LONG else text[: _LONG - 2] + ".."


def _show_tables(tables: Sequence[tuple[str, Any]]) -> None:
    """Prints P(click | grade) and P(stop | grade) of click models in a table for each number of grades."""
    for grades in sorted({grades for _, table in tables for grades in table}, reverse=True):
        rows = [
            [name, *(cell for event in ("click", "stop") for cell in _probabilities(table[grades].get(event), grades))]
            for name, table in tables
            if grades in table
        ]
        headings = [f"P({event} | {g})" if g == 0 else f"{g})" for event in ("click", "stop") for g in range(grades)]
        show(rows, headings=[f"{grades} grades", *headings], numbers=True)
        print()


def _probabilities(values: Sequence[float] | None, grades: int) -> list[str]:
    return ["-"] * grades if values is None else [f"{probability:.2f}" for probability in values]
