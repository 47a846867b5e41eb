"""What the plug-in page adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Output, Plugin

if TYPE_CHECKING:
    from ol2r_cli.plugins.page import report
else:
    report = lazy("ol2r_cli.plugins.page.report")  # and jinja2

PLUGIN = Plugin(
    name="page",
    about="a report as one page of HTML",
    needs=["figures"],
    outputs=[
        Output(
            name="html",
            endings={".html": "html"},
            needs_file=True,
            check=lambda options: report.check(options),
            text=lambda document, options: report.page_of(document, options),
        )
    ],
)
