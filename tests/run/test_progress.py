"""What a run shows while it plays, without a terminal."""

from __future__ import annotations

import threading

import pytest
import torch

from ol2r_cli.loops import clock
from ol2r_cli.run.progress import Progress, start_shown


def test_a_line_has_the_round_and_the_latest_metrics(capsys):
    with Progress("pairrank · perfect · mq2008", 200, 100) as progress:
        progress.plain_every = 1e9
        progress.update(110)
        assert capsys.readouterr().err == "", "not again so soon"
        progress.plain_every = -1
        progress.evaluated(120, {"validation NDCG@10": 0.9, "test NDCG@10": 0.75})
        progress.measures = {
            "online_ndcg": torch.tensor([[0.5, 0.25], [torch.nan, 0.3], [0.75, 0.2]]),
            "unfairness": torch.tensor([[9.0, 9.0], [8.0, 8.0], [1.0, 2.0]]),
        }
        progress.start -= 10  # seconds ago
        progress.update(150)
        metrics = "online NDCG 0.400  test NDCG@10 0.750"
        line = f"round 150/200  5 rounds/s  10.0s left  {metrics}  unfairness 1.500  pairrank · perfect · mq2008"
        assert capsys.readouterr().err == f"{line}\n"
        progress.start += 6
        progress.unfairness = False
        progress.update(160)
        line = f"round 160/200  15 rounds/s  {metrics}  pairrank · perfect · mq2008"
        assert capsys.readouterr().err == f"{line}\n", "no estimate from four seconds"


@pytest.fixture
def compiling(monkeypatch):
    """Loops are compiled until the test calls this, which is noticed at once."""
    monkeypatch.setattr(Progress, "compiling_after", 0.0)
    clock.stop()
    yield clock.start
    if clock.compiling:
        clock.start()


def test_the_line_says_that_loops_are_compiled(capsys, compiling):
    """In place of a speed; without a terminal once, before the first round ends."""
    with Progress("pdgd · perfect · mq2008", 200, 0) as progress:
        progress.timer.join()
        expected = "round {}/200  compiling loops, once in this environment  pdgd · perfect · mq2008"
        assert capsys.readouterr().err == expected.format(0) + "\n"
        progress.done, progress.start = 10, progress.start - 10
        assert progress.line() == expected.format(10)
    compiling()
    with Progress("pdgd · perfect · mq2008", 200, 0) as progress:
        progress.timer.join()
    assert capsys.readouterr().err == "", "nothing is compiled"


@pytest.mark.parametrize(("shown", "told"), [(True, "compiling loops, once in this environment\n"), (False, "")])
def test_a_start_says_once_that_loops_are_compiled(capsys, compiling, shown, told):
    """Before rounds are shown, as when data are parsed."""
    before = {*threading.enumerate()}
    with start_shown(shown):
        for thread in {*threading.enumerate()} - before:
            thread.join()
    compiling()
    assert capsys.readouterr().err == told
    with start_shown(shown):
        pass
    assert capsys.readouterr().err == "", "nothing is compiled"
