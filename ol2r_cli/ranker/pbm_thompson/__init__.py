"""Thompson sampling in the position-based model, query by query, with a prior by the rank in production."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Count, Positive, Share
from ol2r_cli.interfaces import Candidates, Interaction, Oracle, Prediction, RunContext
from ol2r_cli.ranker.model_ranker import ParameterFree, predicted
from ol2r_cli.ranker.pbm_thompson import pbm_thompson_loops
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


class PositionThompson(ParameterFree):
    """Scores a document by an attraction that is drawn from a Beta distribution of what is known of it.

    A document with c clicks, which was examined E times in expectation, has Beta(a + c, v - a + max(E - c, 0)): a shown
    rank counts as `examination` of it (null: 1 / rank), as if it had been examined by that share of a user. a and v are
    `prior_clicks` and `prior_views` at the rank in production, which feature number `rank_feature` has (from 1; null:
    all documents have the first ones); the last number is for all ranks below. Lagree, Vernade and Cappe,
    "Multiple-play bandits in the position-based model" (NIPS 2016) draw from the exact posterior, which is no Beta
    distribution, and have no prior. It learns nothing about queries never served: there is no offline evaluation. It
    keeps 16 bytes for each document of the dataset and replica.
    """

    generalises = False
    pairs = "none"

    clicks: Tensor
    examined: Tensor
    examination_by_rank: Tensor
    prior_clicks_by_rank: Tensor
    prior_views_by_rank: Tensor
    ranks: Tensor

    def __init__(
        self,
        examination: Sequence[Share] | None,
        prior_clicks: Sequence[Positive],
        prior_views: Sequence[Positive],
        rank_feature: Count | None,
    ):
        super().__init__()
        if len(prior_clicks) != len(prior_views) or not prior_clicks:
            rule = f"as many numbers as {self.setting('prior_clicks')}, at least one"
            raise ValueError(f"{self.setting('prior_views')} must have {rule}, got {list(prior_views)}")
        if any(views <= clicks for clicks, views in zip(prior_clicks, prior_views, strict=True)):
            raise ValueError(f"{self.setting('prior_views')} must be above {self.setting('prior_clicks')} at each rank")
        self.examination, self.rank_feature = examination, rank_feature
        self.prior_clicks, self.prior_views = prior_clicks, prior_views

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        places = min(context.positions, context.documents)
        by_rank = self.examination or [1 / rank for rank in range(1, places + 1)]
        if len(by_rank) < places:
            rule = f"{places} probabilities, one per rank"
            raise ValueError(f"{self.setting('examination')} must be {rule}, got {list(by_rank)}")
        if self.rank_feature is not None and self.rank_feature > context.features:
            rule = f"a feature from 1 to {context.features}"
            raise ValueError(f"{self.setting('rank_feature')} must be {rule}, got {self.rank_feature}")
        self._check_ranks(features)
        zeros = torch.zeros(context.replicas, len(features), dtype=torch.float64, device=context.device)
        self.register_buffer("clicks", zeros)
        self.register_buffer("examined", zeros.clone())
        known = {"examination": by_rank[:places], "prior_clicks": self.prior_clicks, "prior_views": self.prior_views}
        for name, values in known.items():
            tensor = torch.tensor([float(value) for value in values], dtype=torch.float64, device=context.device)
            self.register_buffer(f"{name}_by_rank", tensor, persistent=False)  # follows from the settings
        if self.rank_feature is not None:
            ranks = features[:, self.rank_feature - 1].long()
            self.register_buffer("ranks", ranks.to(context.device), persistent=False)
        self.room = pbm_thompson_loops.OF_DOCUMENT * context.documents + 4

    def _check_ranks(self, features: Float[Tensor, "N F"]) -> None:
        """Raise ValueError where the feature that has the rank has other numbers, such as normalised ones."""
        if self.rank_feature is None:
            return
        ranks = features[:, self.rank_feature - 1]
        other = ranks[(ranks < 1) | (ranks != ranks.round())]
        if len(other):
            rule = f"a feature with ranks 1, 2, 3, .., and feature {self.rank_feature} has {float(other[0]):g}"
            raise ValueError(f"{self.setting('rank_feature')} must be {rule}: type dataset.normalise=none")

    def beliefs(self) -> pbm_thompson_loops.Beliefs:
        """Return what is known, as loops receive it."""
        return pbm_thompson_loops.Beliefs(
            clicks=self.clicks,
            examined=self.examined,
            examination=self.examination_by_rank,
            prior_clicks=self.prior_clicks_by_rank,
            prior_views=self.prior_views_by_rank,
            rank_feature=(self.rank_feature or 0) - 1,
        )

    def stages(self) -> Any:
        score, learn = pbm_thompson_loops.scores_by_thompson, pbm_thompson_loops.learns_by_thompson
        return loops.rounds.RankerStages(score, learn, self.beliefs(), room=self.room)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Draw an attraction for every candidate."""
        rows = candidates.rows
        if rows is None:  # counts are by row of the document table
            raise ValueError("ranker=pbm_thompson needs the documents of the dataset as they are")
        scores = torch.zeros(candidates.mask.shape, dtype=torch.float64, device=candidates.mask.device)
        given = random.draw(), rows.table, rows.start, rows.length, self.beliefs(), scores
        loops.launch.launch(pbm_thompson_loops.draws_for_lists, len(scores), self.room, *given)
        return predicted(scores.to(self.nothing.dtype), candidates)

    def deploy(self) -> Float[Tensor, "B N"]:
        """Return the mean of what is known of each document of the dataset."""
        rank = torch.zeros(len(self.clicks[0]), dtype=torch.int64, device=self.clicks.device)
        if self.rank_feature is not None:
            rank = (self.ranks - 1).clamp(0, len(self.prior_clicks) - 1)
        clicks = self.prior_clicks_by_rank[rank] + self.clicks
        others = (self.prior_views_by_rank - self.prior_clicks_by_rank)[rank]
        mean = clicks / (clicks + others + (self.examined - self.clicks).clamp(min=0))
        return mean.to(self.nothing.dtype)

    def score(self, deployed: Float[Tensor, "S N"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        return deployed[:, candidates.document]

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Count the clicks on the shown documents, and how often they are examined in expectation."""
        document = interaction.candidates.document.gather(1, interaction.ranking)
        shown = interaction.shown.double()
        examined = shown * self.examination_by_rank[: shown.shape[1]]
        self.clicks.scatter_add_(1, document, interaction.clicks.double() * shown)
        self.examined.scatter_add_(1, document, examined)
