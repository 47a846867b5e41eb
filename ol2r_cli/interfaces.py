"""START HERE: six records travel through five roles.

    Dataset --Candidates--> Ranker --Belief--> Exploration --Draft--> Fairness
       |                      ^                    ^                     | ranking
     labels ------------------+--------------------+---> ClickModel <----+
                              +------ Interaction <+---------+ clicks

Every tensor begins with B, the replicas: independent simulations that advance in step. `shapes.py` has the legend of
the letters. Roles keep settings in their constructor and tensors in buffers, so `state_dict()` is the checkpoint and
`.to(device)` is device support; whatever is random comes from the `Random` they are handed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ol2r_cli.learning.tangent import Tangent
from ol2r_cli.metrics.exposure import Exposure
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float, Int


@dataclass(frozen=True, slots=True)
class Sizes:
    """The extents, the precision and the place every role may allocate for."""

    replicas: int
    documents: int  # of the longest training query
    features: int
    positions: int  # K: how many documents are shown
    queries: int  # training queries
    rounds: int  # T: how many rounds the run will have
    grades: int  # relevance labels are 0 .. grades - 1
    ordered: int = 1 << 62  # how many places of a proposed order anybody looks at: K, or all of them
    dtype: torch.dtype = torch.float64
    device: torch.device = torch.device("cpu")
    exposure: Exposure | None = None  # of the dataset's two groups, where it has groups
    parameters: int = 0  # P: of the ranker's score, where it has any
    random: Random | None = None  # for what is drawn before round 1
    explained: bool = True  # whether anybody looks at the blocks and the certain pairs of a draft


@dataclass(frozen=True, slots=True)
class Oracle:
    """What skylines may see besides: the labels of all documents, and which rows belong to which training query."""

    labels: Int[Tensor, "N"]
    start: Int[Tensor, "Q"]  # row of a training query's first document
    length: Int[Tensor, "Q"]
    fingerprint: str  # of the dataset, as in `Dataset`
    group: Int[Tensor, "N"] | None = None  # of all documents, where the dataset has groups

    def rows(self) -> Int[Tensor, "R"]:
        """Rows of all training documents, query by query."""
        first = self.length.cumsum(0) - self.length
        slots = torch.arange(int(self.length.sum()), device=self.length.device)
        return (self.start - first).repeat_interleave(self.length) + slots


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a ranker may see of one query. Relevance labels are absent by type."""

    query: Int[Tensor, "B"]
    document: Int[Tensor, "B D"]  # row of the document table, so that history can keep indices
    features: Float[Tensor, "B D F"]
    mask: Bool[Tensor, "B D"]  # False where a shorter query is padded; real documents come first
    group: Int[Tensor, "B D"] | None = None


@dataclass(frozen=True, slots=True)
class Belief:
    """What a ranker thinks of the candidates: one score per member, and the gradient of the score on demand."""

    scores: Float[Tensor, "B N D"]
    tangent: Callable[[], Tangent]  # the same one every time
    certain: Bool[Tensor, "B D D"] | None = None  # [i, j]: i certainly above j; only rankers that state it themselves


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed order, and why: everything but the order itself is indexed by document."""

    order: Int[Tensor, "B O"]  # document at each place, padding last; at least Sizes.ordered places, or all there are
    scores: Float[Tensor, "B D"]
    block: Int[Tensor, "B D"] | None = None  # 0 is the top block
    certain: Bool[Tensor, "B D D"] | None = None  # transitively closed where the exploration closes it
    credit: Float[Tensor, "B N D"] | None = None  # whose choice it was to show a document: shares of the members


@dataclass(frozen=True, slots=True)
class Preferences:
    """Pairs inferred from clicks: `winner` and `loser` index the candidates; a pair counts where `valid`."""

    winner: Int[Tensor, "B M"]
    loser: Int[Tensor, "B M"]
    valid: Bool[Tensor, "B M"]


@dataclass(frozen=True, slots=True)
class Interaction:
    """All that happened in one round: what every `learn` and every metric receives."""

    candidates: Candidates
    belief: Belief
    draft: Draft
    order: Int[Tensor, "B O"]  # after fairness; its first K places were shown
    ranking: Int[Tensor, "B K"]
    shown: Bool[Tensor, "B K"]  # False below the end of a query shorter than K
    clicks: Bool[Tensor, "B K"]
    preferences: Preferences


# What one role may need and another offer, in the words of the error message.
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
    """What another role of the experiment has to offer, and what to type to have it."""

    what: str
    use: str


class Role(nn.Module):
    """A part of the experiment with settings (constructor), state (buffers) and possibly something to learn."""

    needs_labels = False  # skylines only: their `setup` then receives the oracle
    needs: tuple[Need, ...] = ()
    offers: frozenset[str] = frozenset()
    foresees = ""  # the setting, as typed, that makes what it does depend on how many rounds there will be

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Allocate buffers. `features` is the read-only document table; `oracle` comes only to `needs_labels`."""

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Update buffers from one round."""


class ClickModel(Role):
    """A simulated user."""

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Which of the shown documents, with these relevance grades, are clicked."""
        raise NotImplementedError


class Ranker(Role):
    """Scores candidates and learns to score them better."""

    pairs: str = "matching"  # how clicks become preferences: see `feedback`
    generalises = True  # False: has nothing to say about queries it has not served, hence no evaluation
    offers: frozenset[str] = frozenset({FEATURES})
    linear = False  # True: what it deploys are the weights of a linear score, one per feature
    dtype: torch.dtype = torch.float64  # the precision that device.dtype=auto gives it

    def size(self, features: int) -> int:
        """P: how many parameters its score has for documents of this many features, 0 where it has none."""
        return 0

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """The current opinion, exploration noise of the ranker included."""
        raise NotImplementedError

    def deploy(self) -> Float[Tensor, "B P"]:
        """A copy of everything `score` needs, flat, so that snapshots of many rounds can be scored in one product."""
        raise NotImplementedError

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Scores without exploration or noise; here the first axis of `candidates` is Q queries, not replicas."""
        raise NotImplementedError


class Exploration(Role):
    """Turns a belief into a proposed order, of which `ordered` places are looked at and `positions` shown."""

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Remember how much of an order matters; what else is allocated comes on top."""
        self.positions, self.ordered = sizes.positions, sizes.ordered

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """An order of the candidates, with the reasons for it."""
        raise NotImplementedError


class Fairness(Role):
    """Rearranges a proposed order."""

    rearranges = True  # False: the draft is served as it is, so that nobody looks below the places shown

    def two_groups(self, sizes: Sizes) -> Exposure:
        """What groups are due; ValueError, with what to type, where the dataset has no two groups."""
        if sizes.exposure is None:
            raise ValueError("fairness needs a dataset with two groups: type dataset.group={..} or fairness=none")
        return sizes.exposure

    def arrange(self, draft: Draft, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """The order that is served."""
        raise NotImplementedError
