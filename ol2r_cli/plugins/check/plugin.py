"""What the plug-in check adds."""

from __future__ import annotations

from ol2r_cli.plugins import Command, Plugin

PLUGIN = Plugin(
    name="check",
    about="property checks of components",
    commands=[
        Command(
            name="check", about="property checks of components, such as your own", module="ol2r_cli.plugins.check.check"
        ),
    ],
)
