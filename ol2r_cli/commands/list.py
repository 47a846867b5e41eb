"""`ol2r list [GROUP [CHOICE]]`: the groups of components, the components of a group, or the settings of one.

Everything is read from the YAML files and their comments.

examples:
  ol2r list                  groups: ranker, click, dataset, ..
  ol2r list ranker           rankers, a line each
  ol2r list ranker pdgd      one ranker: its paper, and its settings
  ol2r list click            users, with the probabilities of clicking and stopping
  ol2r list run              settings of a run: rounds, replicas, measures, ..
  ol2r list --all            components of all groups, a line each
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.catalogue import MEASURE, Catalogue, Choice, dotted
from ol2r_cli.config.overrides import ALIASES, as_typed
from ol2r_cli.config.own_choices import add_config_dir, choice_folders
from ol2r_cli.plugins import run_kinds
from ol2r_cli.text.formatting import must_be_one_of, number, shown_path, wrapped
from ol2r_cli.text.program import as_called, if_there
from ol2r_cli.text.table import show

_EXAMPLE = {"ranker": "pdgd", "click": "navigational"}
_LONG = 60  # characters of a default; a longer one is shortened


@command(
    argument("group", metavar="GROUP", nargs="?", help="run, or a group: ranker, ranker/model, click, .."),
    argument("choice", metavar="CHOICE", nargs="?", help="a component of it, with its settings"),
    argument("--all", action="store_true", help="components of all groups, a line each"),
    add_config_dir,
)
def main(given: argparse.Namespace) -> None:
    folders = [folder.path for folder in choice_folders(given.config_dir)]
    catalogues = [Catalogue(folders, root) for root in run_kinds()]
    group, _, name = (given.group or "").partition("=")  # GROUP=CHOICE, as it is typed for a run
    name = given.choice or name
    if not group:
        (_show_all if given.all else _show_groups)(catalogues)
        return
    having = [catalogue for catalogue in catalogues if group in (catalogue.root.name, *catalogue.groups)]
    if not having:
        raise ValueError(_no_group(group, catalogues))
    catalogue = having[0]
    if group == catalogue.root.name:
        _show_settings_of_root(catalogue)
    elif name:
        _show_settings(catalogue, group, name)
    else:
        _show_group(catalogue, group)
    _show_collisions(catalogue)


def _no_group(word: str, catalogues: Sequence[Catalogue]) -> str:
    """Return the message for a word that is no group; it says where a choice or a setting of this name is."""
    for catalogue in catalogues:
        having = [group for group in catalogue.groups if word in catalogue.choices[group]]
        if having:
            typed = " or ".join(f"ol2r list {group} {word}" for group in having)
            return f"GROUP must be a group, and {word} is a choice of {' and '.join(having)}: type {typed}"
        if word in catalogue.root.values:
            return f"GROUP must be a group, and {word} is a setting: type ol2r list {catalogue.root.name}"
    known = [name for catalogue in catalogues for name in (catalogue.root.name, *catalogue.groups)]
    return must_be_one_of("GROUP", list(dict.fromkeys(known)), word)


def _show_groups(catalogues: Sequence[Catalogue]) -> None:
    """Print one line per group, those of runs first, and what to type."""
    runs, *others = catalogues
    _show_lines_of_groups(runs, runs.groups)
    example = " ".join(f"{group}={name}" for group, name in _EXAMPLE.items() if name in runs.choices.get(group, {}))
    run = runs.root.name
    lines = [
        ("run with components", f"ol2r {run} {example}"),
        ("components of a group", "ol2r list GROUP (of all groups: ol2r list --all)"),
        ("settings of a component", f"ol2r list GROUP CHOICE (of a run: ol2r list {run})"),
        ("one of your own", if_there("ol2r new GROUP NAME")),
    ]
    print()
    show([(what, as_called(words)) for what, words in lines if words])
    for catalogue in others:
        print()
        print(wrapped(as_called(" ".join(catalogue.root.header))))
        _show_lines_of_groups(catalogue, _own_groups(catalogue, runs))
    _show_collisions(runs)


def _show_lines_of_groups(catalogue: Catalogue, groups: Sequence[str]) -> None:
    defaults = catalogue.chosen([])
    measures = len(catalogue.root.values.get("measures", ()))
    rows = [
        (
            group,
            str(len(catalogue.choices[group])),
            f"{measures} of them" if group == MEASURE else defaults.get(group) or "-",
            catalogue.about(group),
        )
        for group in groups
    ]
    show(rows, ["group", "choices", "default", "what it is"])


def _own_groups(catalogue: Catalogue, runs: Catalogue) -> list[str]:
    """Return the groups of another kind of run that those of `ol2r run` do not have."""
    return [group for group in catalogue.groups if group not in runs.groups]


def _show_all(catalogues: Sequence[Catalogue]) -> None:
    """Print the choices of all groups, those of runs first."""
    runs, *others = catalogues
    _show_overview(runs, runs.groups)
    for catalogue in others:
        _show_overview(catalogue, _own_groups(catalogue, runs))
    _show_collisions(runs)


def _show_collisions(catalogue: Catalogue) -> None:
    for path, other in catalogue.collisions:
        print(f"refused: {path} has the name of {other}: rename it")


def _show_settings_of_root(catalogue: Catalogue) -> None:
    """Print the settings of runs, or of another root configuration, as they are typed."""
    root = catalogue.root
    words = f"settings of `ol2r {root.name}`, as in `ol2r {root.name} {next(iter(root.values))}=..`"
    print(wrapped(as_called(f"{words}; those of choices: `ol2r list GROUP`")))
    show(settings_of_root(root), indent=4)


def settings_of_root(root: Choice) -> list[tuple[str, str, str]]:
    """Return (name, default, comment) of every setting of a root configuration; variables as a shell has them."""
    variable = re.compile(r"\$\{oc\.env:(\w+),'(.*)'\}")
    return [(name, variable.sub(r"$\1 or \2", default), comment) for name, default, comment in root.settings]


def _show_group(catalogue: Catalogue, group: str) -> None:
    """Print the choices of a group, a line each, the probabilities of users, and what to type for the settings."""
    choices = catalogue.choices[group]
    _show_overview(catalogue, [group])
    for headings, rows in click_tables({choice.name: choice.values.get("tables") for choice in choices.values()}):
        print()
        show(rows, headings, numbers=True)
    print()
    default = catalogue.chosen([]).get(group)
    marks = "* is a default; " if default or group == MEASURE else ""
    example = default or next(iter(choices))
    print(wrapped(as_called(f"{marks}settings: `ol2r list {group} CHOICE`, such as `ol2r list {group} {example}`"), 0))


def _show_settings(catalogue: Catalogue, group: str, name: str) -> None:
    """Print a choice with its settings; ValueError for a name that its group does not have."""
    choices, name = catalogue.choices[group], ALIASES.get(group, {}).get(name, name)
    if name not in choices:
        raise ValueError(must_be_one_of("CHOICE", choices, name))
    choice = choices[name]
    settings = shown_settings(choice)  # before anything is printed: it refuses a file that leads back to itself
    _show_choice(choice, typed(choice) in defaults_of(catalogue))
    if settings:
        show(settings, indent=4)
    for headings, rows in click_tables({name: choice.values.get("tables")}):
        print()
        show(rows, headings, numbers=True)


def _show_choice(choice: Choice, is_default: bool) -> None:
    """Print what a choice is, what it brings, and where it is if it is the user's."""
    print(typed(choice) + (" (default)" if is_default else ""))
    for line in choice.header:
        print(wrapped(f"  {line}"))
    for group, name in choice.brings.items():
        print(f"  brings {group}={name}")
    if choice.group == "experiment":
        print(as_called(f"  type: ol2r run {'-m ' if choice.grid else ''}experiment={choice.name}"))
    if not choice.comes_along:
        print(f"  yours: {shown_path(choice.path)}")


