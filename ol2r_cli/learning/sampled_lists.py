"""Expectations over lists of a Plackett-Luce model, and their gradients, from sampled lists.

Oosterhuis, "Computationally Efficient Optimization of Plackett-Luce Ranking Models for Relevance and Fairness" (SIGIR
2021): what comes next is replaced by its expectation given the documents above, so that a document that no sampled list
shows contributes as well.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.tensor.shapes import Bool, Float


class SampledLists:
    """The first `places` documents of lists drawn from the Plackett-Luce model of `scores`.

    A list has the documents in the order in which `clocks` / e^score ring; the clocks are independent exponentials of
    rate 1. Documents outside `mask` are padding. With p_k(d) = e^score_d / Z_k the probability of d at place k given
    the documents above, 0 for those, every expectation below is the mean over the lists.
    """

    def __init__(
        self,
        scores: Float[Tensor, "*Q D"],
        mask: Bool[Tensor, "*Q D"],
        clocks: Float[Tensor, "*R S D"],
        places: int,
    ):
        places = min(places, scores.shape[-1])
        self.scores = scores.masked_fill(~mask, -torch.inf)
        rings = self.scores[..., None, :] - clocks.log().to(scores.dtype)
        self.document = rings.topk(places, dim=-1).indices
        real = self.scores[..., None, :].expand(rings.shape)
        listed = real.gather(-1, self.document)
        below = real.scatter(-1, self.document, -torch.inf).logsumexp(-1, keepdim=True)
        total = torch.cat([below, listed.flip(-1)], dim=-1).logcumsumexp(-1)[..., 1:].flip(-1)
        beyond = listed == -torch.inf  # places below the last document
        self.log_total = total.masked_fill(beyond, torch.inf)  # log Z_k
        self.listed, self.beyond = listed, beyond

    def expected(self, values: Float[Tensor, "*P K C"]) -> Float[Tensor, "*Q D C"]:
        """E[sum_k 1(d at place k) values_k], for each column. The sum over documents is that over the places shown."""
        return self._sum_over_places(values).mean(-3)

    def gradient(self, reward: Float[Tensor, "*Q D"], weight: Float[Tensor, "*P K"]) -> Float[Tensor, "*Q D"]:
        """The gradient of E[sum_k weight_k reward of the document at k] with respect to the scores (PL-Rank-2).

        d at place j gets G_{j+1}, and every document sum_{k <= its place} p_k(d) (weight_k reward_d - G_k), where G_k
        is the reward of the places from k on.
        """
        weight = weight[..., : self.document.shape[-1]].expand(self.document.shape)
        rewards = reward[..., None, :].expand(*self.document.shape[:-1], -1)
        gained = (weight * rewards.gather(-1, self.document)).masked_fill(self.beyond, 0)
        after = gained.flip(-1).cumsum(-1).flip(-1)  # G_k
        sums = self._sum_over_places(torch.stack([weight, after], dim=-1))
        future = torch.zeros_like(rewards).scatter(-1, self.document, after - gained)
        return (future + sums[..., 0] * rewards - sums[..., 1]).mean(-2)

    def _sum_over_places(self, values: Float[Tensor, "*P K C"]) -> Float[Tensor, "*Q S D C"]:
        """sum of p_k(d) values_k over the places k down to that of d, in each list.

        All exponents are at most 0: a document not listed has p_k = (e^score / Z_last) (Z_last / Z_k), both at most 1.
        """
        values = values[..., : self.document.shape[-1], :]
        last = self.log_total.amin(-1, keepdim=True)
        to_last = (last - self.log_total).exp()  # 0 beyond the last document
        whole = (to_last[..., None] * values).sum(-2, keepdim=True)
        unlisted = (self.scores[..., None, :] - last).clamp(max=0).exp()[..., None] * whole
        share = (self.listed[..., :, None] - self.log_total[..., None, :]).clamp(max=0).exp().tril()
        placed = share.masked_fill(self.beyond[..., None, :], 0) @ values
        index = self.document[..., None].expand(placed.shape)
        return unlisted.scatter(-2, index, placed.masked_fill(self.beyond[..., None], 0))
