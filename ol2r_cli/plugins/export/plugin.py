"""What the plug-in export adds."""

from __future__ import annotations

from ol2r_cli.plugins import Command, Plugin

PLUGIN = Plugin(
    name="export",
    about="finished runs for other tools",
    commands=[
        Command(
            name="export",
            about="finished runs for other tools: by query, TREC, TensorBoard",
            module="ol2r_cli.plugins.export.export",
        ),
    ],
    files=["docs/how-to/export.md"],
)
