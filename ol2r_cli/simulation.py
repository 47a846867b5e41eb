"""The loop: T rounds of B independent simulations in step. The caller owns files, so the loop owns none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.feedback import infer_preferences
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import ClickModel, Exploration, Fairness, Interaction, Ranker, Role, Sizes
from ol2r_cli.measurement import Measurement
from ol2r_cli.metrics.exposure import Exposure
from ol2r_cli.random import Streams
from ol2r_cli.shapes import Int


def check_needs(roles: Mapping[str, Role]) -> None:
    """ValueError that names the override to type where one role, by group, needs what no other offers."""
    offered = frozenset[str]().union(*(role.offers for role in roles.values()))
    for group, role in roles.items():
        for need in role.needs:
            if need.what not in offered:
                raise ValueError(f"the {group} {type(role).__name__} needs {need.what}: use {need.use}")


class Simulation(nn.Module):
    """Rankers, users and what they have learned so far: `state_dict()` is all there is to save.

    Replica b is the simulation of seeds[b]; its numbers do not depend on the other replicas.
    """

    round: Tensor

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
        exposure: Exposure | None = None,
        trace_blocks: bool = True,
        trace_regret: bool = True,
    ):
        super().__init__()
        self.train_split = dataset.split("train", seeds.device, dtype)
        longest = self.train_split.longest
        self.streams = Streams(seeds)
        self.sizes = Sizes(
            replicas=len(seeds),
            documents=longest,
            features=dataset.features.shape[1],
            positions=positions,
            ordered=longest if trace_regret or fairness.rearranges else positions,
            explained=trace_blocks or trace_regret or fairness.rearranges,
            queries=len(self.train_split),
            rounds=rounds,
            grades=dataset.grades,
            dtype=dtype,
            device=seeds.device,
            exposure=exposure and exposure.to(seeds.device),
            parameters=ranker.size(dataset.features.shape[1]),
            random=self.streams.at("setup", 0),
        )
        self.click, self.ranker, self.exploration, self.fairness = click, ranker, exploration, fairness
        check_needs({"click": click, "ranker": ranker, "exploration": exploration, "fairness": fairness})
        for role in click, ranker, exploration, fairness:
            role.setup(self.sizes, dataset.features, dataset.oracle() if role.needs_labels else None)
        self.measurement = Measurement(
            self.sizes,
            self.train_split.judged(),
            no_relevant=no_relevant,
            pairs=ranker.pairs != "none",
            blocks=trace_blocks,
            regret=trace_regret,
            rearranged=fairness.rearranges,
        )
        self.register_buffer("round", torch.zeros((), dtype=torch.int64))
        self.longest = None if on_host(seeds) else self._longest_lists()

    def play(self) -> Iterator[tuple[int, Interaction]]:
        """The rounds that remain, one at a time: its number (from 1) and what happened in it.

        `measurement` has noted the round by then; take its measures at the latest when it is full.
        """
        dice, sizes = self.streams, self.sizes
        for t in range(int(self.round), sizes.rounds):
            query = dice.at("query", t).integer(sizes.queries)
            candidates, labels = self.train_split.serve(query, None if self.longest is None else self.longest[t])
            belief = self.ranker.judge(candidates, dice.at("judge", t))
            draft = self.exploration.propose(belief, candidates, dice.at("explore", t))
            order = self.fairness.arrange(draft, candidates, dice.at("arrange", t))
            ranking = order[:, : sizes.positions]
            shown = candidates.mask[:, : sizes.positions]  # real documents come first, in every order
            clicks = self.click.click(labels.gather(1, ranking), shown, dice.at("click", t))
            preferences = infer_preferences(ranking, clicks, shown, self.ranker.pairs, dice.at("pairs", t))
            interaction = Interaction(candidates, belief, draft, order, ranking, shown, clicks, preferences)
            self.ranker.learn(interaction, dice.at("learn/ranker", t))
            self.exploration.learn(interaction, dice.at("learn/exploration", t))
            self.fairness.learn(interaction, dice.at("learn/fairness", t))
            self.round.fill_(t + 1)
            self.measurement.note(t + 1, interaction, labels)
            yield t + 1, interaction

    def _longest_lists(self) -> list[int]:
        """How many documents the longest list of every round has: a function of the seeds alone, asked for once, so
        that no round has to wait for its shape."""
        queries = (self.streams.at("query", t).integer(self.sizes.queries) for t in range(self.sizes.rounds))
        return torch.stack([self.train_split.length[query].max() for query in queries]).tolist()
