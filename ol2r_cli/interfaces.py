"""START HERE: the roles of an experiment, and the records that they exchange in every round.

    Dataset --Candidates--> Ranker --Prediction--> Exploration --Proposal--> Fairness --ranking--> ClickModel
       |                                                                                            ^     |
       +--labels------------------------------------------------------------------------------------+   clicks

    Ranker, Exploration and Fairness then learn from the Interaction: everything that happened in the round. Measures
    compute the columns of the run's tables from it, many rounds at once.

`simulation.py` is the loop that calls them. Every tensor begins with the batch axis B: B replicas are independent
simulations, each with its own seed, that advance together. `tensor/shapes.py` explains the other letters.

A role receives its settings in the constructor and allocates its state as buffers in `setup`. So `state_dict()` is a
checkpoint and `.to(device)` moves the role. A role draws random numbers only from the `Random` that a method receives.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ol2r_cli.columns import Column
from ol2r_cli.config.ranges import settings_signature
from ol2r_cli.stages import other_method
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

# Records of one round, in the order in which they are created.


class Rows(NamedTuple):
    """Where loops find the candidates of one round."""

    table: Float[Tensor, "N F"]  # float32: the documents of a query are consecutive rows
    start: Int[Tensor, "B"]
    length: Int[Tensor, "B"]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The documents of one query per replica. Relevance labels are absent, so that a ranker cannot see them."""

    query: Int[Tensor, "B"]
    document: Int[Tensor, "B D"]  # row of the document table, so that a history can store row numbers
    features: Float[Tensor, "B D F"]
    mask: Bool[Tensor, "B D"]  # False where a shorter query is padded; real documents come first
    group: Int[Tensor, "B D"] | None = None  # the protected group of each document, if the dataset has groups
    rows: Rows | None = None  # where `features` are in the document table; None if they were replaced

    def in_table(self) -> Rows:
        """Return where loops find these features: in the document table, or else in a table of their own."""
        if self.rows is not None:
            return self.rows
        replicas, documents, _ = self.features.shape
        start = torch.arange(replicas, device=self.mask.device) * documents
        return Rows(self.features.flatten(0, 1).contiguous(), start, self.mask.sum(1))


@runtime_checkable
class Tangent(Protocol):
    """The gradient of every candidate's score with respect to the P parameters that scored it."""

    def dense(self) -> Float[Tensor, "B D P"]:
        """Return all gradients as one tensor."""
        ...

    def differences(self, preferences: Preferences) -> Float[Tensor, "B M P"]:
        """Return the winner's gradient minus the loser's for each pair, and zeros for pairs that are not valid."""
        ...


