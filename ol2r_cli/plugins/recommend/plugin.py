"""What the plug-in recommend adds."""

from __future__ import annotations

from ol2r_cli.plugins import Command, Plugin
from ol2r_cli.plugins.recommend.kind import KIND

PLUGIN = Plugin(
    name="recommend",
    about="explainable recommendation from reviews",
    needs=["page"],
    commands=[
        Command(name="recommend", about=KIND.about, module="ol2r_cli.plugins.recommend.recommend"),
    ],
    run_kinds=[KIND],
    files=[
        "configs/recommend.yaml",
        "configs/model",
        "configs/reviews",
        "configs/reproduce/data/amazon*",
        "configs/reproduce/dissertation_table4_*",
        "configs/reproduce/dissertation_fig4_*",
        "docs/how-to/recommend.md",
        "docs/algorithms/recommendation.md",
        "docs/reference/settings/recommend.md",
        "docs/users_as_queries.py",
        "tests/reference/factorization_tree.py",
    ],
)
