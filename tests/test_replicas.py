"""Many replicas at once show what each of them would show alone: batching is an implementation, not a setting."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.compose import build
from tests.choices import play, seen
from tests.worlds import simulate, tiny

SEEDS = list(range(10))
ROUNDS = 150
# Lists so long that a batch of ten is worked on in several groups of similar lengths, of several replicas each.
WORLD = ["dataset.queries={train: 40, validation: 0, test: 0}", "dataset.documents=45", "dataset.features=20"]


@pytest.mark.parametrize("click", ["perfect", "navigational", "informational"])
def test_ten_replicas_are_ten_single_runs(click):
    config = tiny(*WORLD, f"click={click}")
    dataset = build(config.dataset).load()
    with torch.inference_mode():
        batch = play(simulate(config, SEEDS, ROUNDS, dataset), ROUNDS)
        for replica, seed in enumerate(SEEDS):
            alone = play(simulate(config, [seed], ROUNDS, dataset), ROUNDS)
            assert seen(alone) == seen(batch, replica), f"seed {seed}"
    lengths = torch.stack([one.candidates.mask.sum(1) for one in batch])
    assert (lengths.amax(1) > 2 * lengths.amin(1)).any(), "the batch never pads much"
    assert sum(int(one.preferences.valid.sum()) for one in batch) > 100 * len(SEEDS), (
        "there was hardly anything to learn"
    )
