"""Python in a process of its own, with this ol2r."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python(*words: object, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """What Python does with these words in a folder, and with these variables in its environment."""
    command, variables = [sys.executable, *map(str, words)], os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=540)
