"""`ol2r new GROUP NAME`: writes a choice of your own that works: a class, its settings and its test, or a preset.
Nothing is overwritten.

examples:
  ol2r new ranker mine                 choices/mine.py, choices/ranker/mine.yaml and choices/test_mine.py
  ol2r new ranker mine --like pdgd     the same files, from a copy of ranker=pdgd
  ol2r new experiment first            choices/experiment/first.yaml: choices and settings under one name
  ol2r new click tired --dir users     users/tired.py, ..
Without an ol2r.yaml in this folder one is written that names DIR, so that `ol2r run ranker=mine` works at once.
"""

from __future__ import annotations

import argparse
import ast
import keyword
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import yaml

from ol2r_cli.command import argument, command
from ol2r_cli.config.catalogue import PROJECT_FILE, ROLES, Catalogue, Choice, as_options, choice_folders, read_project
from ol2r_cli.config.overrides import ALIASES, as_typed
from ol2r_cli.formatting import must_be_one_of, shown_path
from ol2r_cli.program import as_called

GROUPS = (*ROLES, "ranker/model", "experiment")
_TEMPLATES = Path(__file__).parents[1] / "config" / "templates"
# How a choice is typed for a run, where GROUP=NAME is not it.
_TYPED = {
    "measure": "'measures=[ndcg,NAME]'",
    "intent": "intent=NAME 'dataset.intents={number: 2, overlap: 0}'",
    "ranker/model": "ranker=pdgd ranker/model=NAME",
}


@command(
    argument("group", metavar="GROUP", help=", ".join(GROUPS)),
    argument("name", metavar="NAME", help="of the choice and of its module, such as mine"),
    argument("--like", metavar="CHOICE", help="a choice of GROUP to copy, such as pairrank"),
    argument("--dir", metavar="DIR", type=Path, help="default: the folder of ol2r.yaml, or choices"),
    errors=(ValueError, OSError),
)
def main(given: argparse.Namespace) -> None:
    group, name = given.group, given.name
    if group not in GROUPS:
        raise ValueError(must_be_one_of("GROUP", GROUPS, group))
    listed = [Path(folder).expanduser() for folder in read_project().choices]
    for folder in listed:
        folder.mkdir(parents=True, exist_ok=True)  # it may be about to get its first choice
    folders = [each.path for each in choice_folders()]
    catalogue = Catalogue(folders)
    choices, spec = catalogue.choices[group], None
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or as_typed(name) != name:
        raise ValueError(f"NAME must be small letters, digits and _, and no word of Python or YAML, got {name!r}")
    if name in {**ALIASES.get(group, {}), **choices}:
        raise ValueError(f"NAME must be new, got {name}: `ol2r list {group} {name}` shows the choice of this name")
    if group != "experiment" and (spec := find_spec(name)) and spec.origin:
        raise ValueError(f"NAME must not be that of a module that Python has, got {name} ({shown_path(spec.origin)})")
    like = ALIASES.get(group, {}).get(given.like, given.like) or ("linear" if group == "ranker/model" else None)
    if like and like not in choices:
        raise ValueError(must_be_one_of("--like", choices, like))
    folder = given.dir.expanduser() if given.dir else next(iter(listed), Path("choices"))
    files = _files(group, name, folder, choices[like] if like else None)
    options = [] if folder.resolve() in folders else as_options([folder])
    if options and not Path(PROJECT_FILE).exists():
        files[Path(PROJECT_FILE)], options = yaml.safe_dump({"choices": str(folder)}), []
    if taken := [path for path in files if path.exists()]:
        raise ValueError(f"NAME must be new, got {name}: {shown_path(taken[0])} exists")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"written: {shown_path(path)}")
    print("next:")
    choice = "'measures=[NAME]'" if group == "measure" and like else _TYPED.get(group, f"{group}=NAME")
    if group == "experiment":
        is_grid = re.search(r"^[^#\n]*sweeper:", files[folder / group / f"{name}.yaml"], re.MULTILINE)
        lines = [f"run {'-m ' if is_grid else ''}{choice}", f"list {group} NAME"]
    else:
        compared = choice.replace(f"{group}=NAME", f"{group}=NAME,{catalogue.defaults.get(group, 'linear')}")
        compared = f"{choice} ranker=pairrank,random" if group in ("dataset", "measure") else compared
        lines = [f"run {choice} rounds=500", f"list {group} NAME", *([f"check {group}=NAME"] if group in ROLES else [])]
        lines.append(f"run -m {compared} rounds=500 'seed=range(0,3)'")
    benchmark = [f"benchmark linear dataset=synthetic click=perfect --add {choice}"] if group == "ranker" else []
    for line in [*lines, "report", *benchmark]:
        words = [line.replace("NAME", name), *([shlex.join(options)] if options and line != "report" else [])]
        print(as_called(f"  ol2r {' '.join(words)}"))


def _files(group: str, name: str, folder: Path, like: Choice | None) -> dict[Path, str]:
    """Return the files of a choice with their content: of templates, or copies of those of another choice."""
    words = {"GROUP": group, "NAME": name, "CLASS": "".join(part.capitalize() for part in name.split("_"))}

    def of_template(template: str) -> str:
        text = (_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
        return re.sub("GROUP|NAME|CLASS", lambda word: words[word[0]], text)

    module, settings = folder / f"{name}.py", folder / group / f"{name}.yaml"
    tests = {folder / f"test_{name}.py": of_template("test.py")} if group in ROLES else {}
    if like is None:
        code = {} if group == "experiment" else {module: of_template(f"{group}.py")}
        if group == "dataset":
            code[module.with_suffix(".csv")] = of_template("dataset.csv")
        return {**code, settings: of_template(f"{group}.yaml"), **tests}
    target = str(like.content.get("_target_", ""))
    source, _, cls = target.rpartition(".")
    spec = find_spec(source) if source else None
    code = {module: _of_class(Path(spec.origin).read_text(encoding="utf-8"), cls)} if spec and spec.origin else {}
    return {
        **code,
        settings: like.path.read_text(encoding="utf-8").replace(f" {target}\n", f" {name}.{cls}\n"),
        **tests,
    }


def _of_class(source: str, cls: str) -> str:
    """The source without classes and functions that this class does not need: a module may have several choices."""
    nodes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    needed, waiting = set[str](), [cls]
    while waiting:
        if (name := waiting.pop()) in nodes.keys() - needed:
            needed.add(name)
            waiting += [node.id for node in ast.walk(nodes[name]) if isinstance(node, ast.Name)]
    lines = source.splitlines()
    for node in (node for name, node in reversed(nodes.items()) if name not in needed):
        del lines[min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1 : node.end_lineno]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).rstrip() + "\n"
