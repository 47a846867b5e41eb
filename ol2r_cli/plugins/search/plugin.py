"""What the plug-in search adds."""

from __future__ import annotations

from ol2r_cli.plugins import Command, Plugin

PLUGIN = Plugin(
    name="search",
    about="search for settings by Optuna",
    meant={"tune": "ol2r search"},
    commands=[
        Command(
            name="search",
            about="settings with the best validation NDCG within ranges, by Optuna",
            module="ol2r_cli.plugins.search.search",
        ),
    ],
    files=["docs/how-to/tune.md"],
)
