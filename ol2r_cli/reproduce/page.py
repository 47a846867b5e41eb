"""What a reproduction comes to on paper: a markdown page with the table, the figures and the paper's claims."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ol2r_cli.report.formats import markdown
from ol2r_cli.report.statistics import LEVEL
from ol2r_cli.reproduce.caveat import caveat, made_with
from ol2r_cli.reproduce.protocol import Protocol
from ol2r_cli.reproduce.recipe import PAPERS
from ol2r_cli.reproduce.runs import Played
from ol2r_cli.reproduce.table import Line, table


def page(protocol: Protocol, played: Played, found: Sequence[Line], drawn: Sequence[Path]) -> str:
    """Markdown. The caveat, where there is one, stands before any number."""
    recipe = protocol.recipe
    warning = caveat(protocol)
    parts = [
        f"# {recipe.title}",
        f"{PAPERS[recipe.paper][1]}, {recipe.where}: {recipe.shows}.",
        f"> **{warning}**" if warning else made_with(protocol),
        "The paper says:\n\n" + "\n".join(f"- {claim}" for claim in recipe.claims),
        *(f"![{path.stem}]({path.name})" for path in drawn),
    ]
    if found:
        parts += [markdown(table(found, comparable=not warning)), _note(found, played)]
    parts += [f"failed: `{cell.command}` ({cell.reason})" for cell in played.failed]
    return "\n\n".join([*parts, f"    {command(protocol)}"]) + "\n"


def command(protocol: Protocol) -> str:
    """The line that makes it again."""
    typed = shlex.join(protocol.typed.values())
    return f"ol2r reproduce {protocol.recipe.name} --scale {protocol.scale} {typed}".strip()


def _note(found: Sequence[Line], played: Played) -> str:
    folds = any(line.value.folds > 1 for line in found)
    lines = []
    if any(line.value.half_width is not None for line in found):
        lines.append(
            f"± is half the width of the {LEVEL:.0%} interval of the mean (Student's t) over "
            + ("folds; n counts (fold, seed)." if folds else "seeds, of which there are n.")
        )
    if played.from_cells:
        lines.append(
            f"Settings are the best of up to {max(played.from_cells.values())} by validation NDCG@10, "
            "chosen with other seeds than those reported."
        )
    return " ".join(lines)