@dataclass(frozen=True, slots=True)
class Prediction:
    """A ranker's opinion of the candidates: one score per member, and the gradients of the scores on demand."""

    scores: Float[Tensor, "B N D"]
    tangent: Callable[[], Tangent]  # returns the same object in every call of one round
    certain: Bool[Tensor, "B D D"] | None = None  # [i, j]: i certainly above j; only from rankers that state it
    directions: Float[Tensor, "B M P"] | None = None  # from the first member to the others; only of dueling bandits


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed order and the reasons for it. The order is indexed by place, everything else by document."""

    order: Int[Tensor, "B O"]  # document at each place, padding last; O is at least min(RunContext.ranking_depth, D)
    scores: Float[Tensor, "B D"]
    block: Int[Tensor, "B D"] | None = None  # number of the document's block; 0 is the top block
    certain: Bool[Tensor, "B D D"] | None = None  # [i, j]: i certainly above j
    credit: Float[Tensor, "B N D"] | None = None  # each member's share in the decision to show a document
    certain_by_place: Bool[Tensor, "B C C"] | None = None  # instead of `certain`, for the documents at the first places


@dataclass(frozen=True, slots=True)
class Preferences:
    """Pairs inferred from clicks. `winner` and `loser` index the candidates; a pair counts only where `valid`."""

    winner: Int[Tensor, "B M"]
    loser: Int[Tensor, "B M"]
    valid: Bool[Tensor, "B M"]


@dataclass(frozen=True, slots=True)
class Interaction:
    """Everything that happened in one round: the input of every `learn` method and of every metric."""

    candidates: Candidates
    prediction: Prediction
    proposal: Proposal
    order: Int[Tensor, "B O"]  # after fairness; its first K places are shown
    ranking: Int[Tensor, "B K"]  # the shown places of `order`
    shown: Bool[Tensor, "B K"]  # False below the end of a query with fewer than K documents
    clicks: Bool[Tensor, "B K"]
    preferences: Preferences


# Records that roles receive once, before the first round.


@dataclass(frozen=True, slots=True)
class Exposure:
    """The exposure of each place, and the exposure due to group 0 per unit of group 1 (`beta`).

    With G > 2 groups `beta` has this number for each of the groups 1 .. G - 1. It is NaN where none follows from the
    data, as where a group has no relevant document.
    """

    position: Float[Tensor, "K"]  # float64: probability that a user examines rank 1 .. K
    beta: float | tuple[float, ...]

    def to(self, device: torch.device) -> Exposure:
        """Return a copy on another device."""
        return Exposure(self.position.to(device), self.beta)

    def recorded(self) -> dict[str, Any]:
        """Return what run.json says of it."""
        known = not math.isnan(self.betas[-1])
        return {"position": self.position.tolist(), "beta": self.beta if known else None}

    @property
    def betas(self) -> tuple[float, ...]:
        """`beta` of each of the groups 0 .. G - 1, of which the first has 1."""
        return (1.0, *self.beta) if isinstance(self.beta, tuple) else (1.0, self.beta)

    @property
    def groups(self) -> int:
        """G, the number of groups."""
        return len(self.betas)

    def of_groups(self, group: Int[Tensor, "*S K"], shown: Bool[Tensor, "*T K"]) -> Float[Tensor, "*U G"]:
        """Return the exposure of each group. `group` is that of the document at each place, or at the first places."""
        worth = self.position[: group.shape[-1]] * shown
        return torch.stack([(worth * (group == number)).sum(-1) for number in range(self.groups)], -1)

    def unfairness(self, exposed: Float[Tensor, "*S G"]) -> Float[Tensor, "*S"]:
        """Return exposed[0] - beta exposed[1]. It is positive if group 0 receives more than is due to it.

        With more groups it is the largest pairwise disparity of exposure per due, in units of group 0:
        max_g beta_g exposed[g] - min_g beta_g exposed[g], where beta_0 = 1. It is 0 or more; with two groups it would
        be the absolute value.
        """
        if not isinstance(self.beta, tuple):
            return exposed[..., 0] - self.beta * exposed[..., 1]
        per_due = self.per_due(exposed)
        return per_due.amax(-1) - per_due.amin(-1)

    def per_due(self, exposed: Float[Tensor, "*S G"]) -> Float[Tensor, "*S G"]:
        """Return beta_g exposed[g], where beta_0 = 1: equal numbers are fair."""
        return exposed * exposed.new_tensor(self.betas)

    def merits(self) -> tuple[float, ...]:
        """Return the merit of each group in units of that of group 1, so that beta_g is merit 0 / merit g."""
        if not isinstance(self.beta, tuple):
            return self.beta, 1.0
        return tuple(self.beta[0] / beta for beta in self.betas)


class Forgetting(NamedTuple):
    """How much a pair counts that was observed `age` rounds ago: discount^age, and nothing from `reach` rounds on.

    `discount` is in (0, 1]. The pairs of the latest round have age 0; every round counts, also one without pairs.
    """

    window: int | None = None  # number of rounds whose pairs count; None for all
    discount: float = 1.0

    @property
    def reach(self) -> int | None:
        """The window, or the age at which discount^age is below 2^-52, the rounding of a number; None without these."""
        return math.ceil(-52 * math.log(2) / math.log(self.discount)) if self.discount < 1 else self.window

    @property
    def memory(self) -> float:
        """The largest number of rounds that count at once, as many as count fully."""
        return 1 / (1 - self.discount) if self.discount < 1 else self.window or math.inf

    def weights(self, age: Int[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return the weights of pairs of this age, in double precision."""
        weights = torch.pow(self.discount, age.double())
        return weights if self.reach is None else weights * (age < self.reach)


