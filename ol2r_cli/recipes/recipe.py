"""Recipes: what to run, choose, draw and print for a figure or table of a paper, or for a part of the benchmark.

A recipe is a YAML file in configs/reproduce or configs/benchmark, which is its kind; pairrank_fig3.yaml and linear.yaml
explain each line. Its overrides are those of `ol2r run -m`: `ranker=pairrank exploration.alpha=0.1,0.01` stands for two
runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.formatting import must_be_one_of, nearest

SCALES = {"reproduce": ("quick", "paper"), "benchmark": ("full", "check")}

PAPERS = {  # the name of a paper in recipes: its short name, its citation
    "pairrank": ("PairRank", "Jia, Wang, Guo and Wang, PairRank, WWW 2021"),
    "olranknet": ("olRankNet", "Jia and Wang, Learning neural ranking models online, 2022"),
    "p2neurrank": ("P2NeurRank", "Jia and Wang, Scalable exploration for neural OL2R, SIGIR 2022"),
    "fairexp": ("FairExp", "Jia and Wang, Calibrating explore-exploit trade-off for fair OL2R, 2021"),
    "dissertation": ("Dissertation", "Jia, Online learning to rank for reliable decision making"),
    "pdgd": ("PDGD", "Oosterhuis and de Rijke, Differentiable unbiased online learning to rank, CIKM 2018"),
}
_ORDER = (*PAPERS, "linear")  # in which recipes are listed; those of other names follow


@dataclass(frozen=True)
class Competitor:
    """One line of a figure, or one row of a table.

    words: overrides that define the competitor. grid: settings that are chosen by validation, as overrides with several
    values. quick: the settings at scale=quick, which replace that choice: one text for all click models, or a text for
    each click model, the last of which holds for click models that are not listed.
    """

    words: str
    grid: str = ""
    quick: str | dict[str, str] = ""

    def quick_settings(self, click: str) -> str:
        """Return the settings at scale=quick under a click model."""
        return self.quick if isinstance(self.quick, str) else self.quick.get(click, list(self.quick.values())[-1])


@dataclass(frozen=True)
class FigureSpec:
    """A figure: its kind (`ol2r report --figure` lists the kinds) and options; `click` limits it to click models."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    click: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PrintedNumber:
    """A number that the paper prints. `text` is the file of the paper, `near` a phrase close to the number in it."""

    data: str
    competitor: str
    metric: str
    value: float
    text: str
    near: str
    click: str = ""


@dataclass(frozen=True)
class RecipeData:
    """Overrides that choose a dataset.

    folds: how many of them scale=paper reports, 0 for a dataset without folds. choose: further overrides of the runs by
    which settings are chosen. stands_in: the data that replace it, by their choice in the group `dataset`.
    """

    words: str
    title: str = ""
    folds: int = 0
    choose: str = ""
    stands_in: dict[str, RecipeData] = field(default_factory=dict)

    @property
    def choice(self) -> str:
        """Its choice in the group `dataset`."""
        return self.words.split()[0].removeprefix("dataset=")

    def source(self, choice: str) -> RecipeData:
        """Return the data for a choice of the group `dataset`; an empty one stands for the data themselves."""
        if choice in ("", self.choice):
            return self
        return replace(self.stands_in.get(choice, RecipeData(f"dataset={choice}")), title=choice)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is run and compared.

    words: overrides of all runs. scale: further ones for each scale. choose: those of the runs by which settings are
    chosen from grids. data: by their names, those of configs/reproduce/data for a paper. alone: run one at a time,
    because running time is measured. metrics: the columns of tables.

    Of a paper: claims are what it says, seen is for each whether published runs show it, `yes`, `no` or `undecided`,
    and by which numbers; queries is the number of training queries. Of the benchmark: baseline is the competitor with
    which all others are compared.
    """

    kind: str
    name: str
    title: str
    shows: str
    scale: dict[str, str]
    data: dict[str, RecipeData]
    competitors: dict[str, Competitor] = field(default_factory=dict)
    words: str = ""
    choose: str = ""
    alone: bool = False
    metrics: list[str] = field(default_factory=list)
    paper: str = ""
    where: str = ""
    claims: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    figures: list[FigureSpec] = field(default_factory=list)
    printed: list[PrintedNumber] = field(default_factory=list)
    queries: int | None = None
    baseline: str = ""

    @property
    def summary(self) -> str:
        """Return one line, such as `PairRank, figure 3: test NDCG@10 by round`."""
        return f"{PAPERS[self.paper][0]}, {self.where}: {self.shows}" if self.paper else self.shows


def recipe_dir(kind: str) -> Path:
    """Return the folder of the recipes of this kind."""
    return config_dir() / kind


def recipe_names(kind: str) -> list[str]:
    """Return all recipes: by paper, in each paper tables first, then figures by number; linear rankers first."""

    def order(name: str) -> tuple[int, bool, list[int], str]:
        paper, _, item = name.partition("_")
        place = _ORDER.index(paper) if paper in _ORDER else len(_ORDER)
        return place, "table" not in item, [int(number) for number in re.findall(r"\d+", item)], name

    return sorted((path.stem for path in recipe_dir(kind).glob("*.yaml")), key=order)


def load_recipe(kind: str, name: str) -> Recipe:
    """Return the recipe with this name; ValueError for an unknown name."""
    names, folder = recipe_names(kind), recipe_dir(kind)
    if name not in names:
        listed = f"NAME must be one of those that `ol2r reproduce` lists, got {name}{nearest(name, names)}"
        raise ValueError(listed if kind == "reproduce" else must_be_one_of("NAME", names, name))
    content = _read(folder / f"{name}.yaml")
    if "like" in content:
        content = {**_read(folder / f"{content.pop('like')}.yaml"), "seen": [], **content}
    for competitor in content.pop("without", ()):
        del content["competitors"][competitor]
    if kind == "reproduce":
        content["data"] = {each: _read(folder / "data" / f"{each}.yaml") for each in content["data"]}
    else:
        content["data"] = {title: {"title": title, **each} for title, each in content["data"].items()}
        content.setdefault("metrics", ["test_ndcg_10", "cumulative_ndcg"])
    content["data"] = {each: _data(**values) for each, values in content["data"].items()}
    content["competitors"] = {each: Competitor(**values) for each, values in content.get("competitors", {}).items()}
    content["figures"] = [FigureSpec(**values) for values in content.get("figures", ())]
    content["printed"] = [PrintedNumber(**values) for values in content.get("printed", ())]
    return Recipe(kind=kind, name=name, **content)


def _data(stands_in: Mapping[str, Mapping[str, Any]] | None = None, **values: Any) -> RecipeData:
    others = {choice: RecipeData(**content) for choice, content in (stands_in or {}).items()}
    return RecipeData(**values, stands_in=others)


def _read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))
