"""What a recipe says: the protocol of one figure or table of a paper, and what to draw.

Words are those of `ol2r run -m`: `ranker=pairrank exploration.alpha=0.1,0.01` is two runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCALES = ("quick", "paper")

PAPERS = {  # as recipes name them: in short, and in full
    "pairrank": ("PairRank", "Jia, Wang, Guo and Wang, PairRank, WWW 2021"),
    "olranknet": ("olRankNet", "Jia and Wang, Learning neural ranking models online, 2022"),
    "p2neurrank": ("P2NeurRank", "Jia and Wang, Scalable exploration for neural OL2R, SIGIR 2022"),
    "fairexp": ("FairExp", "Jia and Wang, Calibrating explore-exploit trade-off for fair OL2R, 2021"),
    "dissertation": ("Dissertation", "Jia, Online learning to rank for reliable decision making"),
}


@dataclass(frozen=True)
class Competitor:
    """One line of a figure, or row of a table.

    words: what it is. grid: the settings it is chosen from by validation at scale=paper, as words with several values.
    quick: the settings it has at scale=quick instead, for all click models or by click model (the last for others).
    """

    words: str
    grid: str = ""
    quick: str | dict[str, str] = ""

    def settled(self, click: str) -> str:
        """Its settings at scale=quick."""
        return self.quick if isinstance(self.quick, str) else self.quick.get(click, list(self.quick.values())[-1])


@dataclass(frozen=True)
class Picture:
    """A figure: its kind (`ol2r report --figure` lists them) and options; click: of these click models alone."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    click: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Printed:
    """A number that the paper prints; text: the file among the papers, near: the words that stand close by."""

    data: str
    competitor: str
    metric: str
    value: float
    text: str
    near: str
    click: str = ""


@dataclass(frozen=True)
class Recipe:
    """One figure or table; configs/reproduce/pairrank_fig3.yaml explains each line.

    words: of all runs. scale: words that are added for quick and for paper. choose: words of the runs that settings are
    chosen by, at scale=paper. queries: how many training queries. alone: one run at a time, because running time is
    what is measured.
    """

    name: str
    title: str
    paper: str
    where: str
    shows: str
    claims: list[str]
    data: list[str]
    scale: dict[str, str]
    competitors: dict[str, Competitor] = field(default_factory=dict)
    words: str = ""
    choose: str = ""
    figures: list[Picture] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    printed: list[Printed] = field(default_factory=list)
    queries: int | None = None
    alone: bool = False

    @property
    def line(self) -> str:
        """Such as: PairRank, figure 3: test NDCG@10 by round."""
        return f"{PAPERS[self.paper][0]}, {self.where}: {self.shows}"


@dataclass(frozen=True)
class Source:
    """How a dataset is chosen; folds: how many of its folds are reported at scale=paper, 0 where it has none."""

    words: str
    folds: int = 0


@dataclass(frozen=True)
class Data:
    """A dataset of the papers, and what stands in for it, by the choice of the group `dataset`."""

    name: str
    title: str
    paper: Source
    stands_in: dict[str, Source]

    @property
    def choice(self) -> str:
        """The paper's own, as a choice of the group `dataset`."""
        return self.paper.words.split()[0].removeprefix("dataset=")

    def source(self, choice: str | None) -> Source:
        """Of a choice of the group `dataset`, None being the paper's own: that, a stand-in, or whatever it is."""
        own = choice in (None, self.choice)
        return self.paper if own else self.stands_in.get(str(choice), Source(f"dataset={choice}"))
