"""Recipes: what to run, choose, draw and print for a figure or table of a paper, or for a part of the benchmark.

A recipe is a YAML file in configs/reproduce or configs/benchmark, the folder of its command; pairrank_fig3.yaml and
linear.yaml explain each line. Its overrides are those of `ol2r run -m`: `ranker=pairrank exploration.alpha=0.1,0.01`
stands for two runs.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.report.names import dataset_name
from ol2r_cli.text.formatting import nearest

SCALES = {"reproduce": ("quick", "paper"), "benchmark": ("full", "check")}  # the first one where none is named

PAPERS = {  # the name of a paper in recipes: its short name, its citation
    "pairrank": ("PairRank", "Jia, Wang, Guo and Wang, PairRank, WWW 2021"),
    "olranknet": ("olRankNet", "Jia and Wang, Learning neural ranking models online, 2022"),
    "p2neurrank": ("P2NeurRank", "Jia and Wang, Scalable exploration for neural OL2R, SIGIR 2022"),
    "fairexp": ("FairExp", "Jia and Wang, Calibrating explore-exploit trade-off for fair OL2R, 2021"),
    "dissertation": ("Dissertation", "Jia, Toward Reliable Decision-making in Information Systems, 2022"),
    "pdgd": ("PDGD", "Oosterhuis and de Rijke, Differentiable unbiased online learning to rank, CIKM 2018"),
}
_ORDER = (*PAPERS, "linear")  # in which recipes are listed; those of other names follow

# The aims for which a benchmark chooses settings, each by the mean of a metric of the choosing runs.
AIMS = {"offline": "validation_ndcg_10", "online": "cumulative_ndcg"}
# Further ones, of a benchmark that asks what it costs to choose without labels: by what clicks on validation queries
# say (`report.click_values`), and by their number.
BY_CLICKS = {"clicks": "click_dcg_10", "raw": "clicks_a_session"}

Overrides = dict[str, str]  # by the name of the setting: {"ranker.l2": "ranker.l2=0.1"}


@dataclass(frozen=True)
class Competitor:
    """One line of a figure, or one row of a table.

    words: overrides that define the competitor. grid: settings that are chosen, as overrides with several values.
    unstable: those of the grid, in the same form, of which one is chosen only where it is clearly better, because
    another processor gives other results (`play.choose`). quick: the settings at scale=quick, which replace that
    choice: one text for all click models, or a text for each click model, the last of which holds for click models that
    are not listed. over: an override with a value for each point of its line, in place of a grid.
    """

    words: str
    grid: str = ""
    unstable: str = ""
    quick: str | dict[str, str] = ""
    over: str = ""


@dataclass(frozen=True)
class RecipeData:
    """Overrides that choose a dataset.

    folds: how many of them scale=paper reports, 0 for a dataset without folds. choose: further overrides of the runs by
    which settings are chosen. stands_in: the fields of data that replace it, by their choice. The first word chooses in
    the group of the data (`RunKind.data`).
    """

    words: str
    title: str = ""
    folds: int = 0
    choose: str = ""
    stands_in: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def choice(self) -> str:
        """Its choice in its group."""
        return self.words.split()[0].partition("=")[2]

    @property
    def group(self) -> str:
        """Its group."""
        return self.words.partition("=")[0]

    def source(self, choice: str) -> RecipeData:
        """Return the data for a choice of its group; an empty one stands for the data themselves."""
        if choice in ("", self.choice):
            return self
        words = self.stands_in.get(choice, {"words": f"{self.group}={choice}"})
        return replace(RecipeData(**words), title=dataset_name(choice))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is run and compared, by `ol2r benchmark` or `ol2r reproduce`, which is its command.

    words: overrides of all runs. scale: further ones for each scale. choose: those of the runs by which settings are
    chosen from grids. data: by their names, those of configs/reproduce/data for a paper. alone: run one at a time,
    because running time is measured. metrics: the columns of tables. runs: the name of the kind of all runs.

    Of a paper: claims are what it says, seen is for each whether published runs show it, `yes`, `no` or `undecided`,
    and by which numbers; queries is the number of training queries; caveat says why its numbers are of another kind,
    where they are. A figure has a `kind` (`ol2r report --figure` lists the kinds), its `options`, and the `click`
    models that it is limited to. A printed number has `data`, `competitor`, `click` ('': all), `metric` and `value`,
    and for a test the `text` of the paper and a phrase `near` the number.

    Of the benchmark: baseline is the competitor with which all others are compared. extend is how many times a grid
    grows by a factor of three at an end at which its best cell is. orders: another benchmark; the order of
    rankers under its users is compared with that under the users here. aims: for which settings are chosen, of `AIMS`
    and `BY_CLICKS`.
    """

    command: str
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
    runs: str = "run"
    paper: str = ""
    where: str = ""
    caveat: str = ""
    claims: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    printed: list[dict[str, Any]] = field(default_factory=list)
    queries: int | None = None
    baseline: str = ""
    extend: int = 0
    orders: str = ""
    aims: list[str] = field(default_factory=lambda: [*AIMS])

    @property
    def summary(self) -> str:
        """Return one line, such as `PairRank, figure 3: test NDCG@10 by round`."""
        return f"{PAPERS[self.paper][0]}, {self.where}: {self.shows}" if self.paper else self.shows


