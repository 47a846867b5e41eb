"""A launch states how much memory its loops take: enough, and of a round not much more, because the workspace of a
replica is fast memory of a GPU where it has room."""

from __future__ import annotations

from itertools import cycle
from types import SimpleNamespace

import pytest

from ol2r_cli import loops
from tests.choices import Overrides, with_setting
from tests.loops import staged
from tests.loops.rooms import Rooms

LABELS = [0, 1, 2, 3, 4, 0, 0] * 13
SHORTER = LABELS[:49]  # longer than the longest ranking, in half of the time
LARGER = 1.5  # a round may state so many times what it takes ..
SMALL = 800  # .. and so many numbers, such as those that are made normal at once
# Of these rankers the sums over features, which are few here, or over all pairs have rooms for the longest of them.
ROOMY = ("pairrank", "pepairrank", "confidence", "ensemble")


def rooms(
    overrides: Overrides,
    kind: str = "of_gpu",
    positions: int = 10,
    singly: bool = False,
    labels: list[int] = LABELS,
    rounds: int = 6,
) -> Rooms:
    """What the loops of some rounds with long lists take."""
    found, dataset = Rooms(), staged.numbered([labels, LABELS[:35]])
    more = {"dataset": dataset, "positions": positions, "singly": singly}
    staged.played(overrides, getattr(found, kind), rounds=rounds, **more)
    assert found.taken, overrides
    for loop, taken in found.taken.items():
        assert taken <= found.stated[loop], f"{overrides}: {loop!r} takes {taken} and states {found.stated[loop]}"
    return found


def staged_choices() -> list[Overrides]:
    users = [("ranker=pdgd", user) for user in staged.USERS]
    return [*staged.rankers(), *staged.explorations(), *users, *staged.SETTINGS]


def test_every_ranker_exploration_and_user_states_enough_room():
    """Each with few places or with many, in turn; the slow test has both."""
    for overrides, positions in zip(staged_choices(), cycle((10, 40)), strict=False):
        rooms(overrides, positions=positions, labels=SHORTER, rounds=4)


@pytest.mark.slow
@pytest.mark.parametrize("positions", [10, 40])
def test_enough_room_is_stated_whatever_the_places(positions):
    for overrides in staged_choices():
        rooms(overrides, positions=positions, labels=SHORTER, rounds=4)


def test_every_loop_of_single_rounds_states_enough_room():
    for overrides in staged.SINGLE:
        rooms(overrides, singly=True, labels=SHORTER, rounds=4)


def test_a_round_does_not_state_much_more_room_than_it_takes():
    """Otherwise it would not fit into fast memory."""
    tight = [each for each in staged.rankers() if not any(name in word for word in each for name in ROOMY)]
    assert len(tight) >= 7
    for overrides in tight:
        found = rooms(overrides)
        ((loop, taken),) = found.taken.items()
        assert found.stated[loop] <= LARGER * taken + SMALL, f"{overrides}: {found.stated[loop]} for {taken}"


@pytest.mark.slow
@pytest.mark.parametrize("ranker", staged.staged("ranker"))
def test_compiled_loops_of_a_ranker_state_enough_room(ranker):
    rooms(with_setting("ranker", ranker), "of_cpu")


def test_too_little_room_is_noticed(monkeypatch):
    module = "ol2r_cli.exploration.interleaving.interleaving_loops"
    monkeypatch.setattr(f"{module}.room_of_ranks", lambda sizes, documents: 0)
    with pytest.raises(AssertionError, match="takes"):
        rooms(("ranker=mgd", "exploration=probabilistic_interleaving"))


GPU = {
    "multi_processor_count": 132,
    "shared_memory_per_multiprocessor": 228 * 1024,
    "shared_memory_per_block_optin": 227 * 1024,
}


needs_compiler = pytest.mark.skipif(
    bool(loops.gpu_is_missing()), reason=f"{loops.gpu_is_missing()}: pip install '.[gpu]'"
)


@needs_compiler
@pytest.mark.parametrize(
    ("properties", "replicas", "kilobytes"),
    [
        (GPU, 1, 227),
        (GPU, 132, 227),  # one block on each multiprocessor
        (GPU, 133, 228 / 2 - 1),
        (GPU, 528, 228 / 4 - 1),
        (GPU, 1000, 48),  # eight of them, with 27.5 KB each
        ({"multi_processor_count": 132}, 1, 48),  # nothing is known
        (GPU | {"shared_memory_per_block_optin": 64 * 1024}, 1, 64),
    ],
)
def test_fast_memory_leaves_all_replicas_at_once(properties, replicas, kilobytes, monkeypatch):
    """Beyond what every GPU gives."""
    from ol2r_cli.plugins.gpu import gpu

    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(**properties))
    assert gpu.most_fast_memory(None, replicas) == kilobytes * 1024


@needs_compiler
def test_more_fast_memory_is_permitted_before_a_launch(monkeypatch):
    from ol2r_cli.plugins.gpu import gpu

    asked = []
    pretended = SimpleNamespace(cuKernelSetAttribute=lambda *given: asked.append(given))
    monkeypatch.setattr(gpu, "driver", SimpleNamespace(binding=gpu.driver.binding, driver=pretended))
    function = SimpleNamespace(handle="handle", device=SimpleNamespace(id=3))
    kernel = SimpleNamespace(_codelibrary=SimpleNamespace(get_cufunc=lambda: function))
    gpu._permit_fast_memory(kernel, SimpleNamespace(sharedmem=60_000))
    ((attribute, *given),) = asked
    assert "MAX_DYNAMIC_SHARED_SIZE_BYTES" in str(attribute)
    assert given == [60_000, "handle", 3]
