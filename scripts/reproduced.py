"""Writes the table of docs/explanation/reproduced.md from the recipes: what papers say, and what published runs show.

    python scripts/reproduced.py

The lines are those of `claims` and `seen` in configs/reproduce. A test compares the page with what this gives.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ol2r_cli.plugins.benchmark.recipe import PAPERS, Recipe, load_recipe, recipe_names  # noqa: E402

PAGE = ROOT / "docs/explanation/reproduced.md"
VERDICTS = ("yes", "no", "undecided")
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"


def tables() -> str:
    """Return a table of numbers of verdicts, and one for each paper with a row for each claim about online rankers."""
    recipes = [load_recipe("reproduce", name) for name in recipe_names("reproduce")]
    counts = [f"| claims of | {' | '.join(VERDICTS)} |", "|---|" + "---:|" * len(VERDICTS)]
    parts = []
    for paper, (title, _) in PAPERS.items():
        of_paper = [recipe for recipe in recipes if recipe.paper == paper and recipe.runs == "run"]
        verdicts = [seen.partition(",")[0] for recipe in of_paper for seen in recipe.seen]
        counts.append(f"| {title} | {' | '.join(str(verdicts.count(verdict)) for verdict in VERDICTS)} |")
        lines = [line for recipe in of_paper for line in _rows(recipe)]
        parts.append(
            "\n".join(
                [f"### {title}", "", "| `ol2r reproduce` | the paper says | seen here |", "|---|---|---|", *lines]
            )
        )
    return "\n\n".join(["\n".join(counts), *parts])


def _rows(recipe: Recipe) -> Iterator[str]:
    """Yield the rows of a recipe; the first one names it."""
    name = f"`{recipe.name}`"
    for claim, seen in zip(recipe.claims, recipe.seen, strict=True):
        verdict, comma, reason = seen.partition(",")
        yield f"| {name} | {claim} | **{verdict}**{comma}{reason} |"
        name = ""


def page(text: str) -> str:
    """Return the text of the page with these tables in place of its own."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