def recipe_dir(command: str) -> Path:
    """Return the folder of the recipes of a command."""
    return config_dir() / command


def recipe_names(command: str) -> list[str]:
    """Return all recipes: by paper, in each paper tables first, then figures by number; linear rankers first."""

    def order(name: str) -> tuple[int, bool, list[int], str]:
        paper, _, item = name.partition("_")
        place = _ORDER.index(paper) if paper in _ORDER else len(_ORDER)
        return place, "table" not in item, [int(number) for number in re.findall(r"\d+", item)], name

    return sorted((path.stem for path in recipe_dir(command).glob("*.yaml")), key=order)


def load_recipe(command: str, name: str) -> Recipe:
    """Return the recipe with this name; ValueError for an unknown name."""
    names = recipe_names(command)
    if name not in names:
        raise ValueError(f"NAME must be one of those that `ol2r {command}` lists, got {name}{nearest(name, names)}")
    content = _read(command, name)
    if "like" in content:
        content = {**_read(command, content.pop("like")), "seen": [], **content}
    competitors = {title: Competitor(**values) for title, values in content.pop("competitors", {}).items()}
    for title in content.pop("without", ()):
        del competitors[title]
    if command == "benchmark":
        data = {title: RecipeData(**{"title": title, **values}) for title, values in content.pop("data").items()}
        content.setdefault("metrics", ["test_ndcg_10", "cumulative_ndcg"])
    else:
        data = {choice: RecipeData(**_read(command, f"data/{choice}")) for choice in content.pop("data")}
    return Recipe(command=command, name=name, data=data, competitors=competitors, **content)


def _read(command: str, name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((recipe_dir(command) / f"{name}.yaml").read_text(encoding="utf-8")))


class Condition(NamedTuple):
    """One line of a figure or row of a table: a competitor on a dataset, by its title, under a click model.

    aim: for which its settings are chosen, one of `AIMS`; '' where one choice serves both, or there is none.
    point: the value of `Competitor.over`. click: empty where runs have no click model.
    """

    data: str
    click: str
    competitor: str
    aim: str = ""
    point: str = ""


def aim_of(metric: str) -> str:
    """Return for which aim settings are chosen where a metric is compared: offline for a metric of test queries."""
    return "offline" if metric.startswith("test_") else "online"


def by_name(*overrides: str | Iterable[str]) -> Overrides:
    """Return overrides by setting, in the order of first mention; the last of several with one name counts.

    A text is split into overrides as a shell splits it.
    """
    named: Overrides = {}
    for part in overrides:
        for word in shlex.split(part) if isinstance(part, str) else part:
            named[name_of(word)] = word
    return named


def name_of(override: str) -> str:
    """Return the name of the setting or group: `ranker.l2` of `+ranker.l2=0.1`."""
    return override.partition("=")[0].lstrip("+~")


def value_of(overrides: Overrides, name: str) -> str:
    """Return the value of a setting as typed; empty where there is none."""
    return overrides.get(name, "").partition("=")[2]


def role(name: str) -> str:
    """Return the group of a setting: `ranker` of `ranker.l2` and `ranker/model`."""
    return re.split(r"[./@]", name, maxsplit=1)[0]


def brief(words: Iterable[str]) -> list[str]:
    """Return overrides with the last parts of their names, such as `l2=1` of `ranker.l2=1`, where these differ."""
    last_parts = {word: re.split("[./]", word.partition("=")[0])[-1] for word in words}
    count = Counter(last_parts.values())
    return [
        word if count[last_part] > 1 else f"{last_part}={word.partition('=')[2]}"
        for word, last_part in last_parts.items()
    ]
