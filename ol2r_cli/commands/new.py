"""`ol2r new GROUP NAME`: writes a choice of your own that works: a class, its settings and its test."""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.overrides import ALIASES, as_typed
from ol2r_cli.config.own_choices import ROLES, as_options, choice_folders
from ol2r_cli.config.project_file import PROJECT_FILE, read_project
from ol2r_cli.formatting import nearest, shown_path
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE

EPILOG = """examples:
  ol2r new ranker mine                 choices/mine.py, choices/ranker/mine.yaml and choices/test_mine.py
  ol2r new click tired --dir users     users/tired.py, ..
Without an ol2r.yaml in this folder one is written that names DIR, so that `ol2r run ranker=mine` works at once.
"""
_TEMPLATES = Path(__file__).parents[1] / "config" / "templates"
# What a choice is compared with in the sweep that is printed.
_COMPARED = {
    "ranker": "ranker=NAME,pairrank",
    "click": "click=NAME,informational",
    "exploration": "exploration=NAME,none",
    "fairness": "fairness=NAME,none",
    "intent": "intent=NAME,none 'dataset.intents={number: 2, overlap: 0}'",
    "dataset": "dataset=NAME ranker=pairrank,random",
    "measure": "'measures=[ndcg,NAME]' ranker=pairrank,random",
}

# How a choice is typed for a run, where GROUP=NAME is not it.
_TYPED = {"measure": "'measures=[ndcg,NAME]'", "intent": "intent=NAME 'dataset.intents={number: 2, overlap: 0}'"}


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r new`."""
    options = argparse.ArgumentParser(
        "ol2r new",
        description=__doc__.partition(": ")[2] + " Nothing is overwritten.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("group", metavar="GROUP", help=", ".join(ROLES))
    options.add_argument("name", metavar="NAME", help="of the choice and of its module, such as mine")
    options.add_argument("--dir", metavar="DIR", type=Path, help="default: the folder of ol2r.yaml, or choices")
    return options


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when the group, the name or the folder cannot be used."""
    given = parser().parse_args(arguments)
    try:
        for line in _new(given.group, given.name, given.dir):
            print(line)
    except (ValueError, OSError) as error:
        print(f"ol2r new: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    return DONE


def _new(group: str, name: str, folder: Path | None) -> Iterator[str]:
    """Write the files, and yield the lines to print."""
    if group not in ROLES:
        raise ValueError(f"GROUP must be one of {', '.join(ROLES)}, got '{group}'{nearest(group, ROLES)}")
    for named in read_project().choices:
        named.expanduser().mkdir(parents=True, exist_ok=True)  # it may be about to get its first choice
    folders = choice_folders()
    _check_name(group, name, Catalogue([each.path for each in folders]))
    folder = (folder or next(iter(read_project().choices), Path("choices"))).expanduser()
    files = _files(group, name, folder)
    found = folder.resolve() in [each.path for each in folders]
    if not found and not Path(PROJECT_FILE).exists():
        import yaml

        files[Path(PROJECT_FILE)] = yaml.safe_dump({"choices": str(folder)})
        found = True
    for path in files:
        if path.exists():
            raise ValueError(f"NAME must be new, got {name}: {shown_path(path)} exists")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x") as file:
            file.write(text)
        yield f"written: {shown_path(path)}"
    choice = _TYPED.get(group, "GROUP=NAME").replace("GROUP", group).replace("NAME", name)
    options = "" if found else f" {shlex.join(as_options([folder]))}"
    yield "next:"
    for line in (
        f"ol2r run {choice} rounds=500{options}",
        f"ol2r list {group} {name}{options}",
        f"ol2r check {group}={name}{options}",
        f"ol2r run -m {_COMPARED[group].replace('NAME', name)} rounds=500 'seed=range(0,3)'{options}",
        "ol2r report",
    ):
        yield f"  {line}"
    if group == "ranker":
        yield f"  ol2r benchmark linear dataset=synthetic click=perfect --add {choice}{options}"


def _check_name(group: str, name: str, catalogue: Catalogue) -> None:
    """ValueError for a name that the choice or its module cannot have."""
    is_word = re.fullmatch(r"[a-z][a-z0-9_]*", name) and not keyword.iskeyword(name) and as_typed(name) == name
    if not is_word:
        raise ValueError(f"NAME must be small letters, digits and _, and no word of Python or YAML, got {name!r}")
    known = {**ALIASES.get(group, {}), **catalogue.choices.get(group, {})}
    if name in known:
        raise ValueError(f"NAME must be new, got {name}: `ol2r list {group} {name}` shows the choice of this name")
    spec = find_spec(name)
    if spec is not None and spec.origin is not None:
        raise ValueError(f"NAME must not be that of a module that Python has, got {name} ({shown_path(spec.origin)})")


def _files(group: str, name: str, folder: Path) -> dict[Path, str]:
    """The files of a choice with their content."""
    templates = {
        folder / f"{name}.py": f"{group}.py",
        folder / group / f"{name}.yaml": f"{group}.yaml",
        folder / f"test_{name}.py": "test.py",
    }
    words = {"GROUP": group, "NAME": name, "CLASS": "".join(part.capitalize() for part in name.split("_"))}
    texts = {path: (_TEMPLATES / f"{template}.txt").read_text() for path, template in templates.items()}
    return {path: re.sub("GROUP|NAME|CLASS", lambda word: words[word[0]], text) for path, text in texts.items()}
