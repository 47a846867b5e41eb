"""What the plug-in advise adds."""

from __future__ import annotations

from ol2r_cli.plugins import Plugin

PLUGIN = Plugin(
    name="advise",
    about="from a click log to a decision: what online learning would gain",
    needs=["click_logs"],
)
