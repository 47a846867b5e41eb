"""Blocks and shuffles against the graph library and the exact distributions of tests/reference."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ol2r_cli.exploration.divide_and_conquer import CELLS, close, partition, shuffle, similar_lengths

from ol2r_cli.tensor.streams import Streams
from tests.reference import blocks as reference
from tests.reference.relations import figure_1, from_edges, random_relation
from tests.reference.shuffles import order_by_clocks, order_probabilities

# In score order every certain pair points down the list.
relations = st.builds(
    lambda seed, documents, density: np.triu(
        random_relation(np.random.default_rng(seed), documents, density, False), 1
    ),
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.floats(0.1, 1),
)


def blocks_of(certain: np.ndarray) -> list[set[int]]:
    block = partition(torch.from_numpy(certain)[None])[0].tolist()
    return [{i for i, b in enumerate(block) if b == n} for n in range(max(block) + 1)]


@given(relations)
def test_blocks_are_those_of_the_graph_procedure(certain):
    assert blocks_of(certain) == reference.partition(certain)


@given(relations)
def test_closure_is_that_of_the_graph_library(certain):
    closed = close(torch.from_numpy(certain)[None])[0].numpy()
    assert (closed == reference.transitive_closure(certain)).all()


@pytest.mark.parametrize("documents", [127, 128, 129, 300])
def test_closure_of_long_lists_is_found_half_by_half(documents):
    sparse = np.triu(random_relation(np.random.default_rng(documents), documents, 0.02, False), 1)
    closed = close(torch.from_numpy(sparse)[None])[0].numpy()
    assert (closed == reference.transitive_closure(sparse)).all()
    assert closed.sum() > 2 * sparse.sum()


def test_figure_1_has_two_blocks():
    assert blocks_of(figure_1()) == [{0, 1}, {2, 3, 4}]


def compare_with_events(certain: np.ndarray, round: int, conservative: bool) -> None:
    clock = Streams(torch.tensor([0])).at("explore", round).exponential(len(certain))
    relation = torch.from_numpy(certain)[None]
    found = shuffle(partition(relation), clock, relation if conservative else None, len(certain))
    kind = "conservative" if conservative else "random"
    expected = order_by_clocks(certain, reference.partition(certain), clock[0].tolist(), kind)
    assert tuple(found[0].tolist()) == expected


@given(relations, st.integers(0, 1000), st.booleans())
def test_an_order_is_that_of_the_event_simulation_on_the_same_clocks(certain, round, conservative):
    compare_with_events(certain, round, conservative)


@pytest.mark.parametrize("documents", [64, 65, 200])
def test_orders_of_long_lists_are_those_of_the_event_simulation(documents):
    compare_with_events(np.triu(random_relation(np.random.default_rng(1), documents, 0.1, False), 1), 3, True)


@pytest.mark.parametrize("edges", [[(0, 1)], [(0, 1), (0, 2)], [(0, 2), (1, 2), (2, 3)], [(0, 1), (2, 3)]])
@pytest.mark.parametrize("conservative", [True, False])
def test_orders_have_their_exact_probabilities(edges, conservative):
    """4000 draws; the chi-square test fails below p = 0.001, which was chosen before the first run."""
    from scipy.stats import chisquare

    certain = reference.transitive_closure(from_edges(4, edges))
    kind = "conservative" if conservative else "random"
    expected = order_probabilities(certain, reference.partition(certain), kind)
    clock = Streams(torch.arange(4000), ahead=1).at("explore", 0).exponential(4)
    many = torch.from_numpy(certain).expand(4000, 4, 4)
    order = shuffle(partition(many), clock, many if conservative else None, 4)
    drawn = Counter(tuple(row) for row in order.tolist())
    assert set(drawn) <= set(expected)
    if len(expected) > 1:
        counts, shares = zip(*((drawn[o], float(p) * 4000) for o, p in expected.items()), strict=True)
        assert chisquare(counts, shares).pvalue > 0.001


@given(st.integers(0, 1000), st.integers(1, 12))
def test_the_first_places_of_a_replica_do_not_depend_on_other_replicas(round, places):
    generator = np.random.default_rng(round)
    many = torch.from_numpy(
        np.stack([np.triu(random_relation(generator, 12, density, False), 1) for density in (0.05, 0.3, 0.6, 0.95)])
    )
    clock = Streams(torch.arange(4)).at("explore", round).exponential(12)
    together = shuffle(partition(many), clock, many, places)
    for replica in range(4):
        one = many[replica, None]
        alone = shuffle(partition(one), clock[replica, None], one, places)
        assert torch.equal(together[replica, :places], alone[0, :places])


@given(st.lists(st.integers(1, 200), min_size=2, max_size=12))
def test_groups_contain_every_replica_once_with_little_padding(lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    seen = []
    for group, longest in similar_lengths(mask):
        members = torch.arange(len(lengths))[group].tolist()
        assert longest == max(lengths[b] for b in members)
        assert len(members) == 1 or len(members) * longest**2 <= CELLS
        seen += members
    assert sorted(seen) == list(range(len(lengths)))


@given(relations, st.integers(0, 1000), st.integers(1, 12))
def test_the_first_places_do_not_depend_on_the_number_of_places(certain, round, places):
    clock = Streams(torch.tensor([0])).at("explore", round).exponential(len(certain))
    relation = torch.from_numpy(certain)[None]
    block = partition(relation)
    part, full = (shuffle(block, clock, relation, n)[0] for n in (places, len(certain)))
    assert torch.equal(part[:places], full[:places])
    assert sorted(part.tolist()) == list(range(len(certain)))
    assert torch.equal(block[0][part], block[0])  # every block stays in its place
