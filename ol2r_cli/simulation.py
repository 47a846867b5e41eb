"""The loop: T rounds of B independent simulations in step. The caller owns files, so the loop owns none."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.feedback import infer_preferences
from ol2r_cli.interfaces import ClickModel, Exploration, Fairness, Interaction, Ranker, Role, Sizes
from ol2r_cli.metrics.blocks import block_sizes, certain_ratio
from ol2r_cli.metrics.ndcg import dcg, ideal_dcg, ndcg
from ol2r_cli.metrics.regret import regret
from ol2r_cli.random import Streams
from ol2r_cli.shapes import Int

DISCOUNT = 0.9995  # of cumulative NDCG, per round (all five papers)
BLOCK_RANKS = (1, 5, 10)

Measures = dict[str, Tensor]  # metric -> [B]


class Simulation(nn.Module):
    """Rankers, users and what they have learned so far: `state_dict()` is all there is to save.

    Replica b is the simulation of seeds[b]; its numbers do not depend on the other replicas.
    """

    round: Tensor
    cumulative_ndcg: Tensor

    def __init__(
        self,
        dataset: Dataset,
        click: ClickModel,
        ranker: Ranker,
        exploration: Exploration,
        fairness: Fairness,
        *,
        seeds: Int[Tensor, "B"],
        rounds: int,
        positions: int,
        dtype: torch.dtype = torch.float64,
        no_relevant: str = "zero",
        trace_blocks: bool = True,
        trace_regret: bool = True,
    ):
        super().__init__()
        self.train_split = dataset.split("train", seeds.device, dtype)
        self.rounds, self.no_relevant = rounds, no_relevant
        self.trace_blocks, self.trace_regret = trace_blocks, trace_regret
        self.sizes = Sizes(
            replicas=len(seeds),
            documents=self.train_split.longest,
            features=dataset.features.shape[1],
            positions=positions,
            queries=len(self.train_split),
            rounds=rounds,
            grades=dataset.grades,
            dtype=dtype,
            device=seeds.device,
        )
        self.streams = Streams(seeds)
        self.click, self.ranker, self.exploration, self.fairness = click, ranker, exploration, fairness
        for role in click, ranker, exploration, fairness:
            role.setup(self.sizes, dataset.features, dataset.labels if role.needs_labels else None)
        self.register_buffer("round", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cumulative_ndcg", torch.zeros(len(seeds), dtype=torch.float64, device=seeds.device))

    @property
    def learners(self) -> dict[str, Role]:
        """Who learns from a round, in this order."""
        return {"ranker": self.ranker, "exploration": self.exploration, "fairness": self.fairness}

    def play(self) -> Iterator[tuple[int, Measures, Interaction]]:
        """The rounds that remain, one at a time: its number (from 1), its measures and what happened in it."""
        for t in range(int(self.round), self.rounds):
            interaction, labels = self._serve(t)
            for name, role in self.learners.items():
                role.learn(interaction, self.streams.at(f"learn/{name}", t))
            self.round.fill_(t + 1)
            yield t + 1, self._measure(interaction, labels), interaction

    def _serve(self, t: int) -> tuple[Interaction, Int[Tensor, "B D"]]:
        dice, sizes = self.streams, self.sizes
        query = dice.at("query", t).integer(sizes.queries)
        candidates, labels = self.train_split.serve(query)
        belief = self.ranker.judge(candidates, dice.at("judge", t))
        draft = self.exploration.propose(belief, candidates, dice.at("explore", t))
        order = self.fairness.arrange(draft, candidates)
        ranking = order[:, : sizes.positions]
        shown = candidates.mask.gather(1, ranking)
        clicks = self.click.click(labels.gather(1, ranking), shown, dice.at("click", t))
        preferences = infer_preferences(ranking, clicks, shown, self.ranker.pairs, dice.at("pairs", t))
        return Interaction(candidates, belief, draft, order, ranking, shown, clicks, preferences), labels

    def _measure(self, interaction: Interaction, labels: Int[Tensor, "B D"]) -> Measures:
        """Every metric of the round that applies; NDCG at 10, or at the number of positions where that is less."""
        draft, order = interaction.draft, interaction.order
        in_order = labels.gather(1, order)
        cutoff = min(10, self.sizes.positions)
        ideal = ideal_dcg(labels, cutoff)
        online = ndcg(dcg(in_order[:, :cutoff]), ideal)
        self.cumulative_ndcg += online * DISCOUNT ** (int(self.round) - 1)
        if self.no_relevant == "skip":
            online = online.masked_fill(ideal == 0, float("nan"))
        measures: Measures = {
            "query": interaction.candidates.query,
            "online_ndcg": online,
            "cumulative_ndcg": self.cumulative_ndcg.clone(),
            "clicks": interaction.clicks.sum(1),
            "pairs": interaction.preferences.valid.sum(1),
        }
        if self.trace_regret:
            measures["regret"] = regret(in_order, self.sizes.grades)
        if self.trace_blocks and draft.block is not None:
            length = interaction.candidates.mask.sum(1)
            ranks = torch.tensor(BLOCK_RANKS, device=length.device)
            # A query shorter than a rank reports the block of its last document.
            sizes = block_sizes(draft.block, draft.order, torch.minimum(ranks, length[:, None]))
            measures |= {f"block_size_{rank}": sizes[:, i] for i, rank in enumerate(BLOCK_RANKS)}
            measures["blocks"] = draft.block.masked_fill(~interaction.candidates.mask, -1).amax(1) + 1
            if draft.certain is not None:
                measures["certain_top10"] = certain_ratio(draft.certain, draft.order, length)
        return measures
