"""What the plug-in latex adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Output, Plugin

if TYPE_CHECKING:
    from ol2r_cli.commands import command
    from ol2r_cli.plugins.latex import report
else:
    command, report = lazy("ol2r_cli.commands.command"), lazy("ol2r_cli.plugins.latex.report")

PLUGIN = Plugin(
    name="latex",
    about="tables of LaTeX, and references as BibTeX",
    outputs=[
        Output(
            name="latex",
            endings={".tex": "latex"},
            text=lambda document, options: report.latex(document).text(),
            examples="""tables of LaTeX
  ol2r report outputs --compare all --out table.tex       click models are columns
""",
        ),
        Output(
            name="bibtex",
            arguments=lambda: [
                command.argument(
                    "--bibtex", action="store_true", help="the references of the components, in place of the table"
                )
            ],
            main=lambda options: report.print_references(options),
            examples="""references
  ol2r report outputs --bibtex --out references.bib       of the components of these runs, and of ol2r, as BibTeX
""",
        ),
    ],
)