@dataclass(frozen=True, slots=True)
class RunContext:
    """The sizes, precision and device for which every role allocates, and what a run makes of the roles' results."""

    replicas: int  # B
    documents: int  # D: length of the longest training query
    features: int  # F
    positions: int  # K: number of documents shown
    queries: int  # number of training queries
    rounds: int  # T: number of rounds of the run
    grades: int  # relevance labels are 0 .. grades - 1
    ranking_depth: int = 1 << 62  # number of places of a proposed order that are used: K, or all; at least K
    dtype: torch.dtype = torch.float64
    device: torch.device = torch.device("cpu")
    exposure: Exposure | None = None  # None if the dataset does not have two groups or more
    parameters: int = 0  # P: parameters of the ranker's score; 0 if it has none
    random: Random | None = None  # for initial values
    needs_reasons: bool = True  # False if blocks and certain pairs of a proposal are neither traced nor used
    certain_places: int = 1 << 62  # number of places of a proposed order whose certain pairs are used
    reranked: bool = False  # whether a fairness may change proposed orders
    measured_rounds: int = 64  # number of rounds that measures receive at once, at most
    no_relevant: str = "zero"  # what a query without a relevant document counts: zero, or skip (it is left out)
    pairs: int = 0  # M: the largest number of preferences of a round
    forgetting: Forgetting = Forgetting()  # how the ranker weighs pairs by their age
    code: str = ""  # hash of the code of the run that is not of ol2r: part of the key of what a role keeps on disk
    attraction: tuple[Float[Tensor, "M"], Int[Tensor, "M"]] | None = None  # P(click | examined) and grade by document
    popularity: Float[Tensor, "_"] | None = None  # shares in which training queries are asked; None: all alike
    user: ClickModel | None = None  # for measures of what it would do; roles do not know it
    names: Callable[[], tuple[list[str], list[str]]] = lambda: ([], [])  # those of query and document of every row

    def exposure_of_places(self) -> Float[Tensor, "K"]:
        """Return the exposure of ranks 1 .. K, float64: 1 / rank where the dataset has no groups."""
        if self.exposure is not None:
            return self.exposure.position
        return 1 / torch.arange(1, self.positions + 1, device=self.device).double()


@dataclass(frozen=True, slots=True)
class Oracle:
    """The relevance labels of the dataset. Only roles with `needs_labels` receive it."""

    labels: Int[Tensor, "N"]  # of all documents in the table
    start: Int[Tensor, "Q"]  # row of the first document of each training query
    length: Int[Tensor, "Q"]  # number of documents of each training query
    fingerprint: str  # hash of the dataset
    group: Int[Tensor, "N"] | None = None  # of all documents, if the dataset has groups
    validation: Oracle | None = None  # the same with the queries of the validation split, if there is one

    def rows(self) -> Int[Tensor, "R"]:
        """Return the rows of all documents of these queries, query by query."""
        first = self.length.cumsum(0) - self.length
        slots = torch.arange(int(self.length.sum()), device=self.length.device)
        return (self.start - first).repeat_interleave(self.length) + slots


# Capabilities that one role can offer and another can need. The texts are parts of error messages.
MEMBERS = "a ranker of several members"
CREDIT = "interleaved lists, which tell whose choice each document was"
PLACKETT_LUCE = "lists drawn from the Plackett-Luce model of its scores"
STATED = "a ranker that states by itself which pairs are certain"
LAYERS = "the layers of the pairs it states to be certain"
FEATURES = "a ranker whose gradients are the features of the documents"
TANGENT = "a ranker with a network"
CERTAIN = "an exploration that says which pairs are certain"
RELEVANCE = "a ranker whose scores are estimates of relevance"
BY_SCORE = "lists in the order of their scores"


class Need(NamedTuple):
    """A capability that another role of the experiment has to offer, and the override that selects such a role."""

    what: str
    use: str


class _ConstructorSignature:
    """`inspect.signature` of a class is that of its constructor; some Pythons, as 3.11.2, prefer that of `__new__`."""

    def __get__(self, instance: object | None, owner: Any) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        signature = settings_signature(owner.__init__)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Configured(nn.Module):
    """An object whose settings are the keywords of its constructor."""

    __signature__ = _ConstructorSignature()