def defaults_of(catalogue: Catalogue) -> set[str]:
    """Return the choices that are taken where none is typed, as they are typed."""
    chosen = {f"{group}={name}" for group, name in catalogue.chosen([]).items()}
    return chosen | {f"measures=[{name}]" for name in catalogue.root.values.get("measures", ())}


def _show_overview(catalogue: Catalogue, groups: Collection[str]) -> None:
    """Print one line per choice of some groups, as it is typed; `*` marks the defaults."""
    rows = []
    defaults = defaults_of(catalogue)
    for group in groups:
        for choice in catalogue.choices[group].values():
            mark = "*" if typed(choice) in defaults else ""
            rows.append((mark, typed(choice), title_of(choice)))
    show(rows)


def title_of(choice: Choice) -> str:
    """Return what a choice is, with its short names, and where it is if it is the user's."""
    title = choice.header[0].rstrip(":")
    for alias, name in ALIASES.get(choice.group, {}).items():
        if name == choice.name:
            title += f" Short: {choice.group}={alias}"
    return title if choice.comes_along else f"{title} (yours: {shown_path(choice.path)})"


def typed(choice: Choice) -> str:
    """Return the override that chooses it; a measure stands in a list, alone or with others."""
    return f"measures=[{choice.name}]" if choice.group == MEASURE else f"{choice.group}={choice.name}"


