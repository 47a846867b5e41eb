"""The loop: B independent simulations play T rounds together. It reads and writes no files.

Where every role has a form for loops, one call of a compiled loop (loops/play.py) plays many rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.columns import CUTOFF
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.intent.schedules import DrawnIntents
from ol2r_cli.interfaces import (
    CERTAIN,
    ClickModel,
    Exploration,
    Exposure,
    Fairness,
    IntentSchedule,
    Interaction,
    Measure,
    Ranker,
    Role,
    RunContext,
)
from ol2r_cli.learning.late import LateFeedback
from ol2r_cli.learning.preferences import infer_preferences, most_pairs
from ol2r_cli.metrics.measurement import Measurement
from ol2r_cli.tensor.shapes import Int
from ol2r_cli.tensor.streams import Streams

if TYPE_CHECKING:
    from ol2r_cli.loops.joint import RoundsLaunch

_STREAMS = (  # of the numbers that `loops.play` draws, in its order
    *("query/", "explore/", "explore/document", "explore/coin", "click/", "pairs/"),
)
_ROUNDS = 1024  # most that are measured together
_REPLICA_ROUNDS = {"cpu": 1 << 12, "cuda": 1 << 18}


def check_needs(roles: Mapping[str, Role]) -> None:
    """Raise ValueError, with the override to type, if a role needs what no other role offers. Keys are groups."""
    offered = frozenset[str]().union(*(role.offers for role in roles.values()))
    for group, role in roles.items():
        for need in role.needs:
            if need.what not in offered:
                raise ValueError(f"the {group} {type(role).__name__} needs {need.what}: use {need.use}")


def judged_by_intents(dataset: Dataset, schedule: IntentSchedule, roles: Mapping[str, Role]) -> Dataset:
    """Return the dataset with the grades, and the labels of the first intent, by which users of a schedule judge.

    ValueError, with the override to type, if it does not have these intents, or if a role needs labels that stay.
    """
    number = 0 if dataset.intents is None else len(dataset.intents.labels)
    if number < schedule.largest:
        has = f"{number} intents" if number else "no intents"
        raise ValueError(
            f"users with intents 1 to {schedule.largest} need a dataset with as many, and {dataset.name} has {has}: "
            f"type 'dataset.intents={{number: {max(2, schedule.largest)}, overlap: 0}}' with dataset=synthetic, "
            f"dataset.intents={max(2, schedule.largest)} with yandex_bandit, or dataset=clueweb09, or intent=none"
        )
    for group, role in roles.items():
        if role.needs_labels:
            name = type(role).__name__
            raise ValueError(f"the {group} {name} needs labels that stay as they are: use intent=none dataset.intent=1")
    return dataset.judged_by(1)


class Simulation(nn.Module):
    """The four roles, the training queries and everything learned so far. `state_dict()` is the complete state.

    Replica b is the simulation with seed seeds[b]; its results do not depend on the other replicas. The keyword
    settings have the meaning that `configs/run.yaml` explains; `measures` are by name, `block_rounds` is whether the
    blocks of any round are kept, `loops` whether compiled loops may be used, `code` that of `RunContext`. `intent` is
    None if users judge by the labels of the dataset in every round. `start` returns the parameters [B, P] with which
    the ranker begins. With `update_every` or `delay` ranker and exploration learn late (`LateFeedback`), fairness in
    every round: who was exposed is known at once.
    """

    round: Tensor
    moved: Tensor  # theta as learned from the rounds since it was updated, where these are played together

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
        measures: Mapping[str, Measure],
        block_rounds: bool = False,
        loops: bool = False,
        intent: IntentSchedule | None = None,
        code: str = "",
        start: Callable[[RunContext], Tensor] | None = None,
        update_every: int = 1,
        delay: int = 0,
    ):
        super().__init__()
        schedule = intent if intent is not None and intent.changes else None
        roles: dict[str, Role] = {"click": click, "ranker": ranker, "exploration": exploration, "fairness": fairness}
        if schedule is not None:
            dataset = judged_by_intents(dataset, schedule, roles)
        self.train_split = dataset.split("train", seeds.device, dtype, loops, by_intent=schedule is not None)
        longest = self.train_split.longest
        needs_order = fairness.reranks or any(measure.needs_order for measure in measures.values())
        needs_reasons = fairness.reranks or any(measure.needs_reasons for measure in measures.values())
        self.streams = Streams(seeds)
        self.intents = None if schedule is None else DrawnIntents(schedule, self.streams)
        self.context = RunContext(
            replicas=len(seeds),
            documents=longest,
            features=dataset.features.shape[1],
            positions=positions,
            ranking_depth=longest if needs_order else positions,
            needs_reasons=needs_reasons or block_rounds,
            certain_places=longest if fairness.reranks else max(CUTOFF, positions),
            queries=len(self.train_split),
            rounds=rounds,
            grades=dataset.grades,
            dtype=dtype,
            device=seeds.device,
            exposure=exposure and exposure.to(seeds.device),
            parameters=ranker.size(dataset.features.shape[1]),
            random=self.streams.at("setup", 0),
            reranked=fairness.reranks,
            measured_rounds=Measurement.ROUNDS,
            no_relevant=no_relevant,
            loops=loops,
            pairs=most_pairs(ranker.pairs, positions),
            forgetting=ranker.forgetting,
            code=code,
            attraction=self.train_split.attraction if click.by_document else None,
        )
        self.click, self.ranker, self.exploration, self.fairness = click, ranker, exploration, fairness
        check_needs(roles)
        for role in roles.values():
            try:
                role.setup(self.context, dataset.features, dataset.oracle() if role.needs_labels else None)
            except KeyError as error:  # of `register_buffer`
                if "already exists" not in str(error):
                    raise
                message = f"{type(role).__name__} must name an attribute differently: {error.args[0]}"
                raise ValueError(message) from error
        if start is not None:
            ranker.start_from(start(self.context).to(seeds.device, dtype))
        judged = self.train_split.judged()
        self.measurement = Measurement(self.context, measures, judged, self.intents, pairs=ranker.pairs != "none")
        self.register_buffer("round", torch.zeros((), dtype=torch.int64))
        self.longest: list[int] | None = None
        if not loops:
            # The longest list of every round. Queries depend on the seeds alone: reading all lengths here saves every
            # round from waiting for the device to learn its shapes.
            queries = (self.streams.at("query", t).integer(self.context.queries) for t in range(rounds))
            self.longest = torch.stack([self.train_split.length[query].max() for query in queries]).tolist()
        self.late: LateFeedback | None = None
        if update_every > 1 or delay:
            late = ranker, exploration, self.streams, lambda query, longest: self.train_split.serve(query, longest)[0]
            self.late = LateFeedback(update_every, delay, *late)
        self.together = self._recording_together()
        if self.together is not None and self.late is not None:
            stages: Any = ranker
            theta = stages.stages().state.theta if self._has_stages() else torch.from_numpy(stages.for_loops().theta)
            self.register_buffer("moved", theta.clone())
        if self.together == []:
            at_once = _REPLICA_ROUNDS[seeds.device.type] // len(seeds)
            self.measurement.allocate(max(self.measurement.ROUNDS, min(_ROUNDS, at_once)))

    def play_until(self, pause: Callable[[int], bool]) -> Iterator[tuple[int, Interaction | None]]:
        """Play the remaining rounds as `play`, but where the roles allow it many of them together.

        Then it yields after a round for which `pause` is true, when `measurement` is full, and after the last round,
        and what happened is None.
        """
        while int(self.round) < self.context.rounds:
            interaction = self.advance(self.rounds_until(pause))
            yield int(self.round), interaction

    def rounds_until(self, pause: Callable[[int], bool]) -> int:
        """Return how many rounds `advance` may play: up to one after which `pause` is true, the last one, or as many as
        `measurement` has room for; one where the roles play single rounds."""
        t = int(self.round)
        left = self.context.rounds - t
        if self.together is None:
            return min(1, left)
        room = min(self.measurement.rounds - self.measurement.recorded, left)
        return next((count for count in range(1, room) if pause(t + count)), room)

    def advance(self, rounds: int) -> Interaction | None:
        """Play up to `rounds` rounds together and return None; where the roles do not allow it, play one round and
        return what happened in it."""
        if self.together is None:
            _, interaction = next(self.play())
            return interaction
        first = int(self.round)
        played = self._play_together(first, rounds, self.together)
        self.round.fill_(first + played)
        return None

    def prepare(self, rounds: int) -> RoundsLaunch | None:
        """Return the launch with which `advance` plays up to `rounds` rounds, for `play_jointly`, or None if there is
        none; `launched` must follow."""
        if self.together is None or not self._has_stages():
            return None
        return self._prepared(int(self.round), rounds, self.together)

    def launched(self, prepared: RoundsLaunch) -> None:
        """Do what is due after a launch that `prepare` has returned was played."""
        self._played(prepared)
        self.round.fill_(prepared.first + prepared.rounds)

    def play(self) -> Iterator[tuple[int, Interaction]]:
        """Play the remaining rounds. Each yields its number, from 1, and what happened in it.

        `measurement` has recorded the round by then. Call `measurement.measures()` before the next round if
        `measurement.full()`.
        """
        streams, context, finished = self.streams, self.context, self.round
        ranker, exploration, fairness, user = self.ranker, self.exploration, self.fairness, self.click
        for t in range(int(finished), context.rounds):
            query = streams.at("query", t).integer(context.queries)
            longest = None if self.longest is None else self.longest[t]
            intent = None if self.intents is None else self.intents.at(t)
            candidates, labels = self.train_split.serve(query, longest, intent)
            prediction = ranker.predict(candidates, streams.at("judge", t))
            proposal = exploration.propose(prediction, candidates, streams.at("explore", t))
            order = fairness.rerank(proposal, candidates, streams.at("arrange", t))
            ranking = order[:, : context.positions]
            shown = candidates.mask[:, : context.positions]  # in every order, real documents come before padding
            judged = labels if context.attraction is None else self.train_split.of_intent(candidates.document, intent)
            clicks = user.click(judged.gather(1, ranking), shown, streams.at("click", t))
            preferences = infer_preferences(ranking, clicks, shown, ranker.pairs, streams.at("pairs", t))
            interaction = Interaction(candidates, prediction, proposal, order, ranking, shown, clicks, preferences)
            for known, given in self._known(t, interaction):
                ranker.learn(given, streams.at("learn/ranker", known))
                exploration.learn(given, streams.at("learn/exploration", known))
            fairness.learn(interaction, streams.at("learn/fairness", t))
            finished.fill_(t + 1)
            self.measurement.record(t + 1, interaction, labels)
            yield t + 1, interaction

    def _known(self, t: int, interaction: Interaction) -> Iterable[tuple[int, Interaction]]:
        """The rounds to learn from after round `t`: this one, unless feedback comes late."""
        if self.late is None:
            return [(t, interaction)]
        self.late.add(t, interaction)
        return self.late.due(t)

    def _recording_together(self) -> list[Measure] | None:
        """Return the measures that receive every round, if rounds are played together; None if they must be single.

        They must if a role has no form for loops, or if a measure has none that receives these rounds. A form that a
        class only inherits does not count, because the class may do something else. Rounds that are learned from at
        once are played together where theta alone decides what is shown.
        """
        on_gpu = self.context.device.type == "cuda" and loops.gpu_is_missing() == ""
        if self.context.attraction is not None or not (self.context.loops or on_gpu):
            return None
        with_blocks = CERTAIN in self.exploration.offers
        recording: list[Any] = [each for each in self.measurement.recording if with_blocks or not each.needs_blocks]
        for measure in recording:
            if "for_loops" not in vars(type(measure)) or measure.for_loops() is None:
                return None
        by_theta = self._shown_by_theta()
        late = self.late is not None and (self.late.delay or not by_theta)
        return None if by_theta is None or late else recording

    def _shown_by_theta(self) -> bool | None:
        """Return whether theta alone decides what is shown; None if the roles have no form for loops."""
        ranker: Any = self.ranker
        exploration: Any = self.exploration
        if self._has_stages():
            is_forgetful = exploration.stages().remember is loops.rounds.nothing_to_remember
            return bool(ranker.stages().by_theta and is_forgetful)
        parts: list[Any] = [ranker, exploration, self.fairness, self.click]
        has_loops = all("for_loops" in vars(type(part)) and part.for_loops() is not None for part in parts)
        if not self.context.loops or not has_loops:
            return None
        return ranker.for_loops().kind in loops.play.BY_THETA

    def _play_together(self, first: int, most: int, recording: Sequence[Measure]) -> int:
        if self._has_stages():
            return self._play_stages(first, most, recording)
        return self._play_old(first, most)

    def _has_stages(self) -> bool:
        """Return whether ranker, exploration, fairness and user are stages of loops."""
        parts: list[Any] = [self.ranker, self.exploration, self.fairness, self.click]
        return all("stages" in vars(type(part)) and part.stages() is not None for part in parts)

    def _play_stages(self, first: int, most: int, recording: Sequence[Measure]) -> int:
        """Play and record up to `most` rounds from number `first`, from 0, on; return how many were played."""
        prepared = self._prepared(first, most, recording)
        prepared.play()
        self._played(prepared)
        return prepared.rounds

    def _prepared(self, first: int, most: int, recording: Sequence[Measure]) -> RoundsLaunch:
        """Return the launch of up to `most` rounds from number `first`, from 0, on.

        Every stage does what a role does in a single round, with the same random numbers.
        """
        split, context, measurement = self.train_split, self.context, self.measurement
        parts: list[Any] = [self.ranker, self.exploration, self.click]
        ranker, exploration, user = (part.stages() for part in parts)
        every = 1 << 62 if self.late is None else self.late.every
        rounds = min(most, ranker.rounds, exploration.rounds, every - first % every)
        state = ranker.state if self.late is None else ranker.state._replace(moving=self.moved)
        intents = torch.zeros(rounds, context.replicas, dtype=torch.int64, device=context.device)
        if self.intents is not None:
            intents = self.intents(first, rounds)
        measurement.begin(first + 1)
        recorded = slice(measurement.recorded, measurement.recorded + rounds)
        reasons = [array[recorded] for measure in recording for array in measure.for_loops()]
        sizes = loops.rounds.Sizes(context.positions, ranker.members, context.pairs)
        infer = loops.rounds.INFER[self.ranker.pairs]
        stages = ranker.score, exploration.arrange, user.click, infer, ranker.learn, exploration.remember
        return loops.joint.RoundsLaunch(
            loop=loops.rounds.rounds_of(*stages),
            room=loops.rounds.room_of_a_round(sizes, context.documents) + max(ranker.room, exploration.room),
            first=first,
            rounds=rounds,
            sizes=sizes,
            queries=loops.rounds.Queries(split.features, split.labels, split.groups, split.start, split.length),
            intents=intents,
            seeds=self.streams.seeds,
            user=user.state,
            exploration=exploration.state,
            ranker=state,
            record=loops.rounds.Record(*(buffer[recorded] for buffer in measurement.of_rounds)),
            reasons=tuple(reasons),
        )

    def _played(self, prepared: RoundsLaunch) -> None:
        """Do what is due after a launch."""
        self.measurement.recorded += prepared.rounds
        last = prepared.first + prepared.rounds - 1
        if self.late is not None and (last + 1) % self.late.every == 0:
            ranker: Any = self.ranker
            ranker.stages().state.theta.copy_(self.moved)
        self.ranker.after_loops(prepared.rounds, self.streams.at("learn/ranker", last))
        self.exploration.after_loops(prepared.rounds, self.streams.at("learn/exploration", last))

    def _play_old(self, first: int, most: int) -> int:
        """Play and record up to `most` rounds from number `first`, from 0, on; return how many were played.

        Every stage does what a role does in a single round, with the same random numbers.
        """
        split, rows = self.train_split, self.train_split.rows
        assert rows is not None
        ranker: Any = self.ranker
        kind, pairs, *state, kept, until = learner = ranker.for_loops()
        listing, parameter, at_once = self.exploration.for_loops()
        kind_of_user, *user = self.click.for_loops()
        moving, every = (learner.theta, 1 << 62) if self.late is None else (self.moved.numpy(), self.late.every)
        rounds = min(most, at_once, until, every - first % every)
        intents = np.zeros((rounds, len(learner.theta)), np.int64)
        if self.intents is not None:
            intents = self.intents(first, rounds).numpy()
        queries = rows.table, split.label_of, split.group_of, rows.start, rows.length
        numbers = self.streams.seeds.numpy(), *(crc32(stream.encode()) for stream in _STREAMS)
        self.measurement.begin(first + 1)
        recorded = slice(self.measurement.recorded, self.measurement.recorded + rounds)
        record = tuple(array[recorded] for array in self.measurement.arrays)
        play = loops.play.playing(listing, kind_of_user, kind, pairs)
        state = [learner.theta, moving, *state[1:]]
        roles = parameter, tuple(user), tuple(state), kept
        played: int = play(first, rounds, queries, intents, numbers, *roles, record)
        self.measurement.recorded += played
        last = first + played - 1
        if (last + 1) % every == 0:
            learner.theta[:] = moving
        ranker.after_loops(played, self.streams.at("learn/ranker", last))
        self.exploration.after_loops(played, self.streams.at("learn/exploration", last))
        return played
