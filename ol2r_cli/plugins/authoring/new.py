"""`ol2r new GROUP NAME`: writes a component of your own that works: a class, its settings and its test, or a preset,
or a plug-in. Nothing is overwritten.

examples:
  ol2r new ranker mine                 choices/mine.py, choices/ranker/mine.yaml and choices/test_mine.py
  ol2r new ranker mine --like pdgd     the same files, from a copy of ranker=pdgd
  ol2r new experiment first            choices/experiment/first.yaml: several overrides under one name
  ol2r new click tired --dir users     users/tired.py, ..
  ol2r new plugin sizes                ol2r-sizes/: a package with a command, and a table that runs record
Without an ol2r.yaml in this folder one is written that names DIR, so that `ol2r run ranker=mine` works at once.
"""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

import yaml

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.catalogue import ROLES, Catalogue, Choice
from ol2r_cli.config.overrides import ALIASES, as_typed
from ol2r_cli.config.own_choices import PROJECT_FILE, as_options, choice_folders, read_project
from ol2r_cli.plugins import installed
from ol2r_cli.plugins.authoring.class_source import copied_class
from ol2r_cli.text.formatting import must_be_one_of, shown_path
from ol2r_cli.text.program import as_called, commands

PLUGIN = "plugin"
GROUPS = (*ROLES, "ranker/model", "experiment", PLUGIN)
_TEMPLATES = Path(__file__).with_name("templates")
# How a choice is typed for a run, where GROUP=NAME is not it.
_TYPED = {
    "measure": "'measures=[ndcg,NAME]'",
    "intent": "intent=NAME 'dataset.intents={number: 2, overlap: 0}'",
    "ranker/model": "ranker=pdgd ranker/model=NAME",
}


@command(
    argument("group", offers=lambda: GROUPS, metavar="GROUP", help=", ".join(GROUPS)),
    argument("name", metavar="NAME", help="name of the component and of its module, such as mine"),
    argument("--like", metavar="CHOICE", help="copy this component of GROUP, such as pairrank"),
    argument("--dir", metavar="DIR", type=Path, help="default: the folder of ol2r.yaml, or choices"),
    errors=(ValueError, OSError),
)
def main(given: argparse.Namespace) -> None:
    if given.group == PLUGIN:
        if given.like:
            raise ValueError("--like goes with components, not with a plug-in: leave it out")
        folder = given.dir or Path(f"ol2r-{given.name}")
        _write(plugin_files(given.name, folder))
        print(f"next:\n  pip install --editable {shlex.quote(str(folder))}")
        print(as_called(f"  ol2r run {given.name}=1 rounds=500\n  ol2r {given.name} outputs"))
        return
    new = planned(given.group, given.name, given.like, given.dir)
    _write(new.files)
    print("next:")
    for words in next_commands(new):
        print(as_called(f"  ol2r {words}"))


def _write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"written: {shown_path(path)}")


def plugin_files(name: str, folder: Path) -> dict[Path, str]:
    """Return the files of a new plug-in with their content; ValueError for a name that is not allowed or taken."""
    _check_word(name)
    if name in commands() or name in installed().plugins:
        raise ValueError(f"NAME must be new, got {name}: `ol2r doctor` lists plug-ins, `ol2r --help` commands")
    if folder.exists():
        raise ValueError(f"NAME must be new, got {name}: {shown_path(folder)} exists")
    files = {}
    for template in sorted((_TEMPLATES / PLUGIN).rglob("*.txt")):
        place = template.relative_to(_TEMPLATES / PLUGIN).with_suffix("").as_posix()
        place = place.replace("package/", f"ol2r_{name}/").replace("gitignore", ".gitignore")
        files[folder / place] = template.read_text(encoding="utf-8").replace("NAME", name)
    return files


@dataclass(frozen=True)
class NewChoice:
    """A choice that is about to be written, with the content of all its files.

    like: the choice that it copies, None for one from a template. default: the choice of its group that is taken where
    none is typed. options: what names its folder on a command line; empty where nothing needs to.
    """

    group: str
    name: str
    like: Choice | None
    default: str
    files: Mapping[Path, str]
    options: Sequence[str]


def planned(group: str, name: str, like: str | None, folder: Path | None) -> NewChoice:
    """Return a new choice, and make the folders of the project file.

    ValueError if the name is taken or not allowed, and if there is no choice `like`, which it would copy.
    """
    if group not in GROUPS:
        raise ValueError(must_be_one_of("GROUP", GROUPS, group))
    listed = [Path(path).expanduser() for path in read_project().choices]
    for path in listed:
        path.mkdir(parents=True, exist_ok=True)  # it may be about to get its first choice
    folders = [known.path for known in choice_folders()]
    catalogue = Catalogue(folders)
    _check_name(group, name, catalogue)
    copied = _copied(group, like, catalogue)
    folder = folder.expanduser() if folder else next(iter(listed), Path("choices"))
    files = _files(group, name, folder, copied)
    options: list[str] = []
    if folder.resolve() not in folders:
        if Path(PROJECT_FILE).exists():
            options = as_options([folder])
        else:
            files[Path(PROJECT_FILE)] = yaml.safe_dump({"choices": str(folder)})
    for path in files:
        if path.exists():
            raise ValueError(f"NAME must be new, got {name}: {shown_path(path)} exists")
    return NewChoice(group, name, copied, catalogue.defaults.get(group) or "linear", files, options)


