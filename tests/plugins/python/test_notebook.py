"""docs/notebook.ipynb: executed again, it gives the outputs that it shows."""

from __future__ import annotations

import json
import linecache
import sys
from types import ModuleType

import pytest

from tests.program import ROOT, python

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SHOWN = json.loads(NOTEBOOK.read_text())


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


def kinds(notebook: dict) -> list[set[str]]:
    """The kinds of data of every output."""
    return [set(output.get("data", ())) for cell in code_cells(notebook) for output in cell["outputs"]]


@pytest.mark.slow
def test_it_gives_what_it_shows(executed):
    cells = code_cells(SHOWN)
    assert all(cell["execution_count"] for cell in cells), "it has been executed"
    assert [words(cell)[:20] for cell in code_cells(executed)] == [words(cell)[:20] for cell in cells]
    assert kinds(executed) == kinds(SHOWN)


@pytest.mark.slow
def test_it_shows_a_figure_and_tables(executed):
    assert any("image/png" in of_output for of_output in kinds(executed))
    assert sum("text/markdown" in of_output for of_output in kinds(executed)) >= 2


@pytest.mark.slow
def test_its_run_has_the_id_that_it_shows(executed):
    """The code of a class in a notebook is part of the id."""
    again, told = ({_id(cell) for cell in code_cells(notebook)} - {""} for notebook in (executed, SHOWN))
    assert len(told) == 1
    assert again == told


def test_its_classes_run_in_this_process(tmp_path, monkeypatch):
    """Without its checks, its processes and its figure, and with fewer rounds; the slow test executes all of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", main := ModuleType("__main__"))
    texts = ["".join(cell["source"]) for cell in code_cells(SHOWN)]
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
    first = transformed("".join(code_cells(SHOWN)[0]["source"]))
    notebook = "class get_ipython:\n    run_line_magic = staticmethod(print)\n"  # which shows what would be done
    done = python(*options, "-c", notebook + first)
    assert (done.stdout, done.stderr) == ('pip install --quiet "ol2r[plots]"\n' if installs else "", "")


def _id(cell: dict) -> str:
    plain = "".join(line for output in cell["outputs"] for line in output.get("data", {}).get("text/plain", ()))
    return plain.split()[1] if plain.startswith("<Run ") else ""
