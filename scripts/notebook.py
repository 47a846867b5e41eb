"""Executes docs/notebook.ipynb and writes its outputs into it: python scripts/notebook.py

Cells are executed as Jupyter does, in `__main__` and with their source at hand, in an empty folder. Jupyter itself is
not needed.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import linecache
import os
import sys
import types
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its code cells, executed in a temporary folder. Raises what a cell raises."""
    program, before = types.ModuleType("__main__"), os.getcwd()
    sys.modules["__main__"] = program
    cells = [dict(cell) for cell in notebook["cells"]]
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), 1):
                cell["execution_count"] = number
                cell["outputs"] = _outputs("".join(cell["source"]), number, program)
        finally:
            os.chdir(before)
    return {**notebook, "cells": cells}


def _outputs(text: str, number: int, program: types.ModuleType) -> list[dict[str, Any]]:
    """What a cell prints, and the display of its last expression."""
    name = f"<cell {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    tree, printed, value = ast.parse(text, name), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), vars(program))
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), vars(program))
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        outputs.append(
            {"data": _display(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def _display(value: Any) -> dict[str, Any]:
    """The forms in which a notebook can show a value."""
    data: dict[str, Any] = {}
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    if hasattr(value, "_repr_markdown_"):
        data["text/markdown"] = _lines(value._repr_markdown_())
    return {**data, "text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(True)


def main() -> int:
    """Execute the notebook and write it."""
    notebook = execute(json.loads(NOTEBOOK.read_text()))
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