class Role(Configured):
    """A part of an experiment with settings (constructor keywords), state (buffers) and optional learning."""

    group = ""  # configuration group: `ranker` for the setting ranker.l2
    needs_labels = False  # True for skylines: `setup` receives the oracle
    needs: tuple[Need, ...] = ()
    offers: frozenset[str] = frozenset()
    packages: tuple[str, ...] = ()  # optional packages that decide its numbers; `run.json` records their versions
    learns_late = True  # False if `learn` needs more of a round than its interaction, which may be of an earlier one
    warnings: tuple[str, ...] = ()  # what a reader of results should know, a line each; `setup` may set it
    stage_of: Mapping[str, str] = {}  # the stage that stands for a method in rounds that are played together

    def setting(self, name: str) -> str:
        """Return the full name of a setting for error messages: `ranker.l2` for `l2`."""
        return f"{self.group}.{name}"

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Allocate buffers. `features` is the read-only document table; `oracle` is None unless `needs_labels`."""

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Update buffers from one round. Roles that do not learn keep this empty method."""

    def hashes(self) -> Mapping[str, str]:
        """Return those of the files that settings name, by setting: they are part of the run's id in place of paths."""
        return {}

    def stages(self) -> Any:
        """Return this role's stages of a round as loops, with their state (loops/rounds.py); None if it has none.

        They count for the class that defines this method, and stand for its methods: `own_stages`.
        """
        return None

    def own_stages(self, *methods: str) -> Any:
        """Return the stages that stand for these methods, by default for all of `stage_of`; None if methods play.

        A subclass has no stages unless it defines `stages`, because it may do something else. A loop of ol2r stands for
        methods of ol2r alone: a class or an object that has its own is played by them (ol2r_cli/stages.py).
        """
        stages = self.stages() if "stages" in vars(type(self)) else None
        return None if stages is None or self.method_without_stage(stages, *methods) else stages

    def method_without_stage(self, stages: Any, *methods: str) -> str:
        """Return the first of these methods, or of those that they call, for which no stage stands; "" if all do."""
        for method in methods or self.stage_of:
            other = other_method(self, method, getattr(stages, self.stage_of[method], None))
            if other:
                return other
        return ""

    def after_loops(self, rounds: int, random: Random) -> None:
        """Do what a compiled loop cannot, after `rounds` rounds that were played together. `random` is that of `learn`
        in the last of them."""


class Ranker(Role):
    """Scores candidates and learns from clicks."""

    group = "ranker"
    stage_of: Mapping[str, str] = {"predict": "score", "learn": "learn"}
    offers: frozenset[str] = frozenset({FEATURES})
    pairs: str = "matching"  # how clicks become preferences, see learning/preferences.py; "none" for no preferences
    forgetting = Forgetting()  # what its estimate makes of old pairs; explorations that keep pairs do the same
    generalises = True  # False if it cannot score queries that it has not served; then it is not evaluated offline
    of_table = False  # True if it can score no other documents than those that it was set up for
    starts = False  # True if it can begin with the parameters of another ranker, by `start_from`
    linear = False  # True if `deploy` returns the weights of a linear score, one per feature
    dtype: torch.dtype = torch.float64  # precision if device.dtype=auto; float32 for networks
    one_step = False  # True if a round is one step from its parameters, which decides when device=auto takes a GPU

    def size(self, features: int) -> int:
        """Return P, the number of parameters of the score for this number of features; 0 if there are none."""
        return 0

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Score the candidates of one round, including any perturbation that the ranker uses to explore."""
        raise NotImplementedError

    def learn_round(self, interaction: Interaction, random: Random) -> None:
        """Learn from one round of those that are played singly: by `learn`, or by a stage that stands for it."""
        self.learn(interaction, random)

    def start_from(self, parameters: Float[Tensor, "B P"]) -> None:
        """Begin with these parameters, which `deploy` of a ranker with the same model has returned; after `setup`."""
        raise NotImplementedError

    def deploy(self) -> Float[Tensor, "B P"]:
        """Return a flat copy of everything that `score` needs, so that many snapshots can be scored at once."""
        raise NotImplementedError

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Score Q queries with S snapshots, without perturbation. Here the first axis of `candidates` is Q, not B."""
        raise NotImplementedError


class Exploration(Role):
    """Turns a prediction into a proposed order. `ranking_depth` places of it are used, `positions` are shown."""

    group = "exploration"
    stage_of: Mapping[str, str] = {"propose": "arrange", "learn": "remember"}

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Store how many places are shown and used. Subclasses call this and allocate their buffers."""
        self.positions, self.ranking_depth = context.positions, context.ranking_depth
        self.none = torch.zeros(context.replicas, dtype=torch.float64, device=context.device)

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Return an order of the candidates and the reasons for it."""
        raise NotImplementedError

    def list_probability(self, interaction: Interaction) -> Float[Tensor, "B"] | None:
        """Return the probability of the shown list, given the ranker's scores; None if it is not known.

        It is asked only where nothing reranks the proposal.
        """
        return None