def shown_settings(choice: Choice) -> list[tuple[str, str, str]]:
    """Return (name as typed, default, comment) of every setting; for a preset the values that it sets or sweeps."""
    if choice.group == "experiment":
        single = [(name, _short(value), "") for name, value in dotted(choice.values)]
        return single + [(name, str(values), "") for name, values in choice.grid.items()]
    rows = []
    values = choice.values | dict(dotted(choice.values))
    for name, default, comment in choice.settings:
        shown = default if len(default) <= _LONG else _short(values.get(name, default))
        rows.append((_typed_setting(choice, name), shown, comment))
    return rows


def _typed_setting(choice: Choice, name: str) -> str:
    """Return a setting of a choice as it is typed; the cutoff of a measure is typed in the list."""
    if choice.group != MEASURE:
        return f"{choice.node}.{name}"
    return f"measures=[{choice.name}@CUTOFF]" if name == "cutoff" else f"{MEASURE}.{choice.name}.{name}"


def _short(value: Any) -> str:
    """Return a default, of a mapping its keys, in at most `_LONG` characters."""
    text = f"{{{', '.join(map(str, value))}}}" if isinstance(value, dict) else as_typed(value)
    return text if len(text) <= _LONG else text[: _LONG - 2] + ".."


def click_tables(tables: Mapping[str, Any]) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield headings and rows of the `tables` of click models, for each number of grades: P(click | grade), ..

    Tables of another form, which a model of the user's may have, are left to the list of settings.
    """
    by_name = {name: table for name, table in tables.items() if isinstance(table, dict)}
    sizes = {grades for table in by_name.values() for grades in table if isinstance(grades, int)}
    for grades in sorted(sizes, reverse=True):
        having = {name: table[grades] for name, table in by_name.items() if isinstance(table.get(grades), dict)}
        with suppress(TypeError, ValueError, IndexError):
            yield _click_table(having, grades)


def _click_table(tables: Mapping[str, Mapping[str, Sequence[float]]], grades: int) -> tuple[list[str], list[list[str]]]:
    """Return the probabilities of events by grade, for each click model that has them for so many grades."""
    events = list(dict.fromkeys(event for table in tables.values() for event in table))
    headings = [f"{grades} grades"]
    for event in events:
        headings += [f"P({event} | 0)", *(f"{grade})" for grade in range(1, grades))]
    rows = []
    for name, table in tables.items():
        row = [name]
        for event in events:
            row += [number(value, 2) for value in table.get(event, [None] * grades)]
        rows.append(row)
    return headings, rows
