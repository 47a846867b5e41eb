"""Print what there is to read: tokens of Python by ring and plug-in, and the files for eight tasks.

    python scripts/reading.py

Tokens are those of Python without comments, line ends and indents; a docstring is one. These are figures to look at,
not a test.
"""

from __future__ import annotations

import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ol2r_cli.plugins import plugins  # noqa: E402
from ol2r_cli.text.table import show  # noqa: E402
from tests.test_architecture import plugin_of  # noqa: E402
from tests.test_core import RING_2  # noqa: E402

PACKAGE = ROOT / "ol2r_cli"
_NOT_COUNTED = {
    *(tokenize.ENCODING, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    tokenize.COMMENT,
}
TASKS = {
    "add a ranker on tensors": "interfaces learning/preferences ranker/model_ranker ranker/pdgd/__init__",
    "add one with loops, besides": "stages ranker/pdgd/pdgd_loops loops/gradient_steps loops/rounds loops/launch "
    "loops/workspace loops/lanes",
    "change how PDGD learns": "ranker/pdgd/pdgd_loops ranker/pdgd/__init__ loops/pairs learning/feedback "
    "ranker/model_ranker",
    "change the loop": "interfaces simulation loops/rounds run/runner run/experiment metrics/measurement",
    "add a column to the report": "report/columns report/run_groups text/table",
    "add a figure over rounds": "plugins/figures/kinds plugins/figures/drawn/over_rounds plugins/figures/curves "
    "plugins/figures/look plugins/figures/series",
    "add a plug-in": "plugins/__init__ plugins/start/plugin plugins/search/plugin commands/command "
    "plugins/recordings/block_rounds",
    "follow benchmark --add": "plugins/benchmark/benchmark plugins/benchmark/recipe plugins/benchmark/run_plan "
    "plugins/benchmark/play plugins/benchmark/results plugins/benchmark/differences plugins/benchmark/tables "
    "report/best_settings sweep/sweeper",
}


def tokens(path: Path) -> int:
    """Return the number of tokens of a file."""
    with open(path, "rb") as file:
        return sum(token.type not in _NOT_COUNTED for token in tokenize.tokenize(file.readline))


def part(path: Path) -> str:
    """Return the plug-in or the ring of a file."""
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    plugin = plugin_of(module)
    if plugin:
        return f"plug-in {plugin}"
    if module in RING_2 or module.partition(".")[0] in RING_2:
        return "ring 2"
    methods = module.startswith(("ranker.", "exploration.", "fairness."))
    return "methods" if methods else "ring 1, with all loops"


def main() -> None:
    """Print the table, and the files of each task."""
    total, files = Counter[str](), Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        total[part(path)] += tokens(path)
        files[part(path)] += 1
    order = ["ring 1, with all loops", "ring 2", "methods", *(f"plug-in {plugin.name}" for plugin in plugins())]
    rows = [[name, str(files[name]), f"{total[name]:,}"] for name in order]
    show([*rows, ["all", str(files.total()), f"{total.total():,}"]], ["", "files", "tokens"], numbers=True)
    for task, names in TASKS.items():
        read = [f"{name}.py" for name in names.split()]
        size = sum(tokens(PACKAGE / name) for name in read)
        print(f"\nto {task}, {size:,} tokens in {len(read)} of {files.total()} files:", *read, sep="\n  ")


if __name__ == "__main__":
    main()
