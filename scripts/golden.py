"""Rewrites the golden traces of tests/golden, all or those named: python scripts/golden.py [NAME ...]"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from tests.golden.traces import CASES, FOLDER, trace


def main(names: list[str]) -> int:
    """Exit code 0, or 2 when there is no such trace."""
    torch.set_num_threads(1)
    for name in names or CASES:
        if name not in CASES:
            print(f"NAME must be one of {', '.join(CASES)}, got {name}", file=sys.stderr)
            return 2
        file = FOLDER / f"{name}.txt"
        before, after = file.read_text() if file.exists() else None, trace(name)
        file.write_text(after)
        print(f"{name}: {'unchanged' if before == after else 'new' if before is None else 'CHANGED, see git diff'}")
    for stale in sorted({file.stem for file in FOLDER.glob("*.txt")} - set(CASES)):
        print(f"{stale}: no longer among the cases, remove it")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
