"""Names of groups in tables and figures, their styles and panels, and the tasks in which they are compared.

`Labels` names groups by the choices and settings in which they differ, with the words of `ol2r run`; `Legend` names
them as the papers do, with as few settings as distinguish them within a panel.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.finished_run import CODE, IGNORED, RECORDING, default_settings
from ol2r_cli.report.measures import METRICS
from ol2r_cli.report.run_groups import FINGERPRINT, Group, is_typed

PARTS = ("dataset", "click", "intent", "ranker", "ranker/model", "exploration", "fairness")
_NO_OVERRIDES = (FINGERPRINT, "results_version", CODE)  # settings, or how their names end
_ROUNDING = ("device.dtype", "device.engine")
_PANEL_PARTS = ("dataset", "click")  # a panel shows one choice of each
Panel = tuple[str, ...]
Item = TypeVar("Item")


class Labels:
    """Names that distinguish all of the given groups.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, a setting of the run
    (`rounds`) among all groups. A setting of the exploration that only follows the ranker's setting of the same name is
    left out. `called` are fixed names for figures, which otherwise derive the shortest name from the settings.
    """

    def __init__(self, groups: Sequence[Group], called: Mapping[Group, str] | None = None):
        self.called = called or {}
        names = dict.fromkeys(name for group in groups for name in group.settings)
        parts = (*PARTS, "")
        self._column = {n: column for column, n in enumerate(sorted(names, key=lambda n: parts.index(part_of(n))))}
        self._differing = {
            (part, choice): _differing(alike, part)
            for part in parts
            for choice, alike in _by_choice(groups, part).items()
        }
        self._several = _several(groups, ("ranker/model", "exploration", "fairness"))
        self._short = _short_names({name for group in groups for name in self.settings(group)})
        self._taken = Counter(map(self._brief, groups))

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that distinguish this group from others with the same choices, by dotted name."""
        differing = {n for part in (*PARTS, "") for n in self._differing[part, group.choices.get(part, "")]}
        typed = _typed(group)
        names = [n for n in differing & group.settings.keys() if n in typed or not _follows(group, n)]
        return {name: group.settings[name] for name in sorted(names, key=self._column.__getitem__)}

    def ranker(self, group: Group) -> str:
        """The ranker; with its model, exploration and fairness where the ranker occurs with several."""
        ranker = group.choices["ranker"]
        parts = [part for part in PARTS if (part, ranker) in self._several]
        return " ".join([ranker, *(f"{part}={group.choices.get(part, '')}" for part in parts)])

    def short(self, group: Group) -> str:
        """Its settings as `l2=0.01 alpha=0.1`; with the part where the short name is ambiguous.

        Without defaults that no run typed, unless another group with these choices then looks the same.
        """
        brief = self._brief(group)
        return brief[-1] if self._taken[brief] < 2 else self._text(self.settings(group))

    def _brief(self, group: Group) -> tuple[Any, ...]:
        """The choices and the short settings of a group."""
        typed, defaults = _typed(group), default_settings(group.choices, group.settings)
        settings = self.settings(group).items()
        shown = {name: value for name, value in settings if name in typed or defaults.get(name, ...) != value}
        return *sorted(group.choices.items()), self._text(shown)

    def _text(self, settings: Mapping[str, Any]) -> str:
        return " ".join(f"{self._short[name]}={as_typed(value)}" for name, value in settings.items())

    def words(self, group: Group) -> dict[str, str]:
        """Its choices, and the settings that distinguish it, as they are typed."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        return choices | {name: as_typed(value) for name, value in self.settings(group).items()}

    def overrides(self, group: Group) -> str:
        """Choices and settings as overrides for `ol2r run`, quoted for a shell."""
        absent = [(part, "none") for part in ("fairness", "intent")]
        words = [word for word in self.words(group).items() if word not in absent]
        return shlex.join(f"{name}={value}" for name, value in words if not name.endswith(_NO_OVERRIDES))

    def sort_key(self, group: Group, counts: Callable[[str], bool]) -> list[Any]:
        """A key from the settings for which `counts` is true, in the order of the columns; numbers by size."""
        settings = self.settings(group).items()
        return [(self._column[name], _sortable(value)) for name, value in settings if counts(name)]

    def ordered(self, groups: Iterable[Group], metrics: Sequence[str] = ()) -> list[Group]:
        """Groups by dataset, click model and task; then the best first by the first metric if it is NDCG, or by name.

        Without metrics it is that of `METRICS`.
        """
        metric = (*metrics, METRICS[0])[0]

        def key(group: Group) -> tuple[object, ...]:
            estimate = group.estimate(metric) if "ndcg" in metric else None
            task = self.sort_key(group, defines_task)
            other_settings = self.sort_key(group, lambda name: not defines_task(name))
            mean = (estimate is None, -estimate.mean if estimate else 0)
            return (group.choices["dataset"], group.choices["click"], task, *mean, self.ranker(group), other_settings)

        return sorted(groups, key=key)


@cache
def part_of(setting: str) -> str:
    """The part of a setting, `ranker/model` for ranker.model.width; empty for a setting of the run."""
    parts = [part for part in PARTS if setting.startswith(f"{part.replace('/', '.')}.")]
    return max(parts, key=len, default="")


def _by_choice(groups: Iterable[Group], part: str) -> dict[str, list[Group]]:
    members: dict[str, list[Group]] = {}
    for group in groups:
        members.setdefault(group.choices.get(part, ""), []).append(group)
    return members


def _several(groups: Iterable[Group], parts: Sequence[str]) -> set[tuple[str, str]]:
    """(part, ranker) where a ranker occurs with several choices of a part."""
    by_ranker = _by_choice(groups, "ranker").items()
    return {(part, ranker) for part in parts for ranker, alike in by_ranker if len(_by_choice(alike, part)) > 1}


def _differing(alike: Sequence[Group], part: str) -> frozenset[str]:
    """Settings of a part that differ among these groups, or that some of them lack."""
    names = {name for group in alike for name in group.settings if part_of(name) == part}
    texts = {name: {as_typed(g.settings[name]) if name in g.settings else "" for g in alike} for name in names}
    return frozenset(name for name, several in texts.items() if len(several) > 1)


def _typed(group: Group) -> set[str]:
    return {name for run in group.runs for name in run.typed}


def _follows(group: Group, name: str) -> bool:
    """Whether a setting of the exploration equals the ranker's of the same name."""
    part, _, rest = name.partition(".")
    return part == "exploration" and group.settings.get(f"ranker.{rest}", ...) == group.settings[name]


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Names without their part, unless two settings, or one of the run, would have the same short name."""
    short = {name: name.partition(".")[2] if part_of(name) else name for name in names}
    taken = [*short.values(), *IGNORED]
    return {name: name if part_of(name) and taken.count(brief) > 1 else brief for name, brief in short.items()}


def _sortable(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, int | float)
    return (0, value, "") if number else (1, 0, as_typed(value))


def defines_task(setting: str) -> bool:
    """Whether different values of a setting are different tasks, instead of competitors in one task.

    What is recorded makes no other task, and how numbers are rounded does not either.
    """
    return setting not in {*RECORDING, *_ROUNDING} and part_of(setting) in ("dataset", "click", "intent", "")


def tasks(groups: Iterable[Group]) -> list[list[Group]]:
    """The groups of each task, in the given order. A task is a dataset, a click model and settings of the run."""
    members: dict[str, list[Group]] = {}
    for group in groups:
        settings = {name: value for name, value in group.settings.items() if defines_task(name)}
        choices = [group.choices.get(part, "none") for part in ("dataset", "click", "intent")]
        key = json.dumps([choices, settings], sort_keys=True, default=str)
        members.setdefault(key, []).append(group)
    return list(members.values())


def task_name(group: Group, labels: Labels) -> str:
    """The task of a group as overrides, as far as tasks differ: dataset=mq2008 click=perfect rounds=500."""
    words = labels.words(group)
    names = [n for n in words if n in ("dataset", "click", "intent") or (n not in PARTS and defines_task(n))]
    return " ".join(f"{name}={words[name]}" for name in names if (name, words[name]) != ("intent", "none"))


def find_baseline(words: str, task: Sequence[Group], labels: Labels) -> Group | None:
    """The only group of a task that matches `words`; None where no group does; ValueError where several do.

    words: the name of a ranker, or choices and settings (`ranker=pairrank ranker.l2=0.1`), separated by spaces.
    """
    wanted = dict((word if "=" in word else f"ranker={word}").split("=", 1) for word in words.split())
    matching = [group for group in task if all(_matches(group, name, value) for name, value in wanted.items())]
    if len(matching) > 1:
        first, *others = map(labels.words, matching)
        distinguishing = (f"{n}={value}" for n, value in first.items() if any(o.get(n) != value for o in others))
        raise ValueError(
            f"--baseline must match one row of each task, got {words}, which matches {len(matching)} with "
            f"{task_name(matching[0], labels)}: add what distinguishes them, such as "
            f"--baseline '{words} {next(distinguishing, '')}'"
        )
    return matching[0] if matching else None


def _matches(group: Group, name: str, typed: str) -> bool:
    if name in PARTS:
        return group.choices.get(name) == typed
    return name in group.settings and is_typed(group.settings[name], typed)


Dash = str | tuple[int, tuple[float, ...]]
SOLID: Dash = "-"
DASHED: Dash = (0, (4, 1.5))
DOTTED: Dash = (0, (1, 1.2))
DASH_DOT: Dash = (0, (5, 1.3, 1, 1.3))
LONG: Dash = (0, (8, 1.5))
BOTH: Dash = (0, (3, 1.2, 1, 1.2, 1, 1.2))
INK = "#1a1a1b"  # text, axes and skylines


@dataclass(frozen=True)
class Style:
    """Colour, dash and marker of a curve; `hollow` markers are not filled."""

    colour: str
    dash: Dash
    marker: str
    hollow: bool = False


# The name of each ranker in the papers, in the order of a legend, and its style in all figures. Colours are those of
# Okabe and Ito (2008) and of Paul Tol's muted scheme, for colour-blind readers. There are more rankers than such
# colours: rankers of similar colours differ in dash and marker, and rankers that papers show together in colour.
RANKERS = {
    "pairrank": ("PairRank", Style("#0072b2", SOLID, "o")),
    "pepairrank": ("P²LinRank", Style("#44aa99", LONG, "d")),
    "olranknet": ("olRankNet", Style("#d55e00", SOLID, "s")),
    "ollambdarank": ("olLambdaRank", Style("#e69f00", LONG, "^")),
    "p2neurrank": ("P²NeurRank", Style("#009e73", SOLID, "D")),
    "pdgd": ("PDGD", Style("#cc79a7", DASHED, "v")),
    "dbgd": ("DBGD", Style("#7a7a7c", DOTTED, "X")),
    "mgd": ("MGD", Style("#882255", DASH_DOT, "P")),
    "nsgd": ("NSGD", Style("#661100", DASHED, "8")),
    "coltr": ("COLTR", Style("#6699cc", DASH_DOT, "<")),
    "intervention_aware": ("intervention-aware", Style("#aa4499", DASHED, "X")),
    "epsilon_greedy": ("ε-Greedy", Style("#999933", BOTH, ">")),
    "sgd_ranknet": ("SGD RankNet", Style("#332288", DASHED, "<")),
    "toprank": ("TopRank", Style("#117733", DASH_DOT, "h")),
    "cascade_ucb1": ("CascadeUCB1", Style("#2ecee9", DASHED, ">")),
    "cascade_kl_ucb": ("CascadeKL-UCB", Style("#186ceb", LONG, "<")),
    "cascade_linucb": ("CascadeLinUCB", Style("#7adf8c", DASH_DOT, "v")),
    "cascade_lints": ("CascadeLinTS", Style("#0401ea", BOTH, "^")),
    "ips_regression": ("IPS regression", Style("#aa5500", LONG, "p")),
    "offline_ranknet": ("offline RankNet", Style(INK, DASHED, "D")),
    "offline_network": ("offline network", Style(INK, DASH_DOT, "8")),
    "offline_lambdamart": ("offline LambdaMART", Style(INK, DOTTED, "P")),
    "ollambdarank_gt": ("olLambdaRank GT", Style(INK, LONG, "*")),
    "oracle": ("oracle", Style(INK, SOLID, "H")),
    "random": ("random", Style("#a9a9ab", BOTH, ".")),
}
_OTHER_COLOURS = ("#332288", "#44aa99", "#117733", "#999933", "#882255", "#aa4499", "#cc6677", "#6699cc")
_OTHER_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h")
_OTHER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "p", "h")
_DATASETS = {
    "mq2007": "MQ2007",
    "mq2008": "MQ2008",
    "mslr_web10k": "MSLR-WEB10K",
    "mslr_web30k": "MSLR-WEB30K",
    "yahoo": "Yahoo",
    "istella_s": "Istella-S",
    "letor": "LETOR",
}
_CLICKS = ("perfect", "navigational", "informational")  # in the order of the papers
_FAIRNESS = {"fairexp": ("FairExp-{}", DASHED), "fairco": ("FairCo", DASH_DOT), "mcfair": ("MCFair-{}", DOTTED)}
_MODELS = {"": "{}", "linear": "Linear-{}", "mlp": "Neural-{}"}
_SYMBOLS = {  # the papers' letter for a setting, and the label of an axis
    "ranker.l2": ("λ", "regularisation λ"),
    "ranker.learning_rate": ("η", "learning rate η"),
    "ranker.members": ("N", "number of rankers N"),
    "ranker.label_noise_variance": ("ν²", "noise variance ν²"),
    "ranker.model.width": ("m", "width of the network m"),
    "exploration.alpha": ("α", "exploration α"),
    "exploration.epsilon": ("ε", "ε"),
    "fairness.epsilon": ("ε", "tolerated unfairness ε"),
    "rounds": ("T", "rounds T"),
    "positions": ("k", "places shown k"),
}


def dataset_name(dataset: str) -> str:
    """A dataset such as MSLR-WEB10K."""
    return _DATASETS.get(dataset, dataset)


def symbol(setting: str) -> str:
    """The papers' letter for a setting, by its dotted name; without one, its last word."""
    return _SYMBOLS[setting][0] if setting in _SYMBOLS else setting.rpartition(".")[2].replace("_", " ")


