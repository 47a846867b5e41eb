"""`ol2r reproduce [NAME]`: a figure or table of the papers: runs what is missing, draws, and compares the numbers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EPILOG = """examples:
  ol2r reproduce                                    the names, and what each shows
  ol2r reproduce pairrank_fig3                      in minutes, on generated data, with few seeds
  ol2r reproduce pairrank_fig3 --dry-run            the runs that it takes, which are there, how long it takes
  ol2r reproduce pairrank_fig3 dataset=mq2008 dataset.path=$HOME/MQ2008 click=inf
  ol2r reproduce p2neurrank_table --scale paper data_dir=/data launcher=slurm
  ol2r reproduce fairexp_fig6 --scale paper dataset=synthetic rounds=1000
words are those of `ol2r run`, for all runs; finished runs are not run again. Exit codes: 0 done, 2 bad configuration or
data, 3 some runs failed (what is there is drawn), 130 interrupted.
"""
SCALE = ("quick", "paper")


def main(arguments: list[str]) -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(
        "ol2r reproduce",
        usage="ol2r reproduce [NAME] [SETTING=VALUE ...] [--scale quick|paper] [--dry-run] [--out DIR]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="as listed without one")
    parser.add_argument("words", metavar="SETTING=VALUE", nargs="*", help="as for `ol2r run`, for all runs")
    parser.add_argument("--scale", choices=SCALE, help="quick: minutes, the default | paper: the protocol of the paper")
    parser.add_argument("--dry-run", action="store_true", help="list the runs, and run nothing")
    parser.add_argument("--out", metavar="DIR", type=Path, help="for figures; else <output_dir>/reproduce/NAME")
    given = parser.parse_intermixed_args(arguments)
    try:
        if given.name is None:
            return _list()
        return _reproduce(given)
    except ValueError as error:
        print(f"ol2r reproduce: {error}", file=sys.stderr)
        return 2


def _list() -> int:
    from ol2r_cli.reproduce.book import names, recipe

    known = {name: recipe(name).line for name in names()}
    width = max(map(len, known))
    print("\n".join(f"{name:{width}}  {line}" for name, line in known.items()))
    return 0


def _reproduce(given: argparse.Namespace) -> int:
    from ol2r_cli.reproduce.book import recipe
    from ol2r_cli.reproduce.protocol import Protocol
    from ol2r_cli.reproduce.whole import reproduce, told

    scales = [word.partition("=")[2] for word in given.words if word.startswith("scale=")]
    words = [word for word in given.words if not word.startswith("scale=")]
    protocol = Protocol(recipe(given.name), given.scale or (scales or ["quick"])[-1], words)
    return told(protocol) if given.dry_run else reproduce(protocol, given.out)
