"""Recipes: what to run, choose, draw and print for one figure or table of a paper.

A recipe is a YAML file in configs/reproduce; its overrides are those of `ol2r run -m`: `ranker=pairrank
exploration.alpha=0.1,0.01` stands for two runs.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.formatting import nearest

SCALES = ("quick", "paper")
VERDICTS = ("yes", "no", "undecided")  # on a claim of a paper; a comma and the reason may follow

PAPERS = {  # the name of a paper in recipes: its short name, its citation
    "pairrank": ("PairRank", "Jia, Wang, Guo and Wang, PairRank, WWW 2021"),
    "olranknet": ("olRankNet", "Jia and Wang, Learning neural ranking models online, 2022"),
    "p2neurrank": ("P2NeurRank", "Jia and Wang, Scalable exploration for neural OL2R, SIGIR 2022"),
    "fairexp": ("FairExp", "Jia and Wang, Calibrating explore-exploit trade-off for fair OL2R, 2021"),
    "dissertation": ("Dissertation", "Jia, Online learning to rank for reliable decision making"),
    "pdgd": ("PDGD", "Oosterhuis and de Rijke, Differentiable unbiased online learning to rank, CIKM 2018"),
}


@dataclass(frozen=True)
class Competitor:
    """One line of a figure, or one row of a table.

    words: overrides that define the competitor. grid: settings that are chosen by validation at scale=paper, as
    overrides with several values. quick: the settings at scale=quick, which replace that choice: one text for all click
    models, or a text for each click model, the last of which holds for click models that are not listed.
    """

    words: str
    grid: str = ""
    quick: str | dict[str, str] = ""

    def quick_settings(self, click: str) -> str:
        """The settings at scale=quick under a click model."""
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


@dataclass(frozen=True, kw_only=True)
class RunRecipe:
    """What is run and compared.

    words: overrides of all runs. scale: further overrides for each scale. choose: overrides of the runs by which
    settings are chosen from grids. alone: run one at a time, because running time is measured.
    """

    name: str
    title: str
    scale: dict[str, str]
    competitors: dict[str, Competitor] = field(default_factory=dict)
    words: str = ""
    choose: str = ""
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class Recipe(RunRecipe):
    """One figure or table of a paper; configs/reproduce/pairrank_fig3.yaml explains each line.

    claims: what the paper says. seen: for each claim whether published runs show it, `yes`, `no` or `undecided`, and
    by which numbers. scale: quick and paper. queries: number of training queries.
    """

    paper: str
    where: str
    shows: str
    claims: list[str]
    seen: list[str]
    data: list[str]
    figures: list[FigureSpec] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    printed: list[PrintedNumber] = field(default_factory=list)
    queries: int | None = None

    @property
    def summary(self) -> str:
        """One line, such as `PairRank, figure 3: test NDCG@10 by round`."""
        return f"{PAPERS[self.paper][0]}, {self.where}: {self.shows}"


@dataclass(frozen=True)
class PaperDatasetSource:
    """Overrides that choose a dataset; `folds` is how many folds scale=paper reports, 0 for a dataset without folds."""

    words: str
    folds: int = 0


@dataclass(frozen=True)
class PaperDataset:
    """A dataset of the papers, and the datasets that replace it, by their choice in the group `dataset`."""

    name: str
    title: str
    paper: PaperDatasetSource
    stands_in: dict[str, PaperDatasetSource]

    @property
    def choice(self) -> str:
        """The choice of the group `dataset` that reads the data of the paper."""
        return self.paper.words.split()[0].removeprefix("dataset=")

    def source(self, choice: str | None) -> PaperDatasetSource:
        """The source for a choice of the group `dataset`; None stands for the data of the paper."""
        if choice in (None, self.choice):
            return self.paper
        return self.stands_in.get(str(choice), PaperDatasetSource(f"dataset={choice}"))


def recipe_dir() -> Path:
    """The folder of the recipes."""
    return config_dir() / "reproduce"


def recipe_names() -> list[str]:
    """All recipes: papers in the order of `PAPERS`, in each paper tables first, then figures by number or name."""
    papers = list(PAPERS)

    def order(name: str) -> tuple[int, bool, list[int], str]:
        paper, _, item = name.partition("_")
        number = "".join(letter if letter.isdigit() else " " for letter in item)
        return papers.index(paper), "table" not in item, [int(part) for part in number.split()], item

    return sorted((path.stem for path in recipe_dir().glob("*.yaml")), key=order)


def load_recipe(name: str) -> Recipe:
    """The recipe with this name; ValueError for an unknown name and for a mistake in the file."""
    names = recipe_names()
    if name not in names:
        raise ValueError(f"NAME must be one of those that `ol2r reproduce` lists, got {name}{nearest(name, names)}")
    content = read_yaml(recipe_dir() / f"{name}.yaml")
    if "like" in content:
        content = {**read_yaml(recipe_dir() / f"{content.pop('like')}.yaml"), "seen": [], **content}
    for competitor in content.pop("without", ()):
        if competitor not in content.get("competitors", {}):
            raise ValueError(f"{name}.yaml: without must name competitors, got {competitor}")
        del content["competitors"][competitor]
    recipe = as_record(Recipe, {"name": name, **content}, f"{name}.yaml")
    _check(recipe)
    return recipe


def load_dataset(name: str) -> PaperDataset:
    """A dataset of the papers, by its name in recipes."""
    content = read_yaml(recipe_dir() / "data" / f"{name}.yaml")
    return as_record(PaperDataset, {"name": name, **content}, f"data/{name}.yaml")


def read_yaml(path: Path) -> dict[str, Any]:
    """The content of a file that is a YAML mapping."""
    return dict(yaml.safe_load(path.read_text()))


def _check(recipe: Recipe) -> None:
    """Raises ValueError for values that have the right type but do not fit each other."""
    where = f"{recipe.name}.yaml"
    if recipe.paper not in PAPERS:
        raise ValueError(f"{where}: paper must be one of {', '.join(PAPERS)}, got {recipe.paper}")
    check_runs(recipe, SCALES)
    verdicts = [seen.partition(",")[0] for seen in recipe.seen]
    if len(verdicts) != len(recipe.claims) or not set(verdicts) <= set(VERDICTS):
        raise ValueError(f"{where}: seen must be {', '.join(VERDICTS)} for each of the claims, got {recipe.seen}")
    for printed in recipe.printed:
        if printed.data not in recipe.data or (recipe.competitors and printed.competitor not in recipe.competitors):
            raise ValueError(f"{where}: printed must name data and competitors of the recipe, got {printed}")


def check_runs(recipe: RunRecipe, scales: Sequence[str]) -> None:
    """ValueError, which names the file, for scales other than these, and for grids without words to choose by."""
    where = f"{recipe.name}.yaml"
    if set(recipe.scale) != set(scales):
        raise ValueError(f"{where}: scale must have {' and '.join(scales)}, got {', '.join(recipe.scale)}")
    if any(competitor.grid for competitor in recipe.competitors.values()) and not recipe.choose:
        raise ValueError(f"{where}: choose must say how settings are chosen from the grids, got nothing")


_Record = TypeVar("_Record")


def as_record(kind: type[_Record], content: Any, where: str) -> _Record:
    """A dataclass from a mapping; ValueError, which begins with `where`, for keys and values that it does not have."""
    hints = get_type_hints(kind)
    if not isinstance(content, Mapping):
        raise ValueError(f"{where} must be a mapping of {', '.join(hints)}, got {content!r}")
    for key in content:
        if key not in hints:
            raise ValueError(f"{where}: a key must be one of {', '.join(hints)}, got {key}")
    for entry in fields(kind):  # type: ignore[arg-type]
        if entry.name not in content and entry.default is MISSING and entry.default_factory is MISSING:
            raise ValueError(f"{where}: {entry.name} is missing")
    return kind(**{key: _value(hints[key], value, f"{where}: {key}") for key, value in content.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    """A value as its annotation wants it; nested dataclasses are built."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return as_record(hint, value, where)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        fitting = (option for option in arguments if isinstance(value, get_origin(option) or option))
        return _value(next(fitting, arguments[0]), value, where)
    if origin is list and isinstance(value, list):
        return [_value(arguments[0], item, f"{where} {position}") for position, item in enumerate(value)]
    if origin is dict and isinstance(value, Mapping):
        return {key: _value(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is Any or (is_number if hint is float else origin is None and type(value) is hint):
        return value
    raise ValueError(f"{where} must be {getattr(hint, '__name__', hint)}, got {value!r}")
