"""Distances in the norm of A^-1 against A written out, whatever form its inverse is kept in."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.exploration.confidence import interval_loops
from ol2r_cli.learning import covariance
from ol2r_cli.learning.covariance import FullCovariance, add_outer_products, most_rows, remove_outer_products
from ol2r_cli.learning.tangents import (
    chosen,
    gram,
    kernel,
    pair_differences,
    parameters,
    squared_distances,
    to_first,
    weights,
    written_out,
)

SHAPES = [(4, 5), (4, 4), (1, 4)]  # rows and columns of each layer: 40 parameters
DOCUMENTS = 9


@pytest.fixture(autouse=True)
def short_strips(monkeypatch):
    monkeypatch.setattr(covariance, "STRIP", 7)  # not a multiple of what a round adds


def documents(seed, count=DOCUMENTS, dtype=torch.float64):
    """Random gradients."""
    dice = torch.Generator().manual_seed(seed)

    def draw(size):
        return torch.randn(1, count, size, generator=dice, dtype=torch.float64).to(dtype)

    return [(draw(r), draw(c)) if r > 1 else (draw(c),) for r, c in SHAPES]


def play(rounds, l2, dtype=torch.float64, refresh=256):
    """A covariance after some rounds of random pairs, A written out, and the largest relative error of a distance
    between different documents in any round."""
    full, worst, other = FullCovariance(l2), 0.0, ~torch.eye(DOCUMENTS).bool()
    full.refresh = refresh
    matrix = torch.eye(sum(r * c for r, c in SHAPES)).double()[None] * l2
    for t in range(rounds):
        layers = documents(t, dtype=dtype)
        solved, expected = full.solve(layers), explicit(layers, matrix)
        errors = (squared_distances(solved.residual) / l2 - expected).abs() / expected
        worst = max(worst, errors[:, other].max().item())
        full.append(solved, torch.tensor([[0, 3, 1]]), torch.tensor([[2, 1, 8]]))
        g = written_out(layers).double()
        v = g[:, [0, 3, 1]] - g[:, [2, 1, 8]]
        matrix = matrix + v.mT @ v
    return full, matrix, worst


def explicit(layers, matrix):
    """|g_a - g_b|^2 in the norm of the inverse, pair by pair."""
    g = written_out(layers).double()
    apart = g[:, :, None] - g[:, None, :]
    return torch.einsum("bxyp,bpq,bxyq->bxy", apart, torch.linalg.inv(matrix), apart)


def test_kernels_are_products_of_gradients_written_out():
    left, right = documents(1), documents(2, count=4)
    torch.testing.assert_close(kernel(left, right), written_out(left) @ written_out(right).mT)
    assert parameters(left) == written_out(left).shape[2] == 40


def test_distances_in_single_precision_are_those_of_the_inverse():
    assert play(12, 0.1, dtype=torch.float32)[2] < 1e-4


@pytest.mark.parametrize("l2", [1.0, 0.1, 1e-4])
def test_distances_are_those_of_the_inverse_written_out(monkeypatch, l2):
    monkeypatch.setattr(covariance, "RATIO", 100)
    full, _, worst = play(30, l2)
    assert full.inverse is None
    assert full.rows == 90 > 2 * 40  # the matrix has its full rank long before the end
    assert len(full.strips) == 15  # two rounds fit a strip of 7
    assert worst < 1e-12 / min(l2, 1e-2) ** 2


def test_wide_networks_stay_in_the_dual_form():
    assert (most_rows(10**6, 6_000), most_rows(10**6, 6_001)) == (8_401, 10**6)
    assert most_rows(90, 6_000) == 90


@pytest.mark.parametrize("refresh", [256, 3])
def test_the_primal_form_takes_over_and_changes_nothing(refresh):
    """Also where it is computed anew against drift."""
    full, matrix, worst = play(30, 0.1, refresh=refresh)
    assert worst < 1e-10
    torch.testing.assert_close(full.matrix, matrix)
    torch.testing.assert_close(full.inverse, torch.linalg.inv(matrix))


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
    full.append(solved, torch.tensor([[0, 2]]), torch.tensor([[1, 3]]))
    v = pair_differences(chosen(layers, torch.tensor([[0, 1, 2, 3]])))
    expected = explicit(layers, matrix + v.mT @ v)
    torch.testing.assert_close(squared_distances(solved.residual) / 0.1, expected)
    torch.testing.assert_close(squared_distances(full.solve(layers).residual) / 0.1, expected)


def test_rounding_that_ruins_the_matrix_is_told():
    layers, full = documents(1, dtype=torch.float32), FullCovariance(1e-9)
    allowed = r"larger, or exploration\.precision float64, with \d+ pairs"
    with pytest.raises(ValueError, match=rf"^exploration\.l2 must be {allowed}, got 1e-09$"):  # noqa: PT012
        for _ in range(20):
            full.append(full.solve(layers), torch.tensor([[0, 0, 3]]), torch.tensor([[1, 1, 1]]))


def test_distances_by_the_diagonal_alone():
    layers, pairs = documents(1), documents(2, count=10)
    diagonal = 0.1 + pair_differences(pairs).square().sum(1)
    g, inverse = written_out(layers), weights(layers, diagonal)
    expected = ((g[:, :, None] - g[:, None, :]).square() / diagonal[:, None, None]).sum(3)
    torch.testing.assert_close(squared_distances(gram(layers, inverse)), expected)
    torch.testing.assert_close(to_first(layers, inverse), expected[:, 0], rtol=1e-10, atol=1e-12)
    assert (to_first(layers, inverse) > expected[:, 0]).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-6)])
def test_inner_products_where_units_are_on_for_some_documents(dtype, tolerance):
    """Units that are on for none to all documents, with one number or with several; several replicas and layers."""
    dice, count = torch.Generator().manual_seed(7), 11

    def draw(*shape):
        return torch.randn(2, *shape, generator=dice, dtype=torch.float64)

    on = torch.arange(count)[:, None] < torch.arange(count + 1).repeat(2)  # each number of documents twice [d r]
    layers = [(draw(count, 4).to(dtype),)]
    for _ in range(2):
        values = draw(1, 2 * count + 2).repeat(1, count, 1)
        values[..., count + 1 :] += torch.arange(count)[:, None]  # several numbers
        delta = values * on[torch.randperm(count, generator=dice)]
        layers.append((delta.to(dtype), draw(count, 5).to(dtype)))
    diagonal = draw(4 + 2 * 5 * (2 * count + 2)).square() + 0.1
    g = written_out([tuple(factor.double() for factor in layer) for layer in layers])
    expected = torch.einsum("bip,bp,bkp->bik", g, 1 / diagonal, g)
    found = gram(layers, weights(layers, diagonal))
    assert (found - expected).abs().max() < tolerance * expected.abs().max()
    assert torch.equal(found, found.mT)


def test_very_many_rows_are_added_in_parts():
    """Of 20,000 rows, as of a round of 283 places with all pairs, the products with each other would be 3.2 GB."""
    rows = torch.randn(1, 20_000, 3, generator=torch.Generator().manual_seed(5)).double()
    matrix = torch.eye(3).double()[None] * 0.1
    expected, inverse = matrix + rows.mT @ rows, torch.linalg.inv(matrix)
    by_loops, room = inverse.clone(), interval_loops.room_of_intervals(0, 3, 20_000)
    given = rows, torch.ones(1, 20_000, dtype=torch.bool), matrix, by_loops
    loops.launch.launch(interval_loops.adds_rows, 1, room, *given)
    add_outer_products(inverse, rows)
    torch.testing.assert_close(matrix, expected)
    for found in inverse, by_loops:
        torch.testing.assert_close(found, torch.linalg.inv(expected))


def test_a_removed_row_was_never_there():
    """The formula for one row, and several at once; zero rows change nothing."""
    generator = torch.Generator().manual_seed(3)
    matrix = torch.eye(5).double() * 0.01
    rows = torch.randn(4, 5, generator=generator).double()
    rows[2] = 0
    inverse = torch.linalg.inv(matrix + rows.mT @ rows)[None]
    one, u = inverse.clone(), inverse[0] @ rows[0]
    assert remove_outer_products(one, rows[None, :1])
    torch.testing.assert_close(one[0], inverse[0] + torch.outer(u, u) / (1 - rows[0] @ u))
    assert remove_outer_products(inverse, rows[None])
    torch.testing.assert_close(inverse[0], torch.linalg.inv(matrix), rtol=1e-9, atol=1e-9)


def test_hopeless_cancellation_is_noticed():
    row = torch.tensor([[[1.0, 0.0]]]).double()
    inverse = torch.linalg.inv(torch.eye(2).double()[None] * 1e-9 + row.mT @ row)
    before = inverse.clone()
    assert not remove_outer_products(inverse, row)
    assert torch.equal(inverse, before)


def test_matrices_are_inverted_one_by_one_or_all_at_once():
    rows = torch.randn(3, 9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    matrix = torch.bmm(rows.mT, rows)
    root = torch.linalg.cholesky(matrix)
    for inverse in covariance.inverse_of(matrix), covariance.inverse_of_roots(root):
        assert torch.allclose(torch.bmm(inverse, matrix), torch.eye(5, dtype=torch.float64).expand(3, -1, -1))
