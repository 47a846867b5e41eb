"""The import rule, unique names, docstrings, names of tests, imports of start-up."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

import ol2r_cli
from ol2r_cli.plugins import installed, plugins
from ol2r_cli.text.program import commands
from tests.program import python

PACKAGE = Path(ol2r_cli.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("hydra", "omegaconf", "torch", "polars", "sklearn", "scipy", "rich", "numpy", "numba", "lightgbm")

# The import rule: a package imports from its own line and the lines above it, and lines have no cycles among modules.
LAYERS = (
    ("source", "plugins"),
    ("loops", "files", "lazy"),
    ("tensor", "text", "columns", "stages"),
    ("config",),
    ("interfaces",),
    ("dataset", "click", "fairness", "intent"),
    ("metrics",),
    ("learning",),
    ("ranker", "exploration", "measure"),
    ("simulation", "device"),
    ("run",),
    ("launcher",),
    ("sweep",),
    ("report",),
    ("commands",),
    ("plugins.*", "cli"),
)
ROLES = ("click", "ranker", "exploration", "fairness", "measure")  # no other package imports a choice
RANK = {package: rank for rank, packages in enumerate(LAYERS) for package in packages}


def name(path: Path, package: Path = PACKAGE) -> str:
    """`run.tables` for ol2r_cli/run/tables.py."""
    return ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")


@cache
def graph(types: bool = False, package: Path = PACKAGE) -> dict[str, set[str]]:
    """By module of ol2r, or of another folder in its place, those of it that the module imports at run time, wherever
    it does so, also when it first uses them.

    types: also what only annotations need, but not what a package names of its own modules for type checkers. A module
    that composes the name of one that it imports imports all modules of that package.
    """
    paths = {name(path, package): path for path in sorted(package.rglob("*.py"))}
    return {module: _Imports(module, path, paths.keys(), types).found for module, path in paths.items()}


class _Imports(ast.NodeVisitor):
    """The modules that a module imports: `found`."""

    def __init__(self, own: str, path: Path, modules: Collection[str], types: bool):
        self.own, self.modules, self.leaves_out_types = own, modules, not types or path.stem == "__init__"
        self.found = set[str]()
        self.visit(ast.parse(path.read_text()))
        self.found -= {"", "__init__", own}

    def visit_If(self, node: ast.If):
        if self.leaves_out_types and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom):
        if (node.module or "").split(".")[0] == "ol2r_cli":
            above = node.module.removeprefix("ol2r_cli").removeprefix(".")
            for alias in node.names:
                below = f"{above}.{alias.name}".lstrip(".")
                self.found.add(below if below in self.modules else above)

    def visit_Call(self, node: ast.Call):
        called = ast.unparse(node.func)
        if called == "lazy":
            self.found.add(ast.literal_eval(node.args[0]).partition("ol2r_cli.")[2])
        if called == "import_module" and self.own != "plugins":  # it finds plug-ins, whose records it returns
            package = re.match(r"f?'ol2r_cli\.([\w.]+)\.\{", ast.unparse(node.args[0]))
            self.found.update(module for module in self.modules if package and module.startswith(f"{package[1]}."))
        self.generic_visit(node)


def circles(graph: Mapping[str, Collection[str]]) -> set[frozenset[str]]:
    """The largest sets of modules of which each imports each, by way of others."""
    reached = {module: set(imported) for module, imported in graph.items()}
    for through in graph:
        for module in graph:
            if through in reached[module]:
                reached[module] |= reached.get(through, set())
    return {
        frozenset(other for other in reached[module] if module in reached.get(other, ()))
        for module in graph
        if module in reached[module]
    }


OUTSIDE = {  # modules of plug-ins that keep their import names
    file.removeprefix("ol2r_cli/").removesuffix(".py").replace("/", "."): plugin.name
    for plugin in plugins()
    for file in plugin.files
    if file.startswith("ol2r_cli/")
}


def plugin_of(module: str) -> str:
    """The plug-in of a module; empty for one of the core and of methods."""
    first, *below = module.split(".")
    return below[0] if first == "plugins" and below else OUTSIDE.get(module, "")


def package(module: str) -> str:
    """The package of a module; that of every plug-in is `plugins.*`."""
    return "plugins.*" if plugin_of(module) else module.split(".")[0]


def test_plugins_import_only_those_that_they_need():
    needed = {plugin.name: set(plugin.needs) for plugin in plugins()}
    wrong = [
        f"{module} imports {imported}"
        for module, all_imported in graph().items()
        for imported in all_imported
        if package(module) == package(imported) == "plugins.*"
        and (own := plugin_of(module)) != (other := plugin_of(imported))
        and other not in needed[own]
    ]
    assert not wrong


def test_imports_point_to_lower_layers():
    wrong = [
        f"{module} imports {imported}"
        for module, all_imported in graph().items()
        for imported in all_imported
        if module not in ("", "__init__", "__main__")
        and (own := package(module)) != (other := package(imported))
        and (RANK[own] <= RANK[other] or (other in ROLES and own not in ROLES))
    ]
    assert not wrong


def test_loops_import_nothing_but_loops():
    """Machine code is kept under the hash of files of loops, which have all that is compiled into it."""

    def has_loops(module: str) -> bool:
        return module.partition(".")[0] == "loops" or module.endswith("_loops")

    others = [
        f"{module} imports {imported}"
        for module, all_imported in graph().items()
        for imported in all_imported
        if has_loops(module) and not has_loops(imported) and imported not in ("source", "plugins")
    ]
    assert others == []


def test_no_module_needs_one_that_needs_it():
    """Neither when it is imported, nor when a function of it is called, nor in annotations."""
    assert circles(graph(types=True)) == set()


def test_circles_are_found_in_imports_of_every_kind(tmp_path):
    """Below functions, of lazy modules, of annotations, and by a name that is composed."""
    texts = {
        "function": "def main():\n    from ol2r_cli import later\n",
        "later": "later = lazy('ol2r_cli.typed')\n",
        "typed": "if TYPE_CHECKING:\n    from ol2r_cli.composing import main\n",
        "composing": "import_module(f'ol2r_cli.commands.{command}')\n",
        "commands/command": "from ol2r_cli.function import main\n",
        "alone": "from ol2r_cli.function import main\n",
    }
    (tmp_path / "commands").mkdir()
    for module, text in texts.items():
        (tmp_path / f"{module}.py").write_text(text)
    assert circles(graph(types=True, package=tmp_path)) == {
        frozenset({"function", "later", "typed", "composing", "commands.command"})
    }


def test_no_two_public_classes_share_a_name():
    classes = Counter(
        node.name
        for path in FILES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and path.stem != "api"  # its Run is a Run
    )
    assert [one for one, count in classes.items() if count > 1] == []


def test_everything_public_has_a_docstring():
    missing, of_commands = [], {command.module.removeprefix("ol2r_cli.") for command in commands().values()}
    for path in FILES:
        tree = ast.parse(path.read_text())
        public = [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and not n.name.startswith("_")]
        missing += [name(path)] * (not ast.get_docstring(tree))
        named = {node.name for node in public if not ast.get_docstring(node)}
        named -= {"main"} if name(path) in of_commands else set()  # it has the help
        missing += [f"{name(path)}.{it}" for it in named]
    assert missing == []


def test_tests_have_names_of_at_most_60_characters():
    """What a name leaves out is said by the docstring. Tests of the references keep the names of their theorems."""
    tests = [path for path in Path(__file__).parent.rglob("test_*.py") if path.parent.name != "reference"]
    names = chain.from_iterable(re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE) for path in tests)
    assert [test for test in names if len(test) > 60] == []


def test_starting_up_imports_nothing_heavy():
    """The command line, all commands and the Python API import Hydra, torch and polars only when they need them."""
    of_commands = [command.module.removeprefix("ol2r_cli.") for command in commands().values()]
    others = [name(path) for path in FILES if path.name in ("plugin.py", "api.py")]
    light = ["cli", "config.catalogue", *others, *of_commands]
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
    done = python("-c", script)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_only_modules_of_extras_need_them():
    """Without the packages of extras and of development all modules but these can be imported."""
    extras = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    distributions = [re.split("[>=<,]", each)[0] for each in chain(*extras.values())]
    # scipy takes an entry of sys.modules for a Sphinx that is installed.
    named = [each.replace("-", "_").removesuffix("_terrier") for each in distributions if each != "sphinx"]
    script = f"""
import sys
from importlib import import_module
sys.modules.update(dict.fromkeys({named}))
for name in {[name(path) for path in FILES if path.stem != "__main__"]}:
    try:
        import_module("ol2r_cli." + name)
    except ImportError:
        print(name)
"""
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    drawn = ("bars", "blocks", "by_setting", "lda", "over_rounds", "trial")
    need_them = {
        "advise": ["page"],
        "authoring": ["completion"],
        "executor": ["dask_executor"],
        "figures": ["curves", *(f"drawn.{kind}" for kind in drawn), "panels"],
        "search": ["result", "searcher", "study"],
    }
    there = {name: modules for name, modules in need_them.items() if name in installed().plugins}
    assert done.stdout.split() == [f"plugins.{name}.{module}" for name, modules in there.items() for module in modules]
