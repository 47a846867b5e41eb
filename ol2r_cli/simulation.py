"""The loop: B independent simulations play T rounds together. It reads and writes no files.

Where every role has stages, one launch of a compiled loop (loops/rounds.py) plays many rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.columns import CUTOFF
from ol2r_cli.dataset.letor import names_of_rows
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
from ol2r_cli.stages import other_method
from ol2r_cli.tensor.shapes import Int
from ol2r_cli.tensor.streams import Streams

if TYPE_CHECKING:
    from ol2r_cli.loops.rounds import RoundsLaunch

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


def warn_of_stages(role: Role) -> None:
    """Add to the warnings of a role that its class defines stages which do not stand for its methods, if it does."""
    stages = role.stages() if "stages" in vars(type(role)) else None
    method = "" if stages is None else role.method_without_stage(stages)
    if method:
        of = f"the {role.group} {type(role).__name__}"
        line = f"{of} is played by its methods, round by round: its stages do not stand for its `{method}`"
        role.warnings = tuple(dict.fromkeys([*role.warnings, line]))


class Roles(NamedTuple):
    """The four roles of a simulation, which sets them up."""

    click: ClickModel
    ranker: Ranker
    exploration: Exploration
    fairness: Fairness


class RoundSettings(NamedTuple):
    """How rounds are played, with the meaning that `configs/run.yaml` explains.

    single: whether rounds are played one by one, with the reasons of each proposal. exposure, code: those of
    `RunContext`. With `update_every` or `delay` ranker and exploration learn late (`LateFeedback`), fairness in every
    round: who was exposed is known at once.
    """

    rounds: int
    positions: int
    dtype: torch.dtype = torch.float64
    no_relevant: str = "zero"
    exposure: Exposure | None = None
    update_every: int = 1
    delay: int = 0
    single: bool = False
    code: str = ""


class Simulation(nn.Module):
    """The four roles, the training queries and everything learned so far. `state_dict()` is the complete state.

    Replica b is the simulation with seed seeds[b]; its results do not depend on the other replicas. `measures` are by
    name. `start` returns the parameters [B, P] with which the ranker begins; None: with its own.
    """

    round: Tensor
    moved: Tensor  # theta as learned from the rounds since it was updated, where these are played together

    def __init__(
        self,
        dataset: Dataset,
        roles: Roles,
        settings: RoundSettings,
        *,
        seeds: Int[Tensor, "B"],
        measures: Mapping[str, Measure],
        intent: IntentSchedule,
        start: Callable[[RunContext], Tensor] | None,
    ):
        super().__init__()
        self.click, self.ranker, self.exploration, self.fairness = roles
        by_group = roles._asdict()
        if intent.changes:
            dataset = judged_by_intents(dataset, intent, by_group)
        self.train_split = dataset.split("train", seeds.device, settings.dtype, by_intent=intent.changes)
        self.streams = Streams(seeds)
        self.intents = DrawnIntents(intent, self.streams) if intent.changes else None
        self.context = self._context(dataset, measures.values(), settings)
        check_needs(by_group)
        for role in roles:
            role.setup(self.context, dataset.features, dataset.oracle() if role.needs_labels else None)
            warn_of_stages(role)
        if start is not None:
            self.ranker.start_from(start(self.context).to(seeds.device, settings.dtype))
        judged = self.train_split.judged()
        has_pairs = self.ranker.pairs != "none"
        self.measurement = Measurement(self.context, measures, judged, self.intents, pairs=has_pairs)
        self.register_buffer("round", torch.zeros((), dtype=torch.int64))
        self.late: LateFeedback | None = None
        if settings.update_every > 1 or settings.delay:
            self.late = LateFeedback(
                settings.update_every,
                settings.delay,
                self.ranker,
                self.exploration,
                self.streams,
                serve=lambda query, longest: self.train_split.serve(query, longest)[0],
            )
        self.together = None if settings.single else self._recording_together()
        if self.together is not None and self.late is not None:
            self.register_buffer("moved", self._theta().clone())
        if self.together == []:
            at_once = _REPLICA_ROUNDS[seeds.device.type] // len(seeds)
            self.measurement.allocate(max(self.measurement.ROUNDS, min(_ROUNDS, at_once)))

    def _context(self, dataset: Dataset, measures: Collection[Measure], settings: RoundSettings) -> RunContext:
        """Return what roles and measures are set up for."""
        split, ranker, seeds, reranks = self.train_split, self.ranker, self.streams.seeds, self.fairness.reranks
        needs_order = reranks or any(measure.needs_order for measure in measures)
        needs_reasons = reranks or settings.single or any(measure.needs_reasons for measure in measures)
        return RunContext(
            rounds=settings.rounds,
            positions=settings.positions,
            dtype=settings.dtype,
            no_relevant=settings.no_relevant,
            code=settings.code,
            replicas=len(seeds),
            documents=split.longest,
            features=dataset.features.shape[1],
            ranking_depth=split.longest if needs_order else settings.positions,
            needs_reasons=needs_reasons,
            certain_places=split.longest if reranks else max(CUTOFF, settings.positions),
            queries=len(split),
            grades=dataset.grades,
            device=seeds.device,
            exposure=settings.exposure and settings.exposure.to(seeds.device),
            parameters=ranker.size(dataset.features.shape[1]),
            random=self.streams.at("setup", 0),
            reranked=reranks,
            measured_rounds=Measurement.ROUNDS,
            pairs=most_pairs(ranker.pairs, settings.positions),
            forgetting=ranker.forgetting,
            attraction=split.attraction if self.click.by_document else None,
            popularity=None if dataset.popularity is None else dataset.popularity.to(seeds.device),
            user=self.click,
            names=partial(names_of_rows, dataset),
        )

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
        return what happened in it. ValueError unless `rounds` are among those that are left."""
        launch = self.prepare(rounds)
        if launch is None:
            return self.play_round()
        launch.play()
        self.launched(launch)
        return None

    def prepare(self, rounds: int) -> RoundsLaunch | None:
        """Return the launch that plays up to `rounds` rounds together; None where the roles do not allow it.

        Every stage does what a role does in a single round, with the same random numbers. `launched` must follow when
        it was played. Stages write to arrays with a place for each round that there is room for, without looking
        whether there is one: ValueError for more rounds than are left, or than `measurement` has room for.
        """
        first = int(self.round)
        left = self.context.rounds - first
        if left:
            self.measurement.begin(first + 1)
        if not 1 <= rounds <= left:
            if not left:
                raise ValueError(f"all {first:,} rounds have been played")
            raise ValueError(f"rounds must be from 1 to {left:,}, which are left of {first + left:,}, got {rounds:,}")
        if self.together is None:
            return None
        room = self.measurement.rounds - self.measurement.recorded
        if rounds > room:
            what = f"rounds must be at most {room:,}, for which there is room before measures are taken, got {rounds:,}"
            raise ValueError(f"{what}: ask `rounds_until`, and call measurement.measures() when it is full()")
        split, context, measurement = self.train_split, self.context, self.measurement
        ranker, exploration, user = (part.own_stages() for part in (self.ranker, self.exploration, self.click))
        if ranker is None or exploration is None or user is None:  # a method was replaced since
            return None
        every = 1 << 62 if self.late is None else self.late.every
        rounds = min(rounds, ranker.rounds, exploration.rounds, every - first % every)
        state = ranker.state if self.late is None else ranker.state._replace(moving=self.moved)
        intents = torch.zeros(rounds, context.replicas, dtype=torch.int64, device=context.device)
        if self.intents is not None:
            intents = self.intents(first, rounds)
        recorded = slice(measurement.recorded, measurement.recorded + rounds)
        reasons = [array[recorded] for measure in self.together for array in measure.memory()]
        sizes = loops.rounds.Sizes(context.positions, ranker.members, context.pairs)
        infer = loops.rounds.INFER[self.ranker.pairs]
        stages = ranker.score, exploration.arrange, user.click, infer, ranker.learn, exploration.remember
        return loops.rounds.RoundsLaunch(
            loop=loops.rounds.rounds_of(*stages),
            room=loops.rounds.room_of_a_round(
                sizes, context.documents, ranker.room, exploration.room(sizes, context.documents)
            ),
            first=first,
            rounds=rounds,
            sizes=sizes,
            queries=loops.rounds.Queries(
                split.features, split.labels, split.groups, split.start, split.length, split.upto
            ),
            intents=intents,
            seeds=self.streams.seeds,
            user=user.state,
            exploration=exploration.state,
            ranker=state,
            record=loops.rounds.Record(*(buffer[recorded] for buffer in measurement.of_rounds)),
            reasons=tuple(reasons),
        )

    def launched(self, launch: RoundsLaunch) -> None:
        """Do what is due after a launch was played."""
        self.measurement.recorded += launch.rounds
        last = launch.first + launch.rounds - 1
        if self.late is not None and (last + 1) % self.late.every == 0:
            self._theta().copy_(self.moved)
        self.ranker.after_loops(launch.rounds, self.streams.at("learn/ranker", last))
        self.exploration.after_loops(launch.rounds, self.streams.at("learn/exploration", last))
        self.round.fill_(last + 1)

    def play(self) -> Iterator[tuple[int, Interaction]]:
        """Play the remaining rounds one by one. Each yields its number, from 1, and what happened in it.

        Call `measurement.measures()` before the next round if `measurement.full()`.
        """
        for t in range(int(self.round), self.context.rounds):
            yield t + 1, self.play_round()

    def play_round(self) -> Interaction:
        """Play the next round and return what happened in it, which `measurement` has recorded by then."""
        streams, context, t = self.streams, self.context, int(self.round)
        ranker, exploration, fairness, user = self.ranker, self.exploration, self.fairness, self.click
        query = self.train_split.asked(streams.at("query", t).uniform(1)[:, 0])
        intent = None if self.intents is None else self.intents.at(t)
        candidates, labels = self.train_split.serve(query, intent=intent)
        prediction = ranker.predict(candidates, streams.at("judge", t))
        proposal = exploration.propose(prediction, candidates, streams.at("explore", t))
        order = fairness.rerank(proposal, candidates, streams.at("arrange", t))
        ranking = order[:, : context.positions]
        shown = candidates.mask[:, : context.positions]  # in every order, real documents come before padding
        judged = labels if context.attraction is None else self.train_split.of_intent(candidates.document, intent)
        clicks = user.click(judged.gather(1, ranking), shown, streams.at("click", t))
        preferences = infer_preferences(ranking, clicks, shown, ranker.pairs, streams.at("pairs", t))
        interaction = Interaction(candidates, prediction, proposal, order, ranking, shown, clicks, preferences)
        known: Iterable[tuple[int, Interaction]] = [(t, interaction)]
        if self.late is not None:
            self.late.add(t, interaction)
            known = self.late.due(t)
        for known_round, happened in known:
            ranker.learn_round(happened, streams.at("learn/ranker", known_round))
            exploration.learn(happened, streams.at("learn/exploration", known_round))
        fairness.learn(interaction, streams.at("learn/fairness", t))
        self.round.fill_(t + 1)
        self.measurement.record(t + 1, interaction, labels)
        return interaction

    def _recording_together(self) -> list[Measure] | None:
        """Return the measures that receive every round, if rounds are played together; None if they must be single.

        They must if a role has no stages, or if a measure has no memory that stages write to. What a class only
        inherits does not count, because the class may do something else. Rounds that are learned from at once are
        played together where theta alone decides what is shown.
        """
        parts: list[Role] = [self.ranker, self.exploration, self.fairness, self.click]
        if self.context.attraction is not None or any(part.own_stages() is None for part in parts):
            return None
        with_blocks = CERTAIN in self.exploration.offers
        recording: list[Any] = [
            measure for measure in self.measurement.recording if with_blocks or not measure.needs_blocks
        ]
        for measure in recording:
            if "memory" not in vars(type(measure)) or other_method(measure, "record") or measure.memory() is None:
                return None
        learns_late = self.late is not None and (self.late.delay or not self._shown_by_theta())
        return None if learns_late else recording

    def _shown_by_theta(self) -> bool:
        """Return whether of all that is learned theta alone decides what is shown."""
        ranker: Any = self.ranker
        exploration: Any = self.exploration
        remembers = exploration.stages().remember is not loops.rounds.nothing_to_remember
        return bool(ranker.stages().by_theta and not remembers)

    def _theta(self) -> Tensor:
        """Return the parameters from which the stages of the ranker compute scores."""
        ranker: Any = self.ranker
        theta: Tensor = ranker.stages().state.theta
        return theta
