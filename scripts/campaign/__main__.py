"""Fault campaigns: disturbs ol2r in seeded ways, and counts what it survives, refuses with advice, or gets wrong.

    make campaign                                          # all campaigns, at the sizes of docs/reliability.md
    .venv/bin/python scripts/campaign settings --count 200 --seed 7
    .venv/bin/python scripts/campaign --short              # every campaign at a size for the tests

A campaign is a module of this folder with `run(seed, count, folder) -> Tally`; `folder` is empty and its own. The same
seed and count try the same cases. Exit code 1 if any case is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import faults

# Campaign: cases of a full campaign, cases with --short.
CAMPAIGNS = {
    "kills": (1_000, 12),
    "disk_faults": (1_000, 12),
    "writers": (60, 6),
    "damaged_files": (600, 24),
    "sweeps": (20, 2),
    "data_files": (100_000, 1_000),
    "settings": (10_000, 100),
}

HEAD = "| campaign | tried | survived | refused with advice | wrong |\n|---|---|---|---|---|"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)}; all without a name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="cases to try instead of the default of each campaign")
    parser.add_argument("--short", action="store_true", help="few cases")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in CAMPAIGNS]:
        parser.error(f"NAME must be one of {', '.join(CAMPAIGNS)}, got {unknown[0]}")
    faults.load()
    rows, wrong = [], []
    for name in options.names or CAMPAIGNS:
        full, short = CAMPAIGNS[name]
        count, start = options.count or (short if options.short else full), time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"ol2r-{name}-") as folder:
            tally = import_module(name).run(options.seed, count, Path(folder))
        rows.append(tally.row())
        wrong += [f"{tally.name}: {case}" for case in tally.wrong]
        print(f"{name}: {tally.tried:,} cases in {time.monotonic() - start:,.0f} s", file=sys.stderr)
    print(HEAD, *rows, *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
