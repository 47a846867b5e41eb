"""What the plug-in look_after adds."""

from __future__ import annotations

from ol2r_cli.plugins import Command, Plugin

PLUGIN = Plugin(
    name="look_after",
    about="looking after finished runs: whether they are intact, what differs, disk, and this installation",
    meant={"remove": "ol2r clean", "delete": "ol2r clean"},
    commands=[
        Command(
            name="clean",
            about="disk usage of runs, and removal after confirmation",
            module="ol2r_cli.plugins.look_after.clean",
        ),
        Command(
            name="diff",
            about="two runs side by side: settings, metrics, where rounds diverge",
            module="ol2r_cli.plugins.look_after.diff",
        ),
        Command(name="doctor", about="versions, CUDA, data found, disk", module="ol2r_cli.plugins.look_after.doctor"),
        Command(
            name="score",
            about="scores of a finished run's ranker for the documents of a file",
            module="ol2r_cli.plugins.look_after.score",
        ),
        Command(
            name="verify",
            about="whether finished runs are intact: hashes, rows, sums, summaries",
            module="ol2r_cli.plugins.look_after.verify",
        ),
    ],
    files=["docs/how-to/check_runs.md", "docs/how-to/score.md"],
)
