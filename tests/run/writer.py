"""A small run that is killed many times: `python writer.py FOLDER STEP PART` exits 0 if no kill has left damage.

Forked processes resume the run from its checkpoint and are killed by SIGKILL, either right before the n-th fsync,
rename or unlink, for every STEP-th n, or at a random moment. Parts of tables of PART bytes are not written again. After
each kill another forked process checks the files. (Forking is much faster than starting Python.)
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import polars as pl  # used only after a fork, because its threads do not survive one
import torch

from ol2r_cli.run import trace as trace_module
from ol2r_cli.run.run import Run, read_checkpoint
from ol2r_cli.run.store import Manifest, RunDirectory, restore_checkpoint, save_checkpoint
from ol2r_cli.run.summary import summarise
from ol2r_cli.run.tables import BLOCKS
from ol2r_cli.run.trace import Trace

SEEDS = [4, 5]
CHOICES = {"dataset": "letters", "ranker": "pdgd", "click": "perfect"}
ROUNDS = 100_000  # more than the processes can play before they are killed


def write(path: Path, rounds: int) -> None:
    """Play and write the rounds. Cumulative NDCG in round t is t (t + 1) / 2 + seed, which shows missing rounds."""
    with RunDirectory(path) as directory:
        state = restore_checkpoint(directory, "id") or {"round": 0, "sum": torch.tensor([4.0, 5.0]), "queue": [0]}
        trace, sums, queue = Trace(directory, SEEDS), state["sum"].clone(), list(state["queue"])
        about = {"id": "id", "choices": CHOICES, "fingerprint": "f", "seeds": SEEDS, "device": "cpu", "threads": 1}
        about |= {"engine": "tensors", "command": "none"}
        with Manifest(directory, **about, rounds=rounds, round=state["round"], every=0.0) as manifest:
            for t in range(state["round"] + 1, rounds + 1):
                sums += t
                trace.record(t, {"cumulative_ndcg": sums, "query": torch.tensor([t, t])})
                queue.append(t)
                if t % 3 == 0 or t == rounds:
                    trace.record_blocks(t, torch.tensor([[2, 2], [1, 0]]))
                    if t % 2 == 0 or t == rounds:  # evaluations wait in a queue, which belongs to the checkpoint
                        grid = torch.tensor(queue)[:, None].expand(-1, 2) / ROUNDS
                        trace.record_evaluation(queue, "test", {"ndcg_10": grid})
                        queue = []
                    trace.flush()
                    save_checkpoint(directory, {"round": t, "sum": sums, "queue": queue}, "id")
                manifest.progress(t)
            trace.finish()
            directory.write_json("summary.json", summarise(Run(path, manifest.content, files=directory.files)))
        directory.clean_up(keep_checkpoint=False)  # after the manifest says finished, as in Runner.run


def check_killed(path: Path) -> None:
    run, saved = Run.read(path), read_checkpoint(path)
    assert run is None or run.state == "killed", run
    if run is not None:
        assert check_tables(run) == (saved["state"]["round"] if saved else 0), "the tables are not of the checkpoint"
    if saved is not None:
        state = saved["state"]
        assert state["sum"].tolist() == [state["round"] * (state["round"] + 1) / 2 + seed for seed in SEEDS]


def check_tables(run: Run) -> int:
    """Check that no row is missing, wrong or duplicated; returns the number of rounds on disk."""
    trace, evaluation, blocks = run.trace, run.evaluation, run.blocks
    rounds = trace["round"].max() or 0
    for seed in SEEDS:
        rows = trace.filter(seed=seed)
        assert rows["round"].to_list() == list(range(1, rounds + 1))
        assert rows["cumulative_ndcg"].to_list() == [t * (t + 1) / 2 + seed for t in range(1, rounds + 1)]
        evaluated = evaluation.filter(seed=seed)["round"].to_list()
        assert evaluated == list(range(len(evaluated)))
    assert blocks.height == blocks.unique(BLOCKS.key).height == 3 * blocks["round"].n_unique()
    return rounds


def check_finished(path: Path, rounds: int) -> None:
    run = Run.read(path, thorough=True)
    assert run is not None
    assert run.state == "finished"
    assert check_tables(run) == rounds == run.round
    assert run.evaluation.filter(pl.col("seed") == 4)["round"].max() == rounds
    assert not [*path.glob(".*"), *path.glob("*part*"), *path.glob("checkpoint.pt")]


def die_before(count: int) -> None:
    """Kill this process by SIGKILL in place of its `count`-th fsync, rename or unlink."""
    left = count

    def counting(operation):
        def count_down(*arguments, **keywords):
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **keywords)

        return count_down

    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, counting(getattr(os, name)))


def forked(action, *arguments, kill_after: float | None = None) -> int:
    """Run an action in a child; its exit status, negative for the signal that ended it."""
    child = os.fork()
    if not child:
        try:
            action(*arguments)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(path: Path, step: int, part_bytes: int) -> int:
    torch.set_num_threads(1)
    moments, counts = random.Random(7), range(1, 41, step)

    trace_module.PART_BYTES = part_bytes

    def write_until_killed(count: int, rounds: int) -> None:
        die_before(count)
        write(path, rounds)

    killed = [
        forked(write_until_killed, count, ROUNDS) == -signal.SIGKILL and not forked(check_killed, path)
        for count in counts
    ]
    for _ in range(15 // step):
        status = forked(write, path, ROUNDS, kill_after=moments.uniform(0.02, 0.3))
        killed.append(status == -signal.SIGKILL and not forked(check_killed, path))
    rounds = 1 + read_checkpoint(path)["state"]["round"]
    for count in counts:  # the last round, the summary and the end
        status = forked(write_until_killed, count, rounds)
        if status != -signal.SIGKILL or Run.read(path).state == "finished":
            break
        killed.append(not forked(check_killed, path))
    done = not forked(write, path, rounds) and not forked(check_finished, path, rounds)
    print(f"{sum(killed)} of {len(killed)} kills left a sound run at round {rounds}; it then finished: {done}")
    return 0 if all(killed) and done else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
