"""Own code: the files of a class and of what it imports, or what a class of a notebook refers to; nothing else."""

from __future__ import annotations

import linecache
import sys
import types
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from ol2r_cli.ranker.pdgd import PDGD
from ol2r_cli.run.own_code import code_hash_of, own_code

COMPILED = f"compiled{EXTENSION_SUFFIXES[0]}"
FILES = {
    "mypkg/__init__.py": "from mypkg.rankers.nsgd import NSGD\n",
    "mypkg/rankers/__init__.py": "",
    "mypkg/rankers/nsgd.py": '"""."""\nfrom ..steps import f\nfrom .bases import Base\nclass NSGD(Base):\n    pass\n',
    "mypkg/rankers/bases.py": "import torch\nimport beside\nclass Base(torch.nn.Module):\n    pass\n",
    "mypkg/rankers/other.py": "OTHER = 1\n",
    "mypkg/steps.py": "def f():\n    import mypkg.constants as constants\n    from mypkg import late\n",
    "mypkg/constants.py": "from mypkg import steps\nONE = 1\n",
    "mypkg/late.py": "def f():\n    import compiled\n",
    COMPILED: "of no processor",
    "beside.py": "import json\n",
    "unrelated.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with modules that can be imported in this test only, after each edit anew."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def write(below: str = "") -> Path:
        for name, content in FILES.items():
            path = tmp_path / below / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        monkeypatch.syspath_prepend(str(tmp_path / below))
        return tmp_path / below

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def counting(root: Path) -> set[str]:
    """The files of which an edit changes the hash of the class; it is edited before it is imported again."""
    counting = set()
    for name, content in FILES.items():
        hashes = []
        for text in content, f"{content}\nNEW = 1\n", content:
            (root / name).write_text(text)
            for module in [module for module in sys.modules if module.partition(".")[0] in ("mypkg", "beside")]:
                del sys.modules[module]
            hashes.append(code_hash_of(import_module("mypkg.rankers.nsgd").NSGD))
        (root / name).write_text(content)
        assert hashes[2] == hashes[0], "a file that is put back"
        counting |= {name} if hashes[1] != hashes[0] else set()
    return counting


def test_the_files_that_a_class_imports_from_its_folder_count(folder):
    modules = ("rankers/nsgd", "rankers/bases", "steps", "constants", "late")
    own = {f"mypkg/{name}.py" for name in ("__init__", "rankers/__init__", *modules)}
    assert counting(folder()) == own | {"beside.py", COMPILED}
    assert counting(folder("site-packages")) == own, "of an installed package only its own files"


def test_bases_of_other_folders_and_packages_around_count(folder, monkeypatch):
    """Without any import that finds them: the base is in another folder, and nothing names the package itself."""
    root = folder()
    files = {"elsewhere/mybase.py": "class Base: pass\n", "lone/__init__.py": "", "lone/inner/__init__.py": ""}
    files["lone/inner/mine.py"] = "from mybase import Base\nclass Mine(Base): pass\n"
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.syspath_prepend(str(root / "elsewhere"))

    def hash_with(edited: str = "") -> str:
        for name, content in files.items():
            (root / name).write_text(f"{content}NEW = 1\n" if name == edited else content)
        for module in "mybase", "lone", "lone.inner", "lone.inner.mine":
            sys.modules.pop(module, None)
        return code_hash_of(import_module("lone.inner.mine").Mine)

    assert len({hash_with(), *map(hash_with, files)}) == 1 + len(files)
    assert hash_with() == hash_with()


def test_parts_of_the_settings_of_the_user_have_hashes(folder):
    """Parts of the settings have hashes where they are the user's."""
    root = folder()
    (root / "mine.py").write_text("from functools import partial\nmake = partial(dict)\n\ndef function():\n    pass\n")
    settings = {
        "ranker": {"_target_": "ol2r_cli.ranker.pdgd.PDGD", "model": {"_target_": "mine.function"}},
        "measure": {"a": {"_target_": "mine.make"}, "b": [{"_target_": "mypkg.NSGD"}]},
        "launcher": {"_target_": "nothing.that.matters"},
    }
    code = own_code(settings)
    assert list(code) == ["ranker.model", "measure.a", "measure.b.0"]
    assert code["ranker.model"] == code["measure.a"] != code["measure.b.0"]
    assert code_hash_of(PDGD) == ""
    (root / "beside.py").write_text("def f(:\n")
    with pytest.raises(ValueError, match=r"beside\.py must be Python source, since its hash is part of the run id"):
        own_code(settings)


CLASS = """class Mine(Base):
    options = Options()
    def f(self, features): return [step(x.to(DTYPE)) for x in features]
"""
CELLS = f"""
import math, torch
from dataclasses import dataclass
from functools import cache
SIZE, TABLE, DTYPE, features = 0.5, {{"a": [1, 2]}}, torch.float64, object()
class Base:
    def g(self): return 1
@dataclass
class Options:
    size: float = SIZE
@cache
def step(x): return inner(x) * math.pi
def inner(x): return x
{CLASS}"""


def test_what_a_class_of_a_notebook_refers_to_counts(monkeypatch: pytest.MonkeyPatch, folder):
    (folder() / "beside.py").write_text("def inner(x): return -x\n")
    monkeypatch.setitem(sys.modules, "__main__", main := types.ModuleType("__main__"))
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))

    def hash_after(cell: str) -> str:
        name = f"<ipython-input-{len(linecache.cache)}-{cell[:9]}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec"), vars(main))
        return code_hash_of(main.Mine)

    first = hash_after(CELLS)
    same = f"# a comment\n{CLASS}", "TABLE = 1; features = 2", "def unused(): return 1"
    assert [hash_after(cell) for cell in same] == [first] * 3
    others = CLASS.replace("(DTYPE)", "(DTYPE) + 1"), "def inner(x): return 2 * x", "SIZE = 0.25"
    cells = *others, "DTYPE = torch.float32", "from beside import inner"
    assert len({first, *map(hash_after, cells)}) == 1 + len(cells)
    of_partial = [
        hash_after(f"from functools import partial\nDTYPE = partial(inner, {words})") for words in ("1", "x=1", "x=2")
    ]
    of_partial.append(hash_after("def inner(x): return 3 * x\nDTYPE = partial(inner, x=2)"))
    of_partial.append(hash_after("DTYPE = partial(math.pow, 2)"))
    assert len({*of_partial}) == 5
    for value, kind in (("object()", "object"), ("torch.nn.ReLU()", "ReLU")):
        with pytest.raises(ValueError, match=rf"Mine must be in a file, .* refers to DTYPE, a {kind}, whose value has"):
            hash_after(f"DTYPE = {value}")
    exec("class Mine:\n    def f(self): pass\n", vars(main))
    with pytest.raises(ValueError, match="its source is not available: put the class in a file, and import it"):
        code_hash_of(main.Mine)
