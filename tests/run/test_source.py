"""Own code: the files of a class and of what it imports, and nothing that is installed."""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path

import pytest

from ol2r_cli.ranker.pdgd import PDGD
from ol2r_cli.run import source
from ol2r_cli.run.source import classes_in, of_class, of_classes
from tests.own_ranker import present_code

FILES = {
    "mypkg/__init__.py": "from mypkg.rankers.nsgd import NSGD\n",
    "mypkg/rankers/__init__.py": "",
    "mypkg/rankers/nsgd.py": "from ..steps import size\nfrom .bases import Base\n\n\nclass NSGD(Base):\n    pass\n",
    "mypkg/rankers/bases.py": "import torch\nimport beside\n\n\nclass Base(torch.nn.Module):\n    pass\n",
    "mypkg/rankers/other.py": "OTHER = 1\n",
    "mypkg/steps.py": "import mypkg.constants as constants\nsize = constants.ONE\n",
    "mypkg/constants.py": "from mypkg import steps\nONE = 1\n",
    "beside.py": "import json\n",
    "unrelated.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with modules that can be imported in this test only."""

    def write(files: dict[str, str], below: str = "") -> Path:
        for name, content in files.items():
            path = tmp_path / below / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        monkeypatch.syspath_prepend(str(tmp_path / below))
        return tmp_path / below

    before = set(sys.modules)
    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_files_that_a_class_imports_from_its_folder(folder):
    folder(FILES)
    files = of_class(import_module("mypkg").NSGD)
    assert sorted(files) == [
        "beside.py",
        "mypkg/constants.py",
        "mypkg/rankers/bases.py",
        "mypkg/rankers/nsgd.py",
        "mypkg/steps.py",
    ]
    assert all(len(hash) == 12 and int(hash, 16) >= 0 for hash in files.values())


def test_of_an_installed_package_only_its_own_files(folder):
    folder(FILES, "site-packages")
    assert "beside.py" not in of_class(import_module("mypkg").NSGD)
    assert "mypkg/steps.py" in of_class(import_module("mypkg").NSGD)


def test_a_base_class_from_another_folder_is_own_code(folder):
    folder({"bases.py": "from near import x\n\n\nclass Base:\n    pass\n", "near.py": "x = 1\n"}, "one")
    folder({"mine.py": "import importlib\n\n\nclass Mine(importlib.import_module('bases').Base):\n    pass\n"}, "two")
    assert sorted(of_class(import_module("mine").Mine)) == ["bases.py", "mine.py", "near.py"]


def test_names_of_a_package_itself_are_in_its_init_file(folder):
    folder({"pkg/__init__.py": "SIZE = 1\n", "pkg/mine.py": "from pkg import SIZE\n\n\nclass Mine:\n    pass\n"})
    assert sorted(of_class(import_module("pkg.mine").Mine)) == ["pkg/__init__.py", "pkg/mine.py"]
    folder({"pkg/all.py": "import pkg.leaf\n\n\nclass All:\n    pass\n", "pkg/leaf.py": ""})
    assert sorted(of_class(import_module("pkg.all").All)) == ["pkg/__init__.py", "pkg/all.py", "pkg/leaf.py"]


def test_a_module_that_was_loaded_from_a_path_has_the_name_of_its_file(folder):
    path = folder({"mine.py": "import beside\n\n\nclass Mine:\n    pass\n", "beside.py": ""}, "some folder")
    spec = importlib.util.spec_from_file_location("any.name", path / "mine.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["any.name"] = module
    spec.loader.exec_module(module)
    assert sorted(of_class(module.Mine)) == ["beside.py", "mine.py"]


def test_shipped_classes_have_no_own_code():
    assert of_class(PDGD) == {}


def test_the_classes_of_the_settings_and_their_groups(folder, monkeypatch):
    folder({"mine.py": "from functools import partial\nmake = partial(dict)\n\n\ndef function():\n    pass\n"})
    settings = {
        "ranker": {"_target_": "ol2r_cli.ranker.pdgd.PDGD", "model": {"_target_": "mine.function"}},
        "measure": {"a": {"_target_": "mine.make"}},
        "launcher": {"_target_": "nothing.that.matters"},
        "rounds": 5,
    }
    mine = import_module("mine")
    found = classes_in(settings)
    assert found == (("ranker", PDGD), ("ranker/model", mine.function), ("measure/a", mine))
    monkeypatch.setattr(source, "recorded", present_code)
    code = of_classes(found)
    assert code.groups == {"mine.py": ["measure/a", "ranker/model"]}
    assert list(code.files) == ["mine.py"]


def test_a_changed_file_of_ol2r_belongs_to_an_own_class_that_imports_it(folder, monkeypatch):
    folder({"mine.py": "from ol2r_cli.ranker.toprank import TopRank\n\n\nclass Mine:\n    pass\n"})
    toprank = "ol2r_cli/ranker/toprank.py"
    recorded = {**present_code(), toprank: ("another", "version")}
    monkeypatch.setattr(source, "recorded", lambda: recorded)
    assert sorted(of_classes((("ranker", import_module("mine").Mine),)).files) == ["mine.py", toprank]
    assert of_classes((("ranker", PDGD),)).files == {}


def test_a_class_that_depends_on_variables_of_a_function_is_refused():
    def made(alpha):
        class Local:
            def f(self):
                return alpha

        return Local

    def without():
        class Local:
            def f(self):
                return __class__

        return Local

    with pytest.raises(ValueError, match=r"Local must not use variables .*, got alpha: make alpha a setting, or"):
        of_class(made(1))
    assert of_class(without())


def test_a_class_without_source_is_refused():
    scope: dict = {"__name__": "__main__"}
    exec("class Mine:\n    def f(self): pass\n", scope)
    with pytest.raises(ValueError, match="its source is not available: put the class in a file, and import it"):
        of_class(scope["Mine"])
