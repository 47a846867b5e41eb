"""What the plug-in advise adds."""

from __future__ import annotations

from ol2r_cli.plugins import Command, Plugin

PLUGIN = Plugin(
    name="advise",
    about="from a click log to a decision: what online learning would gain",
    needs=["click_logs", "figures", "page"],
    commands=[
        Command(
            name="advise",
            about="a click log: would online learning pay, and how sure is that",
            module="ol2r_cli.plugins.advise.advise",
        )
    ],
    files=[
        "configs/dataset/world.yaml",
        "docs/explanation/forecasts.*",
        "scripts/forecasts.py",
    ],
)
