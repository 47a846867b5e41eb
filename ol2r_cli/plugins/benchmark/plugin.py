"""What the plug-in benchmark adds."""

from __future__ import annotations

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Command, Plugin, Source

results = lazy("ol2r_cli.plugins.benchmark.results")

PLUGIN = Plugin(
    name="benchmark",
    about="published results of every ranker, one's own beside them, and figures and tables of papers",
    needs=["figures", "latex"],
    commands=[
        Command(
            name="benchmark",
            about="expected results of every ranker, and your own beside them",
            module="ol2r_cli.plugins.benchmark.benchmark",
        ),
        Command(
            name="reproduce",
            about="a figure or table of the papers: runs, draws, compares",
            module="ol2r_cli.plugins.benchmark.reproduce",
        ),
    ],
    sources=[Source(ending=".parquet", runs=lambda file: [run for run, _ in results.read_results(file)])],
    files=[
        "configs/benchmark",
        "configs/reproduce",
        "docs/benchmark",
        "docs/how-to/reproduce.md",
        "docs/explanation/reproduced.md",
        "docs/reference/reproduced.md",
        "docs/tutorials/comparison.md",
        "scripts/processors.py",
        "scripts/campaign.py",
        "scripts/field.py",
        "scripts/click_costs.py",
        "scripts/croissant.py",
        "scripts/protocol.py",
        "scripts/publish",
        "scripts/reproduced.py",
    ],
)