def _check_name(group: str, name: str, catalogue: Catalogue) -> None:
    """Raise ValueError for a name that is not allowed, and for one that a choice or a module has."""
    _check_word(name)
    if name in catalogue.choices[group] or name in ALIASES.get(group, {}):
        raise ValueError(f"NAME must be new, got {name}: `ol2r list {group} {name}` shows the choice of this name")
    spec = find_spec(name) if group != "experiment" else None  # a preset has no module
    if spec and spec.origin:
        raise ValueError(f"NAME must not be that of a module that Python has, got {name} ({shown_path(spec.origin)})")


def _check_word(name: str) -> None:
    """Raise ValueError for a name that is not allowed."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or as_typed(name) != name:
        raise ValueError(f"NAME must be small letters, digits and _, and no word of Python or YAML, got {name!r}")


def _copied(group: str, like: str | None, catalogue: Catalogue) -> Choice | None:
    """Return the choice to copy; a model without one named is a copy of `linear`, as there is no template of it."""
    if not like:
        return catalogue.choices[group]["linear"] if group == "ranker/model" else None
    choices = catalogue.choices[group]
    name = ALIASES.get(group, {}).get(like, like)
    if name not in choices:
        raise ValueError(must_be_one_of("--like", choices, name))
    return choices[name]


def next_commands(new: NewChoice) -> list[str]:
    """Return what to type after `ol2r` to run a choice, to look at it, to check it and to compare it with others."""
    typed = "'measures=[NAME]'" if new.group == "measure" and new.like else _TYPED.get(new.group, f"{new.group}=NAME")
    chosen = typed.replace("NAME", new.name)
    options = f" {shlex.join(new.options)}" if new.options else ""
    listed = f"list {new.group} {new.name}{options}"
    if new.group == "experiment":
        sweep = "-m " if new.like and new.like.grid else ""
        return [f"run {sweep}{chosen}{options}", listed, "report"]
    words = [f"run {chosen} rounds=500{options}", listed]
    if new.group in ROLES:
        words.append(f"check {new.group}={new.name}{options}")
    compared = chosen.replace(f"{new.group}={new.name}", f"{new.group}={new.name},{new.default}")
    if new.group in ("dataset", "measure"):
        compared = f"{chosen} ranker=pairrank,random"
    words.append(f"run -m {compared} rounds=500 'seed=range(0,3)'{options}")
    words.append("report")
    if new.group == "ranker":
        words.append(f"benchmark linear dataset=synthetic click=perfect --add {chosen}{options}")
    return words


def _files(group: str, name: str, folder: Path, like: Choice | None) -> dict[Path, str]:
    """Return the files of a choice with their content: of templates, or copies of those of another choice."""
    words = {"GROUP": group, "NAME": name, "CLASS": "".join(part.capitalize() for part in name.split("_"))}
    module, settings, test = folder / f"{name}.py", folder / group / f"{name}.yaml", folder / f"test_{name}.py"
    files: dict[Path, str] = {}
    if like is not None:
        files |= _copies(like, module, settings)
    else:
        if group != "experiment":
            files[module] = _of_template(f"{group}.py", words)
        if group == "dataset":
            files[module.with_suffix(".csv")] = _of_template("dataset.csv", words)
        files[settings] = _of_template(f"{group}.yaml", words)
    if group in ROLES:
        files[test] = _of_template("test.py", words)
    return files


def _of_template(template: str, words: Mapping[str, str]) -> str:
    """Return the text of a template, with `words` in place of GROUP, NAME and CLASS."""
    text = (_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
    return re.sub("|".join(words), lambda word: words[word[0]], text)


def _copies(like: Choice, module: Path, settings: Path) -> dict[Path, str]:
    """Return copies of the files of a choice: of its class, where it has one, and of its settings, which name it."""
    target = str(like.content.get("_target_", ""))
    source, _, cls = target.rpartition(".")
    spec = find_spec(source) if source else None
    files: dict[Path, str] = {}
    if spec and spec.origin:
        files[module] = copied_class(Path(spec.origin).read_text(encoding="utf-8"), resolve_name(target))
    text = like.path.read_text(encoding="utf-8")
    files[settings] = text.replace(f" {target}\n", f" {module.stem}.{cls}\n")
    return files
