"""Which jobs one process plays together."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli.config.composer import Composer
from ol2r_cli.device import BreakEven
from ol2r_cli.plugins.gpu.batches import automatic_size, gpu_is_faster, size_on_gpu
from ol2r_cli.sweep.plan import SweepJob, can_share
from tests.worlds import TINY


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def planned(composer: Composer, words: str) -> SweepJob:
    small = [] if "dataset=" in words else TINY
    composition = composer([*small, *words.split()])
    return SweepJob(0, (), settings=composition.settings, choices=composition.choices)


LETOR = "dataset=mq2008 dataset.path=/nowhere"
SHARED = [
    ("seed=1", "seed=2"),
    ("output_dir=here note=one", "output_dir=there"),
    (f"{LETOR} dataset.fold=1", f"{LETOR} dataset.fold=5"),
    ("ranker=pdgd ranker.learning_rate=1", "ranker=pdgd ranker.learning_rate=0.1 ranker.decay=0.5"),
    ("ranker.l2=1 exploration.alpha=0.1", "ranker.l2=0.5 exploration.alpha=0"),
    ("ranker=dbgd ranker.delta=1", "ranker=dbgd ranker.delta=0.5"),
    ("exploration=epsilon_greedy exploration.epsilon=0", "exploration=epsilon_greedy exploration.epsilon=0.5"),
    ("click.click=[0,.2,.4,.8,1]", "click.click=[0,0,0,.8,1]"),
]
APART = [
    ("ranker=pdgd", "ranker=sgd_ranknet"),
    ("click=perfect", "click=navigational"),
    ("rounds=10", "rounds=20"),
    ("replicas=1", "replicas=2"),
    ("positions=5", "positions=10"),
    ("dataset.documents=5", "dataset.documents=6"),
    ("evaluate_every=10", "evaluate_every=20"),
    ("exploration.alpha=theory", "exploration.alpha=0.1"),
    ("ranker=mgd ranker.candidates=9", "ranker=mgd ranker.candidates=5"),
    ("ranker=olranknet ranker.model.hidden_layers=[8]", "ranker=olranknet ranker.model.hidden_layers=[4]"),
    ("click.click=[0,.2,.4,.8,1]", "click.click=null"),
    ("device.threads=1", "device.threads=2"),
    ("force=true", "force=false"),
]


@pytest.mark.parametrize(("one", "other"), SHARED)
def test_jobs_that_differ_in_numbers_share_a_process(composer: Composer, one: str, other: str):
    """As seeds and folds are."""
    assert can_share(planned(composer, one), planned(composer, other))


@pytest.mark.parametrize(("one", "other"), APART)
def test_jobs_that_differ_in_choices_or_sizes_are_apart(composer: Composer, one: str, other: str):
    """And in all else."""
    first, second = planned(composer, one), planned(composer, other)
    assert can_share(first, planned(composer, one))
    assert not can_share(first, second)


def test_own_classes_and_jobs_that_are_tried_again_are_alone(composer: Composer, tmp_path: Path):
    first, second = planned(composer, "seed=1"), planned(composer, "seed=2")
    second.attempts = 1
    assert not can_share(first, second)
    second.attempts, second.alone = 0, True
    assert not can_share(first, second)
    own = planned(composer, "seed=1")
    own.settings = {**own.settings, "ranker": {"_target_": "mine.Mine"}}
    assert not can_share(own, own)


@pytest.mark.parametrize(
    ("waiting", "workers", "seconds", "size"),
    [
        (100, 2, None, 1),  # it is not known yet how long a job takes
        (120, 2, 0.1, 20),  # three batches for each worker
        (120, 2, 1.0, 5),  # five seconds
        (120, 2, 60.0, 1),
        (11, 2, 0.1, 1),
        (12, 2, 0.1, 2),
        (1, 8, 0.0, 1),
        (10_000, 2, 0.0, 50),  # each has files open
    ],
)
def test_automatic_sizes_leave_work_to_all_workers(waiting, workers, seconds, size):
    """A batch takes seconds."""
    assert automatic_size(waiting, workers, seconds) == size


@pytest.mark.parametrize(
    ("waiting", "workers", "replicas", "size"),
    [(800, 1, 1, 800), (800, 3, 1, 267), (5000, 1, 1, 1000), (800, 1, 100, 100), (3, 1, 20_000, 1), (1, 2, 1, 1)],
)
def test_a_batch_on_a_gpu_is_as_large_as_a_gpu_has_use_for(waiting, workers, replicas, size):
    assert size_on_gpu(waiting, workers, replicas) == size


@pytest.mark.parametrize(("launches", "cores", "least"), [(1, 1, 30), (1, 4, 120), (5, 1, 70), (5, 2, 140)])
def test_a_gpu_must_be_faster_than_all_cores(launches, cores, least):
    """A core is as fast as 10 replicas, and plays 40,000 rounds meanwhile: those of 20 replicas, with T = 2,000."""
    faster = [gpu_is_faster(BreakEven(10, 40_000), count, 2_000, launches, cores) for count in (least - 1, least)]
    assert faster == [False, True]
