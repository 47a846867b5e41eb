"""The house rules that a machine can check: who imports whom, names, sizes, docstrings, and what start-up costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import ol2r_cli
from ol2r_cli import cli

PACKAGE = Path(ol2r_cli.__file__).parent
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
ROLES = ("click", "ranker", "exploration", "fairness")
FORBIDDEN = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager"}
HEAVY = ("hydra", "omegaconf", "torch", "polars", "sklearn", "scipy", "rich", "numpy")

# What a module or package may import besides itself, while running (annotations may name anything). The first prefix
# that fits decides. A role may build on `learning`: rankers are made of it, and the confidence intervals of an
# exploration are about its tangents.
FOUNDATION = ("shapes", "host", "random", "rows", "interfaces")
LAYERS = {
    "shapes": (),
    "host": (),
    "random": ("shapes",),
    "rows": ("shapes",),
    "metrics.exposure": ("shapes",),
    "interfaces": ("shapes", "random", "learning.tangent", "metrics.exposure"),
    "learning.tangent": ("shapes", "rows", "learning.kernel"),
    "learning.kernel": ("shapes", "rows"),
    "learning": (*FOUNDATION, "metrics"),
    "feedback": FOUNDATION,
    "metrics": ("shapes",),
    "click": FOUNDATION,
    "fairness": FOUNDATION,
    "exploration": (*FOUNDATION, "learning"),
    "ranker": (*FOUNDATION, "learning", "feedback"),
    "dataset": FOUNDATION,
    "results": ("shapes", "__version__"),
    "measurement": (*FOUNDATION, "metrics"),
    "evaluation": (*FOUNDATION, "metrics", "dataset.table"),
    "exposure": (*FOUNDATION, "dataset.table", "metrics.exposure"),
    "simulation": (*FOUNDATION, "dataset.table", "feedback", "measurement", "metrics.exposure"),
    "progress": ("results",),
    "report.figures.lda": ("shapes", "results", "report", "projection"),  # the one figure that needs the dataset
    "report": ("shapes", "results", "settings"),  # of settings the nearest name
    "launcher": ("results", "run"),  # the run itself, in the process that a launcher has started
    "sweep.command": ("sweep", "compose", "results", "commands.columns"),
    "sweep": ("launcher", "compose", "complaint", "settings", "signals", "experiment", "simulation", "results", "run"),
    "api": ("compose", "experiment", "sitting", "sweep", "learned", "report", "results"),
    "reproduce": ("compose", "sweep", "report", "results", "dataset.statistics"),
    "export": ("shapes", "catalogue", "compose", "dataset.table", "evaluation", "learned", "metrics", "results"),
    "diff": ("catalogue", "report.override", "report.statistics", "results"),
    "clean": ("results",),
}
CONTROL = ("experiment", "sitting", "run", "commands", "cli")  # nothing below may know them, nor they the choices
ORDER = ["simulation", "sitting", "experiment", "run", "cli"]  # each may import those to its left, `cli` by name


@cache
def imports(file: str) -> frozenset[str]:
    """Modules of the package that `file` imports at run time, wherever it does so, without `ol2r_cli.`."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                visit(other)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file} imports relatively"
            found.update(
                [f"{node.module}.{a.name}" for a in node.names] if node.module == "ol2r_cli" else [node.module]
            )
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse((PACKAGE / file).read_text()))
    return frozenset(name.removeprefix("ol2r_cli.") for name in found if name.startswith("ol2r_cli."))


def module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def within(name: str, packages) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_downwards(layer):
    inside = [file for file in FILES if next((p for p in LAYERS if within(module(file), [p])), "") == layer]
    assert inside, f"there is no {layer} any more: mend this table"
    for file in inside:
        stray = {name for name in imports(file) if not within(name, (*LAYERS[layer], layer))}
        assert not stray, f"{file} imports {sorted(stray)}"


@pytest.mark.parametrize("file", FILES)
def test_a_choice_is_built_from_its_configuration_not_imported(file):
    """Nobody outside a role's package imports from it, so that a new choice needs no change elsewhere."""
    own = module(file).partition(".")[0]
    assert not {name for name in imports(file) if within(name, set(ROLES) - {own})}


def test_the_loop_is_below_what_runs_it():
    for place, name in enumerate(ORDER):
        above = (*ORDER[place + 1 :], *(("commands",) if name != "cli" else ()))
        assert not {found for found in imports(f"{name}.py") if within(found, above)}, name


@pytest.mark.parametrize("file", FILES)
def test_names_size_and_docstrings(file):
    text = (PACKAGE / file).read_text()
    assert not FORBIDDEN & set(module(file).split("."))
    assert len(text.splitlines()) <= 220
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module without a docstring"
    nameless = [node.name for node in public(tree) if not ast.get_docstring(node)]
    assert not nameless, "without a docstring"


def public(tree: ast.Module):
    """Public classes and functions of a module; methods explain themselves or are explained by their class."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_a_main(command):
    assert callable(import_module(cli.COMMANDS[command][0]).main)


def test_starting_up_imports_nothing_heavy():
    """Directly or through anything else; `run` itself needs Hydra, and imports it only when it is asked for."""
    commands = [module(file) for file in FILES if file.startswith("commands/")]
    light = ["cli", "compose", "catalogue", *commands]
    script = f"""
import sys
from importlib import import_module
for name in {light}:
    before = set(sys.modules)
    import_module("ol2r_cli." + name)
    for heavy in {HEAVY}:
        if heavy in sys.modules and heavy not in before:
            print(name, "imports", heavy)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, check=True, timeout=60)
    assert done.stdout == ""
