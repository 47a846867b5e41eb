"""Counterfactual online learning to rank (Zhuang and Zuccon, ECIR 2020).

What was not to be read in the paper is as in the authors' code, ArvinZhuang/OLTR at d601047,
`ranker/COLTRLinearRanker.py` with `experiments/run_ECIR_COLTR.py` (docs/algorithms/counterfactual.md).
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Share
from ol2r_cli.interfaces import PLACKETT_LUCE, Candidates, Interaction, Need, Prediction
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preferences import log_left
from ol2r_cli.ranker.model_ranker import Decay, GradientRanker
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class COLTR(GradientRanker):
    """Evaluates `candidates` directions on the clicks of one list, and moves to the mean of those with less risk.

    The list is drawn by theta's scores / `temperature`. A candidate is theta + `delta` u with u from the unit sphere;
    its risk is that of `counterfactual_risks` with `variance_penalty` and `renormalise`. `learning_rate` and `decay`
    as in `GradientRanker`; the rate stays at `floor` times the first one once it has fallen to it.
    """

    pairs = "none"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    def __init__(
        self,
        model: Model,
        learning_rate: Positive,
        decay: Decay,
        floor: Share,
        delta: Positive,
        candidates: Count,
        temperature: Positive,
        variance_penalty: NonNegative,
        renormalise: bool,
    ):
        super().__init__(model, learning_rate, decay)
        self.floor, self.delta, self.candidates, self.temperature = floor, delta, candidates, temperature
        self.variance_penalty, self.renormalise = variance_penalty, renormalise

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """theta's scores / `temperature`; the tangent is that of the scores."""
        prediction = super().predict(candidates, random)
        return dataclasses.replace(prediction, scores=prediction.scores / self.temperature)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the mean of the winners. Where no document was passed over for one below, every risk is 0."""
        directions = random.normal(self.candidates * self.theta.shape[1]).unflatten(1, (self.candidates, -1))
        directions = (directions / directions.norm(dim=2, keepdim=True)).to(self.theta.dtype)
        weights = torch.cat([self.theta[:, None], self.theta[:, None] + self.delta * directions], dim=1)
        scores = self.model.forward(weights, interaction.candidates.features).scores
        lists = interaction.candidates.mask, interaction.ranking, interaction.shown, interaction.clicks
        risk = counterfactual_risks(scores, *lists, self.variance_penalty, self.renormalise)
        won = risk[:, 1:] < risk[:, :1]
        share = won.to(self.theta.dtype) / won.sum(1, keepdim=True).clamp(min=1)
        self.move(torch.bmm(share[:, None], directions).squeeze(1), won.any(1))
        self.rate.clamp_(min=self.floor * self.learning_rate)


def counterfactual_risks(
    scores: Float[Tensor, "B N D"],
    mask: Bool[Tensor, "B D"],
    ranking: Int[Tensor, "B K"],
    shown: Bool[Tensor, "B K"],
    clicks: Bool[Tensor, "B K"],
    variance_penalty: float,
    renormalise: bool,
) -> Float[Tensor, "B N"]:
    """The risk of every member, estimated from a list that member 0 is taken to have shown.

    The loss is 1 at unclicked places down to the last click, else 0. With w = p_n(d_k) / p_0(d_k), R = sum w loss /
    sum w is the self-normalised estimate, V = sum w^2 (loss - R)^2 / sum w^2, and the risk R + `variance_penalty`
    sqrt(V / number of places shown). p is the softmax of the scores over all documents, or with `renormalise` over
    those that are not above place k. Members whose weights do not differ from 1 have the risk of member 0.
    """
    clicked_below = clicks.flip(1).cumsum(1).flip(1) > 0
    loss = (clicked_below & ~clicks).to(scores.dtype)[:, None]
    real = scores.masked_fill(~mask[:, None], -torch.inf)
    places = ranking[:, None].expand(-1, scores.shape[1], -1)
    listed = real.gather(2, places)
    total = log_left(real, places) if renormalise else real.logsumexp(2, keepdim=True)
    probability = (listed - total).masked_fill(~shown[:, None], 0)
    ratio = (probability - probability[:, :1]).masked_fill(~shown[:, None], -torch.inf)
    weight = (ratio - ratio.amax(2, keepdim=True)).exp()  # a common factor of the weights cancels
    risk = (weight * loss).sum(2) / weight.sum(2)
    square = weight**2
    variance = (square * (loss - risk[:, :, None]) ** 2).sum(2) / square.sum(2)
    return risk + variance_penalty * (variance / shown.sum(1, keepdim=True)).sqrt()
