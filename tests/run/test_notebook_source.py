"""The code of a class of a notebook: the class, and the functions, classes and constants that it refers to."""

from __future__ import annotations

import linecache
import sys
import types

import pytest

from ol2r_cli.run.source import of_class

HELPERS = """
from dataclasses import dataclass
from functools import cache
import math
import torch

SIZE, TABLE, DTYPE = 0.5, {"a": [1, 2]}, torch.float64
features = object()  # what a local variable is called, too

@dataclass
class Options:
    size: float = SIZE

def unused():
    return 1

@cache
def step(x):
    return inner(x) * math.pi

def inner(x):
    return x
"""
CLASS = '''
class Mine(Base):
    """Mine."""

    options = Options()

    def f(self, features):
        return [step(features.to(DTYPE)) for features in features]
'''


class Notebook:
    """Executes cells as a notebook does: in the module `__main__`, with their source in `linecache`."""

    def __init__(self, module: types.ModuleType):
        self.module, self.cells = module, 0

    def run(self, text: str) -> None:
        self.cells += 1
        name = f"<ipython-input-{self.cells}-{id(self)}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), vars(self.module))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
    new = Notebook(module)
    new.run("class Base:\n    def g(self):\n        return 1\n")
    new.run(HELPERS)
    new.run(CLASS)
    return new


def test_the_class_and_what_it_refers_to(notebook):
    found = of_class(notebook.module.Mine)
    names = {"Mine", "Base", "Options", "SIZE", "step", "inner", "DTYPE"}
    assert set(found) == {f"__main__.{name}" for name in names}
    notebook.run(CLASS.replace("Mine.", "Another docstring.") + "\n# a comment\n")
    assert of_class(notebook.module.Mine) == found


@pytest.mark.parametrize(
    ("cell", "changed"),
    [
        (CLASS.replace("in features]", "in features[1:]]"), {"Mine"}),
        ("def inner(x):\n    return -x", {"inner"}),
        ("SIZE = 0.25", {"SIZE"}),
        ("DTYPE = torch.float32", {"DTYPE"}),
        ("def unused():\n    return 2", set()),
        ("TABLE = 1; features = 2", set()),
    ],
)
def test_a_changed_cell_changes_the_hash_of_its_definition(notebook, cell, changed):
    before = of_class(notebook.module.Mine)
    notebook.run(cell)
    after = of_class(notebook.module.Mine)
    assert {name for name in after if after[name] != before[name]} == {f"__main__.{name}" for name in changed}


def test_a_value_without_a_text_is_refused(notebook):
    notebook.run("DTYPE = object()")
    with pytest.raises(ValueError, match=r"Mine must be in a file, .* its code refers to DTYPE, a object, whose value"):
        of_class(notebook.module.Mine)


def test_a_function_of_a_file_is_followed_to_its_file(notebook, tmp_path, monkeypatch):
    (tmp_path / "beside_notebook.py").write_text("import math\n\n\ndef inner(x):\n    return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    notebook.run("from beside_notebook import inner")
    found = of_class(notebook.module.Mine)
    assert "beside_notebook.py" in found
    assert "__main__.inner" not in found
    notebook.run("import beside_notebook\n\ndef inner(x):\n    return beside_notebook.inner(x)\n")
    assert {"beside_notebook.py", "__main__.inner"} <= of_class(notebook.module.Mine).keys()
    del sys.modules["beside_notebook"]
