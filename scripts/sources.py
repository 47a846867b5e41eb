"""Records the hashes of ol2r's source files, ol2r_cli/run/source_hashes.json: python scripts/sources.py

Runs of code that differs from the record have ids of their own, so the record changes only where results do not.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ol2r_cli.run import source
from ol2r_cli.run.identity import RESULTS_VERSION


def main() -> int:
    """Write the record, and print which files have other code than before."""
    changed = source.changed_files() if source.REFERENCE.exists() else {}
    source.REFERENCE.write_text(source.reference(RESULTS_VERSION))
    for name in changed:
        print(f"{name}: recorded")
    if changed:
        print("their runs have the ids of the version before: check that `make golden` changes nothing, or raise")
        print("RESULTS_VERSION in ol2r_cli/run/identity.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
