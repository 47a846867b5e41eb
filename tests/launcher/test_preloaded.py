"""Jobs find data and loops in memory, and give what they give in a fresh process."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli.run import RESULTS
from ol2r_cli.run.run import find_runs
from tests.manifests import on_disk
from tests.program import python
from tests.worlds import TINY

TIMES = ("started", "ended", "seconds", "cpu_seconds", "peak_memory_gb", "startup_seconds", "rounds_per_second")
STATE = '''\
"""A ranker that says what its process is like, and disturbs it."""

import logging, os, sys, threading, warnings
import torch
from ol2r_cli.launcher import preloaded
from ol2r_cli.ranker.model_ranker import RandomRanker


class Disturbing(RandomRanker):
    def __init__(self, log: str):
        super().__init__()
        self.log = log

    def setup(self, context, features, oracle=None):
        super().setup(context, features, oracle)
        if context.rounds == 1:  # while the sweep is planned
            return
        state = [torch.get_num_threads(), torch.get_default_dtype(), os.getcwd(), sys.path]
        state += [sorted(os.environ.items()), warnings.filters, logging.getLogger("ol2r_cli").handlers]
        state += [threading.active_count(), os.getpgid(0) == os.getpid(), "disturbed" in sys.modules, features.sum()]
        state.insert(0, f"{len(preloaded._sources)} generated datasets in memory")
        print(*state, sep="\\n", file=open(self.log, "x"))
        torch.set_default_dtype(torch.float64)
        features += 1
        os.environ["DISTURBED"] = "yes"
        sys.modules["disturbed"] = sys
        warnings.simplefilter("error")
'''


def files_of(folder: Path) -> dict[str, object]:
    """The files of all runs, and run.json without times."""
    files: dict[str, object] = {}
    for path in find_runs(folder / "runs"):
        files |= {f"{path.name}/{name}": (path / name).read_bytes() for name in RESULTS if (path / name).is_file()}
        about = on_disk(path)
        files[path.name] = {name: about[name] for name in about if name not in (*TIMES, "pid", "checksum")}
        assert about["status"] == "finished"
    return files


def program(text: str, folder: Path):
    """Run a program, whose jobs have a fork server of their own."""
    done = python("-c", text, folder=folder, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_job_gives_what_it_gives_in_a_fresh_process(tmp_path):
    """A job gives what it gives in a fresh process, also after jobs that disturb theirs."""
    (tmp_path / "own" / "ranker").mkdir(parents=True)
    (tmp_path / "own" / "disturbing_ranker.py").write_text(STATE)
    lines = "# Disturbs its process.\n_target_: disturbing_ranker.Disturbing\nlog: state-0  # a file\n"
    (tmp_path / "own" / "ranker" / "disturbing.yaml").write_text(lines)
    rankers = [["ranker=pairrank"]] * 3 + [["ranker=pdgd"]] * 3 + [["ranker=olranknet"]] * 3
    rankers += [["device.threads=2"], ["dataset.seed=1"], ["ranker=oracle"]]
    for number in range(3):
        own = ["ranker=disturbing", f"--config-dir={tmp_path / 'own'}", f"ranker.log=state-{number}"]
        rankers.insert(4 * number, own)
    jobs = [[*TINY, *words, f"seed={seed}", "rounds=12"] for seed, words in enumerate(rankers)]
    found = {}
    for fresh in (True, False):
        folder = tmp_path / str(fresh)
        folder.mkdir()
        launcher = {"launcher.jobs": 1, "launcher.fresh": fresh}
        sweep = f"api.sweep({jobs!r}, launcher={launcher!r}, output_dir='runs', device='cpu')"
        program(f"from ol2r_cli import api; {sweep}", folder)
        states = {path.name: path.read_text().replace(str(folder), "") for path in folder.glob("state-*")}
        assert len(states) == 3
        loaded = [state.partition("\n")[0] for state in states.values()]
        assert loaded == [f"{0 if fresh else 1} generated datasets in memory"] * 3
        found[fresh] = files_of(folder) | {name: state.partition("\n")[2] for name, state in states.items()}
    assert len(found[True]) > 15 * 6
    differing = [name for name in found[True] if found[True][name] != found[False].get(name)]
    assert not differing, {name: (found[True][name], found[False].get(name)) for name in differing}


def test_what_is_loaded_is_shared_and_starts_no_thread(tmp_path):
    program(
        f"""
import os
from ol2r_cli.config.composer import compose
from ol2r_cli.launcher import preloaded
from ol2r_cli.loops import preloaded as _
import ol2r_cli.run.runner

def load(*words, **changed):
    composition = compose([*{TINY!r}, "device=cpu", *words])
    preloaded.load({{"config": composition.settings | changed, "choices": composition.choices}})
    source = preloaded.make(composition.settings["dataset"], "dataset")
    return source.load() is source.load()  # only what is in memory is the same object

tasks = "/proc/self/task"
threads = os.path.isdir(tasks) and os.listdir(tasks)
assert not load("device.threads=2")
assert not load(ranker={{"_target_": "tests.launcher.stumbling.Stumbling", "how": "none", "stone": "."}})
assert load() and load("ranker=olranknet") and load("ranker=offline_ranknet")
assert threads == (os.path.isdir(tasks) and os.listdir(tasks)), "a thread does not survive the fork"
""",
        tmp_path,
    )


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_loads_is_replaced(tmp_path):
    """A server that is killed while it loads is replaced by one that loads nothing."""
    program(
        """
from pathlib import Path
from tests.launcher.jobs import does, outcomes, payload_of
from tests.launcher.test_processes import processes

launcher = processes()
launcher.share([payload_of("import os; os.kill(os.getpid(), 9)")])
launcher.submit([does("import os; os._exit(7)", Path.cwd())])
assert outcomes(launcher, 1)[0].code == 7
launcher.close()
""",
        tmp_path,
    )


def test_a_job_of_a_server_that_has_loaded_nothing_begins(tmp_path):
    """The server keeps the file of what is to be loaded until it has forked the job, which comes too late for it."""
    code = "from ol2r_cli.launcher import preloaded; print(preloaded._sources)"
    done = python("-c", code, OL2R_PRELOADED=str(tmp_path / "gone"))
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr
