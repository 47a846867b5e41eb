"""From a recipe, a scale and what was typed to the runs that it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ol2r_cli.compose import translate
from ol2r_cli.reproduce.book import data
from ol2r_cli.reproduce.recipe import SCALES, Competitor, Data, Recipe
from ol2r_cli.reproduce.words import Words, expand, values, words

STAND_IN = "synthetic"  # what scale=quick runs on unless something else is typed


@dataclass(frozen=True)
class Ground:
    """A dataset that is played on, in place of one or several of the paper's (their names), or one of these itself."""

    title: str
    words: Words
    named: tuple[str, ...]
    folds: int


@dataclass(frozen=True)
class Place:
    """Where one line of a figure ends up: on which ground, with which click model, of which competitor."""

    ground: str
    click: str
    competitor: str


@dataclass(frozen=True, eq=False)
class Trial:
    """One competitor with one choice of settings, at one place; runs: the words of each run, one for every fold."""

    place: Place
    settings: Words
    runs: tuple[tuple[str, ...], ...]


class Protocol:
    """The runs of a recipe at a scale, with the words that were typed in place of its own.

    Raises ValueError for a scale there is not, and for words that would change what is compared.
    """

    def __init__(self, recipe: Recipe, scale: str = "quick", typed: Sequence[str] = ()):
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale}")
        self.recipe, self.scale = recipe, scale
        typed = translate(list(typed))
        self.launcher = [word for word in typed if word.lstrip("+").partition("=")[0].split(".")[0] == "launcher"]
        self.typed = words(word for word in typed if word not in self.launcher)
        self._check()
        default = STAND_IN if scale == "quick" else None
        self.choice = self.typed["dataset"].partition("=")[2] if "dataset" in self.typed else default

    def _check(self) -> None:
        own = [words(c.words, c.grid, *_quick(c)) for c in self.recipe.competitors.values()]
        for name, word in self.typed.items():
            if any(name in one for one in own):
                raise ValueError(f"{name} is what {self.recipe.name} compares or chooses: leave out {word}")
            if name not in ("click", "dataset.fold") and len(values(word)) > 1:
                raise ValueError(f"{name} must have one value, got {word}")

    @cached_property
    def grounds(self) -> list[Ground]:
        """The datasets, each once; those of the paper that have the same stand-in share it."""
        found: dict[str, Ground] = {}
        for own in self._named:
            source = own.source(self.choice)
            title = own.title if source is own.paper else str(self.choice)
            before = found.get(source.words)
            named = (*(before.named if before else ()), own.name)
            found[source.words] = Ground(title, words(source.words), named, source.folds)
        same = [ground.title for ground in found.values()]
        return [ground if same.count(ground.title) == 1 else _told_apart(ground) for ground in found.values()]

    @property
    def output(self) -> Path:
        """The folder that runs go to."""
        word = self.typed.get("output_dir", "output_dir=outputs")
        return Path(word.partition("=")[2]).expanduser()

    @property
    def own_data(self) -> bool:
        """Whether all data are those of the paper."""
        return all(own.source(self.choice) is own.paper for own in self._named)

    @cached_property
    def _named(self) -> list[Data]:
        """The datasets of the paper; where one of these was typed, that alone."""
        known = [data(name) for name in self.recipe.data]
        return [own for own in known if own.choice == self.choice] or known

    def final(self, chosen: Mapping[Place, Words] | None = None) -> Iterator[Trial]:
        """What is reported: at scale=quick with the settings of the recipe, at scale=paper with those `chosen`."""
        for place, shared in self._places():
            competitor = self.recipe.competitors[place.competitor]
            settings = (
                words(competitor.settled(place.click)) if self.scale == "quick" else (chosen or {}).get(place, {})
            )
            yield self._trial(place, competitor, settings, shared)

    def candidates(self) -> Iterator[Trial]:
        """What settings are chosen from, at scale=paper; none at scale=quick."""
        for place, shared in self._places() if self.scale == "paper" else ():
            competitor = self.recipe.competitors[place.competitor]
            for settings in expand(words(competitor.grid)) if competitor.grid else ():
                yield self._trial(place, competitor, settings, shared | words(self.recipe.choose))

    def _places(self) -> Iterator[tuple[Place, Words]]:
        """Every place with the words that its runs share, one click model each."""
        for ground in self.grounds if self.recipe.competitors else ():
            shared = self.shared(ground)
            for word in values(shared["click"]):
                for competitor in self.recipe.competitors:
                    yield Place(ground.title, word.partition("=")[2], competitor), shared | {"click": word}

    def shared(self, ground: Ground) -> Words:
        """The words that all runs on a ground share."""
        recipe, own = self.recipe, dict(ground.words)
        if recipe.queries is not None:
            own |= words([f"dataset.queries{'.train' if self.choice == STAND_IN else ''}={recipe.queries}"])
        if self.scale == "paper" and ground.folds:
            own |= words([f"dataset.fold={','.join(map(str, range(1, ground.folds + 1)))}"])
        return _within(own | words(recipe.words, recipe.scale[self.scale]) | self.typed)

    def _trial(self, place: Place, competitor: Competitor, settings: Words, shared: Words) -> Trial:
        runs = expand(shared | words(competitor.words) | settings)
        return Trial(place, settings, tuple(tuple(run.values()) for run in runs))


def _within(found: Words) -> Words:
    """Without the rounds in `block_rounds` that a run has not, where fewer rounds were typed than the recipe has."""
    rounds = found.get("rounds", "").partition("=")[2]
    listed = re.findall(r"\d+", found.get("block_rounds", ""))
    if not listed or not rounds.isdecimal():
        return found
    kept = ",".join(round for round in listed if int(round) <= int(rounds))
    return found | {"block_rounds": f"block_rounds=[{kept}]"}


def _quick(competitor: Competitor) -> list[str]:
    return [competitor.quick] if isinstance(competitor.quick, str) else list(competitor.quick.values())


def _told_apart(ground: Ground) -> Ground:
    """One of several grounds of the same dataset, with the words that make it another in its name."""
    more = " ".join(word.removeprefix("dataset.") for name, word in ground.words.items() if name != "dataset")
    return Ground(f"{ground.title}, {more}", ground.words, ground.named, ground.folds)
