"""The core: what everybody must know, and that it knows nothing else.

Ring 1 is one run, ring 2 are many runs and their tables. Methods are rankers, explorations and constraints of fairness:
who works on one need not know the others. All else is plug-ins, which nobody must know (`plugins/`).
"""

from __future__ import annotations

import re

from tests.test_architecture import FILES, graph, name, plugin_of

RING_1 = {
    *(
        "__init__",
        "__main__",
        "interfaces",
        "simulation",
        "columns",
        "device",
        "stages",
        "source",
        "files",
        "lazy",
        "plugins",
    ),
    "cli",
    *("text", "click", "intent", "measure", "metrics", "tensor", "dataset", "config", "run", "learning", "loops"),
    *("ranker", "exploration", "fairness"),
    *("commands", "commands.command", "commands.run", "commands.list", "commands.data"),
}
RING_2 = {"sweep", "launcher", "report", "commands.status", "commands.report"}


def is_core(module: str) -> bool:
    return not plugin_of(module)


def test_every_file_is_in_a_ring_or_in_a_plugin():
    """A file that is new in the core is in a package of it, or is named above."""
    known = RING_1 | RING_2
    others = [
        module
        for module in map(name, FILES)
        if is_core(module) and module not in known and module.partition(".")[0] not in known - {"commands"}
    ]
    assert others == []


def test_the_core_imports_no_plugin():
    """Neither when it is imported nor later, nor for annotations, nor by a name that is composed."""
    found = {(module, other) for module, all_imported in graph(types=True).items() for other in all_imported}
    assert {(module, other) for module, other in found if is_core(module) and plugin_of(other)} == set()


def test_ring_1_does_not_import_ring_2():
    """`plugins` and what dispatches commands find both by names that others gave."""

    def ring_2(module: str) -> bool:
        return module in RING_2 or module.partition(".")[0] in RING_2

    wrong = [
        (module, other)
        for module, all_imported in graph().items()
        for other in all_imported
        if is_core(module) and not ring_2(module) and ring_2(other)
    ]
    assert [each for each in wrong if each[0] != "commands.run"] == [], "`ol2r run -m` plays sweeps"


def test_the_core_names_no_module_of_a_plugin():
    """Neither in text, from which the name of a module is composed, nor in comments."""
    of_plugins = re.compile(r"\bplugins[./][a-z]\w+")
    named = [
        f"{name(path)}: {line.strip()}"
        for path in FILES
        if is_core(name(path)) and name(path) != "plugins"
        for line in path.read_text(encoding="utf-8").splitlines()
        if of_plugins.search(line)
    ]
    assert named == []
