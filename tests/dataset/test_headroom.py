"""The generated dataset leaves room for neural rankers: a supervised network beats the best supervised linear ranker,
and only because of the setting `nonlinearity`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor, nn

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.tensor.shapes import Bool, Float

CONFIG = Path(__file__).parents[2] / "configs" / "dataset" / "synthetic.yaml"
Lists = tuple[Float[Tensor, "Q D F"], Float[Tensor, "Q D"], Bool[Tensor, "Q D"]]  # features, gains, which are real


def lists(dataset: Dataset, split: str) -> Lists:
    part = dataset.split(split, dtype=torch.float32)
    candidates, labels = part.serve(torch.arange(len(part)))
    return candidates.features, (2.0**labels - 1) * candidates.mask, candidates.mask


def ndcg(scores: Float[Tensor, "Q D"], gains: Float[Tensor, "Q D"], mask: Bool[Tensor, "Q D"]) -> float:
    """NDCG@10: gains 2^grade - 1, discount log2(rank + 1), 0 for a query without relevant documents."""
    discount = 1 / torch.log2(torch.arange(10) + 2.0)
    order = scores.masked_fill(~mask, -torch.inf).argsort(dim=1, descending=True)[:, :10]
    ideal = (gains.sort(dim=1, descending=True).values[:, :10] * discount).sum(1)
    return float(((gains.gather(1, order) * discount).sum(1) / ideal.clamp(min=1e-9)).mean())


def ridge(train: Lists, test: Lists, penalty: float = 100.0) -> float:
    """Least squares on gains, each query's mean taken out."""
    features, gains, mask = train
    count = mask.sum(1)[:, None]
    x = (features - features.sum(1, keepdim=True) / count[:, :, None])[mask]
    y = (gains - gains.sum(1, keepdim=True) / count)[mask]
    weight = torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1]), x.T @ y)
    return ndcg(test[0] @ weight, *test[1:])


def listwise(network: nn.Module, train: Lists, test: Lists, epochs: int, rate: float, decay: float) -> float:
    """Softmax cross-entropy with the gains (ListNet); on this data stronger than pairs, for both kinds of ranker."""
    features, gains, mask = train
    target = gains / gains.sum(1, keepdim=True).clamp(min=1e-9)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(features)).split(10):
            longest = int(mask[batch].sum(1).max())
            scores = network(features[batch, :longest]).squeeze(-1).masked_fill(~mask[batch, :longest], -1e9)
            loss = -(target[batch, :longest] * scores.log_softmax(dim=1)).sum() / len(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    with torch.no_grad():
        return ndcg(network(test[0]).squeeze(-1), *test[1:])


def generated(**settings: object) -> Dataset:
    """The default dataset with some settings changed and 300 test queries."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = OmegaConf.merge(OmegaConf.load(CONFIG), {"queries": {"validation": 0, "test": 300}, **settings})
    return instantiate(config).load()


def skylines(**settings: float) -> tuple[float, float, float]:
    """Test NDCG@10 of random scores, of the better of two linear rankers and of a network."""
    dataset = generated(**settings)
    train, test = lists(dataset, "train"), lists(dataset, "test")
    width = dataset.features.shape[1]
    linear = max(ridge(train, test), listwise(nn.Linear(width, 1), train, test, epochs=25, rate=0.03, decay=0.01))
    network = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    neural = listwise(network, train, test, epochs=12, rate=0.003, decay=1.0)
    return ndcg(torch.rand(test[1].shape), *test[1:]), linear, neural


@pytest.mark.slow
def test_a_network_beats_the_best_linear_ranker_by_nonlinearity_alone():
    random, linear, neural = skylines()
    assert random < 0.25
    assert 0.45 < linear < 0.6
    assert neural - linear > 0.03
    random, linear, neural = skylines(nonlinearity=0.0)
    assert linear > random + 0.3
    assert abs(neural - linear) < 0.03
