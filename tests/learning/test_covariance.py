"""Distances in the norm of A^-1 against A written out, whatever form its inverse is kept in."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.exploration.confidence import interval_loops
from ol2r_cli.learning import covariance
from ol2r_cli.learning.covariance import FullCovariance, add_outer_products, remove_outer_products
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
def _short_strips(monkeypatch):
    monkeypatch.setattr(covariance, "STRIP", 7)  # not a multiple of what a round adds


def documents(seed, count=DOCUMENTS, dtype=torch.float64):
    """Random gradients."""
    dice = torch.Generator().manual_seed(seed)

    def draw(size):
        return torch.randn(1, count, size, generator=dice, dtype=torch.float64).to(dtype)

    return [(draw(r), draw(c)) if r > 1 else (draw(c),) for r, c in SHAPES]


def play(rounds, l2, dtype=torch.float64):
    """A covariance after some rounds of random pairs, A written out, and whatever the rounds found."""
    full, found = FullCovariance(l2), []
    matrix = torch.eye(sum(r * c for r, c in SHAPES)).double()[None] * l2
    for t in range(rounds):
        layers = documents(t, dtype=dtype)
        solved = full.solve(layers)
        found.append((squared_distances(solved.residual) / l2, explicit(layers, matrix)))
        full.append(solved, torch.tensor([[0, 3, 1]]), torch.tensor([[2, 1, 8]]))
        g = written_out(layers).double()
        v = g[:, [0, 3, 1]] - g[:, [2, 1, 8]]
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


def test_distances_are_those_of_the_inverse_written_out(monkeypatch):
    left, right = documents(1), documents(2, count=4)
    torch.testing.assert_close(kernel(left, right), written_out(left) @ written_out(right).mT)
    assert parameters(left) == written_out(left).shape[2] == 40
    assert worst(play(12, 0.1, dtype=torch.float32)[2]) < 1e-4, "single precision"
    with monkeypatch.context() as wide:
        wide.setattr(covariance, "PRIMAL", 39)
        assert play(30, 0.1)[0].inverse is None, "wide networks stay in the dual form"
    monkeypatch.setattr(covariance, "RATIO", 100)
    for l2 in 1.0, 0.1, 1e-4:
        full, _, found = play(30, l2)
        assert full.inverse is None
        assert full.rows == 90 > 2 * 40  # the matrix has its full rank long before the end
        assert len(full.strips) == 15  # two rounds fit a strip of 7
        assert worst(found) < 1e-12 / min(l2, 1e-2) ** 2, l2


def test_the_primal_form_takes_over_and_changes_nothing(monkeypatch):
    """Also where it is computed anew against drift."""
    for refresh in 256, 3:
        monkeypatch.setattr(FullCovariance, "refresh", refresh)
        full, matrix, found = play(30, 0.1)
        assert worst(found) < 1e-10
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
    """Rounding that ruins the matrix is told with what to type."""
    layers, full = documents(1, dtype=torch.float32), FullCovariance(1e-9)

    def again(times):
        for _ in range(times):
            full.append(full.solve(layers), torch.tensor([[0, 0, 3]]), torch.tensor([[1, 1, 1]]))

    allowed = r"larger, or exploration\.precision float64, with \d+ pairs"
    with pytest.raises(ValueError, match=rf"^exploration\.l2 must be {allowed}, got 1e-09$"):
        again(20)


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


@pytest.mark.parametrize("by_loops", [False, True])
def test_very_many_rows_are_added_in_parts(by_loops):
    """Of 20,000 rows, as of a round of 283 places with all pairs, the products with each other would be 3.2 GB."""
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(1, 20_000, 3, generator=generator).double()
    matrix = torch.eye(3).double()[None] * 0.1
    expected = matrix + rows.mT @ rows
    inverse = torch.linalg.inv(matrix)
    if by_loops:
        valid = torch.ones(1, 20_000, dtype=torch.bool)
        room = interval_loops.room_of_intervals(0, 3, 20_000)
        loops.launch.launch(interval_loops.adds_rows, 1, room, rows, valid, matrix, inverse)
        torch.testing.assert_close(matrix, expected)
    else:
        add_outer_products(inverse, rows)
    torch.testing.assert_close(inverse, torch.linalg.inv(expected))


def test_a_removed_row_was_never_there():
    """The formula for one row, and several at once; zero rows change nothing; hopeless cancellation is noticed."""
    generator = torch.Generator().manual_seed(3)
    matrix = torch.eye(5).double() * 0.01
    rows = torch.randn(4, 5, generator=generator).double()
    rows[2] = 0
    inverse = torch.linalg.inv(matrix + rows.mT @ rows)[None]
    one = inverse.clone()
    u = one[0] @ rows[0]
    assert remove_outer_products(one, rows[None, :1])
    torch.testing.assert_close(one[0], inverse[0] + torch.outer(u, u) / (1 - rows[0] @ u))
    assert remove_outer_products(inverse, rows[None])
    torch.testing.assert_close(inverse[0], torch.linalg.inv(matrix), rtol=1e-9, atol=1e-9)
    tiny = torch.eye(2).double()[None] * 1e-9
    row = torch.tensor([[[1.0, 0.0]]]).double()
    hopeless = torch.linalg.inv(tiny + row.mT @ row)
    before = hopeless.clone()
    assert not remove_outer_products(hopeless, row)
    assert torch.equal(hopeless, before)


def test_matrices_are_inverted_one_by_one_or_all_at_once():
    rows = torch.randn(3, 9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    matrix = torch.bmm(rows.mT, rows)
    root = torch.linalg.cholesky(matrix)
    for inverse in covariance.inverse_of(matrix), covariance.inverse_of_roots(root):
        assert torch.allclose(torch.bmm(inverse, matrix), torch.eye(5, dtype=torch.float64).expand(3, -1, -1))
