"""Distances in the norm of A^-1 against A written out, whatever form its inverse is kept in."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.learning import covariance
from ol2r_cli.learning.covariance import DualInverse, FullCovariance, PrimalInverse, outer_products
from ol2r_cli.learning.tangents import (
    chosen,
    differences,
    gram,
    kernel,
    layers_of,
    parameters,
    rows,
    squared_distances,
    to_first,
    weights,
    written_out,
)

SHAPES = [(4, 5), (4, 4), (1, 4)]  # rows and columns of each layer: 40 parameters
DOCUMENTS, PAIRS = 9, 3


@pytest.fixture(autouse=True)
def _short_strips(monkeypatch):
    monkeypatch.setattr(covariance, "STRIP", 7)  # not a multiple of what a round adds


def documents(seed, count=DOCUMENTS, replicas=1, dtype=torch.float64):
    """Random gradients."""
    dice = torch.Generator().manual_seed(seed)

    def draw(size):
        return torch.randn(replicas, count, size, generator=dice, dtype=torch.float64).to(dtype)

    return layers_of([(draw(r) if r > 1 else torch.ones(replicas, count, 1, dtype=dtype), draw(c)) for r, c in SHAPES])


def play(rounds, l2, replicas=1, dtype=torch.float64, valid=None):
    """A covariance after some rounds of random pairs, A written out, and whatever the rounds found."""
    full, found = FullCovariance(l2), []
    matrix = torch.eye(sum(r * c for r, c in SHAPES)).double().repeat(replicas, 1, 1) * l2
    for t in range(rounds):
        layers = documents(t, replicas=replicas, dtype=dtype)
        solved = full.solve(layers)
        found.append((squared_distances(solved.residual) / l2, explicit(layers, matrix)))
        winner, loser = torch.tensor([0, 3, 1]).repeat(replicas, 1), torch.tensor([2, 1, 8]).repeat(replicas, 1)
        counts = torch.ones(replicas, PAIRS).bool() if valid is None else valid[t]
        full.append(solved, winner, loser, counts)
        g = written_out(layers).double()
        v = (g[:, [0, 3, 1]] - g[:, [2, 1, 8]]) * counts[:, :, None]
        matrix = matrix + v.mT @ v
    return full, matrix, found


def explicit(layers, matrix):
    """|g_a - g_b|^2 in the norm of the inverse, pair by pair."""
    g = written_out(layers).double()
    apart = g[:, :, None] - g[:, None, :]
    return torch.einsum("bxyp,bpq,bxyq->bxy", apart, torch.linalg.inv(matrix), apart)


def worst(found):
    """The largest relative error of a distance between different documents."""
    other = ~torch.eye(DOCUMENTS).bool()
    return max(((a - b).abs() / b)[:, other].max().item() for a, b in found)


def test_the_kernel_is_the_inner_product_of_gradients():
    left, right = documents(1), documents(2, count=4)
    torch.testing.assert_close(kernel(left, right), written_out(left) @ written_out(right).mT)
    assert parameters(left) == written_out(left).shape[2] == 40


@pytest.mark.parametrize("l2", [1.0, 0.1, 1e-4])
def test_distances_are_those_of_the_inverse_written_out(l2, monkeypatch):
    monkeypatch.setattr(covariance, "RATIO", 100)
    full, _, found = play(30, l2)
    assert isinstance(full.form, DualInverse)
    assert full.form.rows == 90 > 2 * 40  # the matrix has its full rank long before the end
    assert len(full.form.strips) == 15  # two rounds fit a strip of 7
    assert worst(found) < 1e-12 / min(l2, 1e-2) ** 2


def test_the_primal_form_takes_over_and_changes_nothing():
    full, matrix, found = play(30, 0.1)
    assert isinstance(full.form, PrimalInverse)
    assert worst(found) < 1e-10
    torch.testing.assert_close(full.form.matrix, matrix)


def test_the_primal_form_is_computed_anew_against_drift(monkeypatch):
    monkeypatch.setattr(PrimalInverse, "refresh", 3)
    full, matrix, found = play(30, 0.1)
    assert worst(found) < 1e-10
    torch.testing.assert_close(full.form.inverse, torch.linalg.inv(matrix))


def test_wide_networks_stay_in_the_dual_form(monkeypatch):
    monkeypatch.setattr(covariance, "PRIMAL", 39)
    assert isinstance(play(30, 0.1)[0].form, DualInverse)


def test_single_precision_is_good_to_four_digits():
    assert worst(play(12, 0.1, dtype=torch.float32)[2]) < 1e-4


@pytest.mark.parametrize("rounds", [9, 30])
def test_replicas_in_step_are_what_each_is_by_itself(rounds):
    """What does not count is a row of zeros."""
    valid = torch.rand(rounds, 2, PAIRS, generator=torch.Generator().manual_seed(0)) < 0.6
    assert not valid.all()
    assert worst(play(rounds, 0.1, 2, valid=valid)[2]) < 1e-10


@pytest.mark.parametrize("in_step", [True, False])
@pytest.mark.parametrize("rounds", [0, 9, 30])
def test_is_restored_from_the_pairs_alone(rounds, in_step):
    full, matrix, _ = play(rounds, 0.1, 2)
    again = [FullCovariance(0.1)] if in_step else [FullCovariance(0.1), FullCovariance(0.1)]
    states, layers = [full.state(b) for b in range(2)], documents(99, replicas=2)
    for number, one in enumerate(again):
        one.restore(states if in_step else states[number : number + 1], torch.device("cpu"))
    owners = [slice(None)] if in_step else [slice(0, 1), slice(1, 2)]
    found = torch.cat([one.solve(rows(layers, own)).residual for one, own in zip(again, owners, strict=True)])
    torch.testing.assert_close(squared_distances(found) / 0.1, explicit(layers, matrix))
    assert all(type(one.form) is type(full.form) for one in again)


def test_histories_of_different_lengths_and_forms_are_restored_in_step():
    parts = [play(rounds, 0.1) for rounds in (0, 4, 9)]
    together, layers = FullCovariance(0.1), documents(99, replicas=3)
    together.restore([full.state(0) for full, _, _ in parts], torch.device("cpu"))
    expected = explicit(layers, torch.cat([matrix for _, matrix, _ in parts]))
    torch.testing.assert_close(squared_distances(together.solve(layers).residual) / 0.1, expected)
    parts = [play(rounds, 0.1) for rounds in (9, 30)]
    together.restore([full.state(0) for full, _, _ in parts], torch.device("cpu"))
    assert isinstance(together.form, PrimalInverse)
    torch.testing.assert_close(together.form.matrix, torch.cat([matrix for _, matrix, _ in parts]))


def test_what_is_solved_halfway_bounds_the_distances_from_above():
    full, matrix, _ = play(15, 0.1)
    seen, layers = [], documents(99)

    def narrow(residual):
        seen.append(squared_distances(residual) / 0.1)
        return len(seen[-1][0]) - 1

    kept = squared_distances(full.solve(layers, narrow, first=2).residual) / 0.1
    exact = explicit(layers, matrix)
    assert [len(bound[0]) for bound in seen] == [7, 6, 5, 4]  # after 1, 2, 4 and all 8 strips
    for bound in seen:
        size = 2 + bound.shape[1]
        assert (bound >= exact[:, 2:size, 2:size] * (1 - 1e-12)).all()
    assert (seen[0] > exact[:, 2:, 2:]).sum() > 7
    torch.testing.assert_close(kept, exact[:, :5, :5])


def test_pairs_appended_to_what_is_solved_count_for_it_at_once():
    full, matrix, _ = play(5, 0.1)
    layers = documents(99)
    solved = full.solve(layers)
    full.append(solved, torch.tensor([[0, 2]]), torch.tensor([[1, 3]]), torch.tensor([[True, True]]))
    v = differences(chosen(layers, torch.tensor([[0, 1, 2, 3]])))
    expected = explicit(layers, matrix + v.mT @ v)
    torch.testing.assert_close(squared_distances(solved.residual) / 0.1, expected)
    torch.testing.assert_close(squared_distances(full.solve(layers).residual) / 0.1, expected)


def test_rounding_that_ruins_the_matrix_is_told_with_what_to_type():
    layers, full = documents(1, dtype=torch.float32), FullCovariance(1e-9, "exploration")

    def again(times):
        for _ in range(times):
            solved, one = full.solve(layers), torch.ones(1, 3).bool()
            full.append(solved, torch.tensor([[0, 0, 3]]), torch.tensor([[1, 1, 1]]), one)

    with pytest.raises(ValueError, match=r"^exploration.precision must be float64 with .*l2=1e-09 and \d+ pairs, got "):
        again(20)


def test_distances_by_the_diagonal_alone(monkeypatch):
    monkeypatch.setattr("ol2r_cli.learning.tangents.CHUNK", 100)  # two of its four rows at a time
    layers, pairs = documents(1), documents(2, count=10)
    diagonal = outer_products(pairs, 0.1).diagonal(dim1=1, dim2=2)
    g, inverse = written_out(layers), weights(layers, diagonal)
    expected = ((g[:, :, None] - g[:, None, :]).square() / diagonal[:, None, None]).sum(3)
    torch.testing.assert_close(squared_distances(gram(layers, inverse)), expected)
    torch.testing.assert_close(to_first(layers, inverse), expected[:, 0], rtol=1e-10, atol=1e-12)
    assert (to_first(layers, inverse) > expected[:, 0]).all()
