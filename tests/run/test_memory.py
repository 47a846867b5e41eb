"""Why the memory of a run is counted before it is taken: the kernel ends the process, and torch refuses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

GROUPS = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
ROOM = 2 * 2**30
# 4.7 GiB in all; no tensor has more than the machine.
RUN = ["run", "dataset.features=100", "replicas=10000", "rounds=50", "dataset.queries={train:40,validation:4,test:4}"]
CODE = """
import os, sys
from pathlib import Path
from ol2r_cli import cli
from ol2r_cli.run import experiment
from ol2r_cli.tensor import memory

group, limit, words = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
(group / "cgroup.procs").write_text(str(os.getpid()))
memory._GROUP_LIMITS = [str(group / limit)]
if words.pop(0) == "uncounted":
    experiment.available_memory = lambda device: 2**60
sys.exit(cli.main(words))
"""


@pytest.fixture
def group() -> Iterator[tuple[Path, str]]:
    """A control group of ROOM bytes, and its file with the limit."""
    for root, limit in GROUPS.items():
        made = Path(root, f"ol2r-{os.getpid()}")
        if not Path(root, "cgroup.procs").exists():
            continue
        try:
            made.mkdir()
            (made / limit).write_text(str(ROOM))
        except OSError:
            continue
        yield made, limit
        made.rmdir()
        return
    pytest.skip("no control group can be made here")


@pytest.mark.slow
def test_a_run_is_refused_that_the_kernel_would_kill(group, tmp_path):
    def ended(how: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", CODE, *map(str, group), how, *RUN, f"output_dir={tmp_path}"]
        return subprocess.run(words, capture_output=True, text=True)

    assert ended("uncounted").returncode == -signal.SIGKILL
    refused = ended("counted")
    assert refused.returncode == 2
    assert "replicas=10000, positions=10 need more memory than there is (" in refused.stderr
    assert "GiB of 2.0): make one of them smaller" in refused.stderr
