"""docs/notebook.ipynb: executed again, it gives the outputs that it shows."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def words(cell: dict) -> list[str]:
    """The words of the outputs that are no numbers, which may differ between processors."""
    texts = [text for output in cell["outputs"] for text in [*output.get("text", ()), *_of_data(output)]]
    return [word for word in "".join(texts).replace("[", " ").split() if not any(map(str.isdigit, word))]


def _of_data(output: dict) -> list[str]:
    return [line for kind, lines in sorted(output.get("data", {}).items()) if kind != "image/png" for line in lines]


@pytest.fixture(scope="module")
def executed(tmp_path_factory) -> dict:
    pytest.importorskip("matplotlib")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, 4)
    folder = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    return nbclient.NotebookClient(notebook, timeout=500, resources=folder).execute()


@pytest.mark.slow
def test_it_gives_what_it_shows_from_a_class_to_a_figure(executed):
    shown = json.loads(NOTEBOOK.read_text())
    for again, cell in zip(code_cells(executed), code_cells(shown), strict=True):
        assert cell["execution_count"], "it has been executed"
        assert words(again)[:20] == words(cell)[:20]
        assert [set(o.get("data", ())) for o in again["outputs"]] == [set(o.get("data", ())) for o in cell["outputs"]]
    data = [set(output.get("data", ())) for cell in code_cells(executed) for output in cell["outputs"]]
    assert any("image/png" in kinds for kinds in data)
    assert sum("text/markdown" in kinds for kinds in data) >= 2
    again, told = ({_id(cell) for cell in code_cells(notebook)} - {""} for notebook in (executed, shown))
    assert len(told) == 1
    assert again == told, "the code of a class in a notebook is part of the id"


def test_its_classes_run_in_this_process(tmp_path, monkeypatch):
    """Without its checks, its processes and its figure, and with fewer rounds; the slow test executes all of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", main := ModuleType("__main__"))
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
    monkeypatch.setattr("ol2r_cli.plugins.python.passed_classes._written", {})  # tests of others have a Perceptron, too
    texts = ["".join(cell["source"]) for cell in code_cells(json.loads(NOTEBOOK.read_text()))]
    for number, text in enumerate(texts):
        if not any(call in text for call in ("%pip", "ol2r.check(", "ol2r.sweep(", "ol2r.draw(")):
            short, name = text.replace("rounds=300", "rounds=20"), f"<cell {number}>"
            linecache.cache[name] = (len(short), None, short.splitlines(True), name)
            exec(compile(short, name, "exec"), vars(main))
    assert [len(each.trace) for each in (main.run, main.measured)] == [3 * 20] * 2
    assert main.run.id != main.measured.id
    assert main.measured.summary["abandoned"]["n"] == 3
    assert main.clicks > 0


@pytest.mark.parametrize(
    ("options", "installs"), [([], False), (["-I", "-S"], True)], ids=["as it is here", "without packages"]
)
def test_its_first_cell_installs_ol2r_only_where_it_is_missing(options, installs):
    """On a hosted machine, such as Colab, nothing is there before it."""
    transformed = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager().transform_cell
    first = transformed("".join(code_cells(json.loads(NOTEBOOK.read_text()))[0]["source"]))
    notebook = "class get_ipython:\n    run_line_magic = staticmethod(print)\n"  # which shows what would be done
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *options, "-c", notebook + first], env=here, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ('pip install --quiet "ol2r[plots]"\n' if installs else "", "")


def _id(cell: dict) -> str:
    plain = "".join(line for output in cell["outputs"] for line in output.get("data", {}).get("text/plain", ()))
    return plain.split()[1] if plain.startswith("<Run ") else ""