class Fairness(Role):
    """Reranks a proposed order."""

    group = "fairness"
    stage_of: Mapping[str, str] = {"rerank": "", "learn": ""}  # of ol2r: no loop reranks
    reranks = True  # False if the proposal is served unchanged; then places that are not shown need no order

    def two_groups(self, context: RunContext) -> Exposure:
        """Return the exposure due to the two groups; ValueError if the dataset does not have two groups."""
        exposure = self.all_groups(context)
        if exposure.groups > 2:
            raise ValueError(
                f"{type(self).__name__} needs a dataset with two groups, got {exposure.groups}: "
                "type fairness=fairco, or dataset.group (dataset.group_ratio) with two"
            )
        return exposure

    def all_groups(self, context: RunContext) -> Exposure:
        """Return the exposure due to each group; ValueError if the dataset does not have two groups or more."""
        if context.exposure is None:
            raise ValueError("fairness needs a dataset with two groups: type 'dataset.group={..}' or fairness=none")
        return context.exposure

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Return the order that is served."""
        raise NotImplementedError


class ClickModel(Role):
    """A simulated user."""

    group = "click"
    stage_of: Mapping[str, str] = {"click": "click"}
    by_document = False  # True: if the dataset has attractions, `grades` are places in `RunContext.attraction` instead

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Return which of the shown documents are clicked, given their relevance grades."""
        raise NotImplementedError

    def propensities(self, grades: Int[Tensor, "B K"]) -> Float[Tensor, "B K"] | None:
        """Return the probability that each place of a list with these grades is examined; None if it is not known."""
        return None

    def click_rates(self, grades: Int[Tensor, "B K"]) -> Float[Tensor, "B K"] | None:
        """Return the probability that each place of a list with these grades is clicked; None if it is not known."""
        return None


class IntentSchedule(Configured):
    """Which intent users have in which round: by the labels of their intent they judge documents. Not a role.

    A dataset with several intents has labels for each (`dataset/table.py`).
    """

    changes = True  # False if users judge by the labels of the dataset in every round
    largest = 1  # the largest number of an intent that users have, from 1

    def warnings(self, rounds: int) -> list[str]:
        """Return what a reader of the results should know of a run with so many rounds, a line each."""
        return []

    def shares(self, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the share [R, I] of users with each intent 1 .. I in each of these rounds, which count from 0."""
        raise NotImplementedError


# Measures: what a run writes about its rounds and about its deployed ranker.


@dataclass(frozen=True, slots=True)
class Rounds:
    """R consecutive rounds as measures receive them. Where fewer than K documents are shown, the rest is 0 or False."""

    first: int  # number of the first of them, from 1
    query: Int[Tensor, "R B"]  # row of `best`: the number of the query; with several intents, of query and intent
    length: Int[Tensor, "R B"]  # number of documents of the query
    grades: Int[Tensor, "R B K"]  # labels of the shown documents, by place; int8, so convert before calculating
    shown: Bool[Tensor, "R B K"]
    clicks: Bool[Tensor, "R B K"]
    group: Int[Tensor, "R B K"] | None = None  # of the shown documents; int8; None without groups


@dataclass(frozen=True, slots=True)
class RankedLists:
    """Labels at the first K places of lists, best first, and of the best possible list of each query.

    The leading axes L are any, such as E B Q for E snapshots of B replicas on Q queries. Places below the end of a list
    have label 0.
    """

    labels: Int[Tensor, "*L K"]
    best: Int[Tensor, "*M K"]  # `M` broadcasts with `L`
    grades: int  # labels are 0 .. grades - 1


class Measure(Configured):
    """Computes columns of trace.parquet from rounds, columns of evaluation.parquet from offline lists, or both.

    Settings are constructor keywords. What outlasts a call is in buffers registered in `setup`, so that a resumed run
    continues. A measure that does not apply to a run leaves its columns out; they are then null.
    """

    group = "measure"
    trace: tuple[Column, ...] = ()  # what `of_rounds` returns
    evaluation: tuple[Column, ...] = ()  # what `of_lists` returns
    places = 1 << 62  # first places of every list that `of_lists` receives; fewer cost less
    needs_order = False  # True if the whole order of a round is used, not only its shown places
    needs_reasons = False  # True if blocks and certain pairs of a proposal are used
    needs_blocks = False  # True if `record` is called only for rounds whose proposal has blocks

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Allocate state. `best` has the labels of every training query's best list, of as many places as are shown."""

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Keep what `Rounds` lacks of a round, which is number `row` (from 0) of the next `Rounds`.

        `labels` are those of the candidates. Only measures that need more than `Rounds` define this method, because it
        is called in every round.
        """

    def memory(self) -> Any:
        """Return tensors that loops fill where proposals have blocks, in place of `record`; None without such.

        They are the blocks by place of the proposal [R, B, D], and the certain pairs by place [R, B, c, c].
        """
        return None

    def of_rounds(self, rounds: Rounds) -> Mapping[str, Tensor]:
        """Return the values [R, B] of columns of `trace`, by name; NaN where a column does not apply."""
        return {}

    def of_lists(self, lists: RankedLists) -> Mapping[str, Float[Tensor, "*L"]]:
        """Return the values of all columns of `evaluation` for each list, by name. Means over queries are written."""
        return {}
