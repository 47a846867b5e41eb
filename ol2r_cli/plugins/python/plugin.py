"""What the plug-in python adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Plugin

if TYPE_CHECKING:
    from ol2r_cli.plugins.python import notebook_code
else:
    notebook_code = lazy("ol2r_cli.plugins.python.notebook_code")

PLUGIN = Plugin(
    name="python",
    about="ol2r from Python, in a script or a notebook",
    needs=["check", "figures"],
    texts_of=lambda cls: notebook_code.texts_of(cls),
    pickled=lambda names: notebook_code.pickled(names),
    files=[
        "ol2r_cli/api.py",
        "docs/how-to/python.md",
        "docs/reference/python_api.md",
        "docs/notebook.ipynb",
        "docs/one_file.py",
    ],
)