def axis_name(setting: str) -> str:
    """The label of an axis of a setting."""
    return _SYMBOLS[setting][1] if setting in _SYMBOLS else symbol(setting)


def value_name(value: object) -> str:
    """A value in a figure: 0.0001, not 1e-04; text as it is typed."""
    return f"{value:.6g}" if isinstance(value, float) else as_typed(value)


class Legend:
    """Names, styles and panels of some groups; one panel for each dataset and click model.

    A name has settings only where a panel has several groups of one ranker. So the PairRanks that validation chose for
    two click models are both called PairRank. Settings of dataset and click model are in the title of the panel.
    Settings in `without` are never named: groups that differ in them only have the same name and style. styles: of all
    names, in the order of the legend.
    """

    def __init__(self, groups: Sequence[Group], labels: Labels, without: Collection[str] = ()):
        self._labels, self._without = labels, frozenset(without)
        self._several = _several(groups, ("ranker/model", "exploration"))
        self.panels: dict[Panel, list[Group]] = {}
        for group in sorted(groups, key=self._sort_key):
            self.panels.setdefault(self._panel(group), []).append(group)
        shown: dict[str, list[str]] = {}
        for ranker in dict.fromkeys(map(self.ranker, groups)):
            shown[ranker] = distinguishing_settings(
                [
                    [{n: as_typed(v) for n, v in self.settings(g).items()} for g in members if self.ranker(g) == ranker]
                    for members in self.panels.values()
                ]
            )
        self._names = {g: labels.called.get(g) or self._with_settings(g, shown[self.ranker(g)]) for g in groups}
        self.styles: dict[str, Style] = {}
        for ranker in dict.fromkeys(map(self.ranker, ordered := sorted(groups, key=self._ranker_key))):
            members = {self.label(group): group for group in ordered if self.ranker(group) == ranker}
            base = self._ranker_style(next(iter(members.values())))
            self.styles.update(zip(members, variants(base, len(members)), strict=True))

    def label(self, group: Group) -> str:
        """The name of a group, such as PairRank, or olRankNet λ=0.1 α=0.01."""
        return self._names[group]

    def style(self, group: Group) -> Style:
        """The style of a group; groups with the same label have the same style."""
        return self.styles[self.label(group)]

    def ranker(self, group: Group) -> str:
        """The ranker as in the papers, with its model and exploration where the figure has several of them."""
        ranker, fairness = group.choices["ranker"], group.choices.get("fairness", "none")
        model, exploration = (
            group.choices.get(part, "") if (part, ranker) in self._several else ""
            for part in ("ranker/model", "exploration")
        )
        name = RANKERS[ranker][0] if ranker in RANKERS else ranker
        name = _MODELS.get(model, f"{{}} ({model})").format(name)
        name += f", {exploration.replace('_', ' ')}" if exploration else ""
        pattern = "{}" if fairness == "none" else _FAIRNESS.get(fairness, (f"{{}} with {fairness}",))[0]
        return pattern.format(name)

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that distinguish a group from others, without those of dataset and click model."""
        settings = self._labels.settings(group).items()
        return {n: v for n, v in settings if _is_informative(n, of_panel=False) and n not in self._without}

    def varying(self) -> list[str]:
        """The settings in which groups of one panel and one ranker differ."""
        names: dict[str, None] = {}
        for members in self.panels.values():
            for ranker in dict.fromkeys(map(self.ranker, members)):
                several = [self.settings(group) for group in members if self.ranker(group) == ranker]
                known = dict.fromkeys(name for settings in several for name in settings)
                names |= {n: None for n in known if len({as_typed(settings.get(n)) for settings in several}) > 1}
        return list(names)

    def title(self, panel: Panel) -> str:
        """The title of a panel: dataset, click model, and the settings in which they differ."""
        dataset, click, *settings = panel
        return ", ".join([dataset_name(dataset), click.replace("_", " "), *settings])

    @property
    def shares_rows(self) -> bool:
        """Whether a row of panels has one dataset, so that its panels can share the y axis."""
        return len({panel[:1] + panel[2:] for panel in self.panels}) < len(self.panels) or len(self.panels) == 1

    def rows(self, columns: int) -> list[list[Panel]]:
        """The panels in rows of at most `columns`; each dataset begins a row."""
        datasets: dict[Panel, list[Panel]] = {}
        for panel in self.panels:
            datasets.setdefault(panel[:1] + panel[2:] if self.shares_rows else (), []).append(panel)
        return [
            row
            for panels in datasets.values()
            for row in in_rows(panels, 2 if columns > 2 and len(panels) == 4 else columns)
        ]

    def _panel(self, group: Group) -> Panel:
        settings = self._labels.settings(group).items()
        differing = (f"{symbol(n)}={as_typed(v)}" for n, v in settings if _is_informative(n, of_panel=True))
        return (group.choices["dataset"], group.choices["click"], *differing)

    def _sort_key(self, group: Group) -> tuple[Any, ...]:
        """Dataset and click model, then the ranker in the order of `RANKERS`, then settings."""
        panel_settings = self._labels.sort_key(group, lambda name: part_of(name) in _PANEL_PARTS)
        click = group.choices["click"]
        rank = [*_CLICKS, click].index(click)
        return (group.choices["dataset"], panel_settings, rank, click, *self._ranker_key(group))

    def _ranker_key(self, group: Group) -> tuple[Any, ...]:
        choices = [group.choices.get(part, "") for part in ("ranker", "ranker/model", "exploration")]
        rank = [*RANKERS, choices[0]].index(choices[0])
        fairness = group.choices.get("fairness", "none")
        settings = self._labels.sort_key(group, lambda name: part_of(name) not in _PANEL_PARTS)
        return (rank, choices, fairness != "none", fairness, settings)

    def _with_settings(self, group: Group, shown: Sequence[str]) -> str:
        settings, symbols = self.settings(group), [symbol(name) for name in shown]
        parts = [
            f"{short if symbols.count(short) == 1 else name}={value_name(settings[name])}"
            for name, short in zip(shown, symbols, strict=True)
            if name in settings
        ]
        return " ".join([self.ranker(group), *parts])

    def _ranker_style(self, group: Group) -> Style:
        """A ranker that the figure shows as a network and as a linear ranker is darker as a network."""
        ranker, fairness = group.choices["ranker"], group.choices.get("fairness", "none")
        neural = ("ranker/model", ranker) in self._several and group.choices.get("ranker/model", "linear") != "linear"
        return ranker_style(ranker, fairness, neural)


def _is_informative(setting: str, of_panel: bool) -> bool:
    """False for a setting that only repeats a choice, for the precision and the engine, and for another place."""
    repeats = setting.endswith("._target_") or setting in _ROUNDING
    return not repeats and (part_of(setting) in _PANEL_PARTS) == of_panel


def in_rows(items: Sequence[Item], columns: int) -> list[list[Item]]:
    """Items in rows of so many columns."""
    return [list(items[first : first + columns]) for first in range(0, len(items), columns)]


def distinguishing_settings(panels: Sequence[Sequence[Mapping[str, str]]]) -> list[str]:
    """A small set of settings that distinguishes the groups of each panel, from their settings as text.

    Greedy: each step adds the setting that separates most groups that are still equal.
    """
    order = [*dict.fromkeys(name for groups in panels for settings in groups for name in settings)]
    remaining, chosen = list(order), list[str]()

    def separated(names: Sequence[str]) -> int:
        return sum(len({tuple(settings.get(name) for name in names) for settings in groups}) for groups in panels)

    while remaining and separated(chosen) < separated([*chosen, *remaining]):
        best = max(remaining, key=lambda name: separated([*chosen, name]))  # of equally good ones the first
        chosen.append(best)
        remaining.remove(best)
    return sorted(chosen, key=order.index)


def ranker_style(ranker: str, fairness: str = "none", neural: bool = False) -> Style:
    """The style of a ranker; one of an extension follows from its name.

    neural: the ranker has a network, and the figure also shows it as a linear ranker: a darker colour.
    """
    if ranker in RANKERS:
        own = RANKERS[ranker][1]
    else:
        colour, dash, marker = hashlib.sha256(ranker.encode()).digest()[:3]
        own = Style(_OTHER_COLOURS[colour % 8], _OTHER_DASHES[dash % 5], _OTHER_MARKERS[marker % 9])
    if neural:
        own = replace(own, colour=shade(own.colour, -0.35), dash=BOTH, hollow=True)
    if fairness != "none":
        own = replace(own, dash=_FAIRNESS.get(fairness, ("", DOTTED))[1], hollow=True)
    return own


def variants(base: Style, count: int) -> list[Style]:
    """Styles for several settings of one ranker: its colour from dark to light, and markers in a fixed order."""
    if count == 1:
        return [base]
    first = _MARKERS.index(base.marker) if base.marker in _MARKERS else 0
    dashes = list(dict.fromkeys([base.dash, *_OTHER_DASHES]))
    return [
        replace(
            base,
            colour=shade(base.colour, -0.5 + 1.05 * number / (count - 1)),
            marker=_MARKERS[(first + number) % len(_MARKERS)],
            dash=dashes[number % len(dashes)],
        )
        for number in range(count)
    ]


def shade(colour: str, step: float) -> str:
    """A colour mixed with black (step -1 is black) or with white (step 1 is white)."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [part * (1 + step) if step < 0 else part + (255 - part) * step for part in parts]
    return "#" + "".join(f"{round(part):02x}" for part in mixed)
