"""What the plug-in authoring adds."""

from __future__ import annotations

from ol2r_cli.plugins import Command, Plugin

PLUGIN = Plugin(
    name="authoring",
    about="components of one's own, words that a shell completes, and speed",
    commands=[
        Command(
            name="bench",
            about="rounds per second on a generated MSLR-sized dataset",
            module="ol2r_cli.plugins.authoring.bench",
        ),
        Command(
            name="completion",
            about="completion script for bash, zsh, fish or tcsh",
            module="ol2r_cli.plugins.authoring.completion",
            packages={"argcomplete": "completion"},
        ),
        Command(
            name="new",
            about="a component of your own that works: class, settings and test",
            module="ol2r_cli.plugins.authoring.new",
        ),
    ],
)
