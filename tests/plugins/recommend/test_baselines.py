"""Baselines: updates by their definition, objectives that do not rise, gradients, recovery of what is planted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import NMF as ScikitLearnNMF

from ol2r_cli.plugins.recommend import baselines
from ol2r_cli.plugins.recommend.baselines import ratings
from tests.plugins.recommend.small import fit, generated, mean_ndcg

OF = generated()


def patient(*words):
    """The model after all of its steps, and the objective after each."""
    made, steps = fit(OF, *words, "model.patience=1000")
    return made, [step["objective"] for step in steps]


@pytest.mark.parametrize(
    "words",
    [
        ("model=nmf", "model.values=rating"),
        ("model=nmf", "model.cells=observed"),
        ("model=efm", "model.attention=1", "model.quality=0.5"),
    ],
)
def test_the_objective_never_rises(words):
    values = np.array(patient(*words, "model.steps=30")[1])
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert values[-1] < values[0]


def test_nmf_over_all_cells_is_that_of_scikit_learn():
    fitted = ScikitLearnNMF(6, init="nndsvda", max_iter=2000, tol=1e-6, random_state=0)
    target = ratings(OF, "one")
    theirs = ((target - fitted.fit_transform(target) @ fitted.components_) ** 2).sum() / 2
    ours = patient("model=nmf", "model.factors=6", "model.l2=0", "model.steps=400", "model.every=400")[1][-1]
    assert ours < 1.002 * theirs
    made, objectives = patient("model=nmf", "model.factors=6", "model.l2=3", "model.steps=20", "model.every=20")
    user, item = made.user.astype(float), made.item.astype(float)
    loops = sum((target[u, i] - user[u] @ item[i]) ** 2 for u in range(OF.users) for i in range(OF.items))
    by_hand = loops / 2 + 1.5 * ((user**2).sum() + (item**2).sum())
    assert objectives[-1] == pytest.approx(by_hand, rel=1e-5)


def test_nmf_on_observed_cells_reaches_the_planted_matrix():
    """Of a matrix of rank 2 with a third of its cells, the others are found too."""
    random = np.random.default_rng(0)
    whole = random.random((40, 2)) @ random.random((30, 2)).T
    rows, columns = np.nonzero(random.random(whole.shape) < 0.4)
    target = baselines.sparse.csr_array((whole[rows, columns], (rows, columns)), whole.shape)
    user, item = random.random((40, 2)), random.random((30, 2))
    for _ in range(3000):
        user, item = baselines._observed(target, *target.nonzero(), user, item, 0.0)
    assert np.abs(user @ item.T - whole).mean() < 0.01


def test_the_step_of_bprmf_is_the_gradient_of_its_likelihood():
    random = np.random.default_rng(0)
    users, items, biases = random.normal(size=(3, 4)), random.normal(size=(5, 4)), random.normal(size=5)
    u, i, j = (np.array([number]) for number in (1, 2, 4))
    tensors = [torch.tensor(each, requires_grad=True) for each in (users, items, biases)]
    of_user, of_item, bias = tensors
    margin = of_user[1] @ (of_item[2] - of_item[4]) + bias[2] - bias[4]
    of_l2 = sum((part**2).sum() for part in (of_user[1], of_item[[2, 4]], bias[[2, 4]]))
    loss = -torch.nn.functional.logsigmoid(margin)
    (loss + 0.3 / 2 * of_l2).backward()
    expected = [each.detach().numpy() - 0.05 * each.grad.numpy() for each in tensors]
    assert baselines.descend_pairs(users, items, biases, u, i, j, 0.05, 0.3) == pytest.approx(float(loss.detach()))
    for found, wanted in zip((users, items, biases), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_efm_takes_the_gradient_to_zero():
    """In the end the gradient by users' factors that only ratings have is 0 where they are above 0."""
    words = ["model.attention=0.5", "model.quality=0.5", "model.l2=0.01", "model.values=rating"]
    made, _ = fit(OF, "model=efm", "model.factors=4", *words, "model.steps=3000", "model.every=3000")
    assert (made.user >= 0).all()
    assert (made.item >= 0).all()
    p = torch.tensor(made.user, dtype=torch.float64, requires_grad=True)
    q, h = torch.tensor(made.item, dtype=torch.float64), made.user.shape[1] - 2
    a = torch.tensor(ratings(OF).toarray())
    (((a - p @ q.T) ** 2).sum() + 0.01 * (p**2).sum()).backward()
    free = made.user[:, h:] > 1e-3
    assert np.abs(p.grad.numpy()[:, h:][free]).max() < 0.05 * np.abs(2 * (a @ q).numpy()).max()


@pytest.mark.parametrize("name", ["nmf", "bprmf", "efm"])
def test_what_is_planted_is_found_and_seeds_give_the_same_bytes(name):
    fitted, steps = fit(OF, f"model={name}", "model.factors=10")
    popular = mean_ndcg(OF, fit(OF, "model=most_popular")[0])
    assert mean_ndcg(OF, fitted) > 4 * popular, "most items that users like are of one leaf"
    again = fit(OF, f"model={name}", "model.factors=10")[0].state()
    for array, value in fitted.state().items():
        assert value.tobytes() == again[array].tobytes()
    best = max(step.get("validation_ndcg_50", 0) for step in steps)
    assert mean_ndcg(OF, fitted, "validation", 50) == best, "the best state is kept"
    other = fit(OF, f"model={name}", "model.factors=10", seed=1)[0].state()["item"]
    assert not np.array_equal(other, fitted.state()["item"])
