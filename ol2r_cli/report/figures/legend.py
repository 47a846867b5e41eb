"""Names of groups in figures, as in the papers, and the style and the panel of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.names import ROUNDING, Labels, part_of, several
from ol2r_cli.report.run_groups import Group

Panel = tuple[str, ...]
Item = TypeVar("Item")
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
_SYMBOLS = {  # the papers' letter for a setting
    "ranker.l2": "λ",
    "ranker.learning_rate": "η",
    "ranker.members": "N",
    "ranker.label_noise_variance": "ν²",
    "ranker.model.width": "m",
    "exploration.alpha": "α",
    "exploration.epsilon": "ε",
    "fairness.epsilon": "ε",
    "rounds": "T",
    "positions": "k",
}


def dataset_name(dataset: str) -> str:
    """A dataset such as MSLR-WEB10K."""
    return _DATASETS.get(dataset, dataset)


def symbol(setting: str) -> str:
    """The papers' letter for a setting, by its dotted name; without one, its last word."""
    return _SYMBOLS.get(setting) or setting.rpartition(".")[2].replace("_", " ")


class Legend:
    """Names, styles and panels of some groups; one panel for each dataset and click model.

    A name has settings only where a panel has several groups of one ranker. So the PairRanks that validation chose for
    two click models are both called PairRank. Settings of dataset and click model are in the title of the panel.
    names: of all groups; those with the same name have the same style. styles: by name, in the order of the legend.
    """

    def __init__(self, groups: Sequence[Group], labels: Labels):
        self._labels = labels
        self._several = several(groups, ("ranker/model", "exploration"))
        self.panels: dict[Panel, list[Group]] = {}
        for group in sorted(groups, key=self._panel_key):
            own = self._settings(group, of_panel=True).items()
            differing = (f"{symbol(name)}={as_typed(value)}" for name, value in own)
            panel = (group.choices["dataset"], group.choices["click"], *differing)
            self.panels.setdefault(panel, []).append(group)
        rankers: dict[str, list[Group]] = {}
        for group in sorted(groups, key=self._ranker_key):
            rankers.setdefault(self._ranker(group), []).append(group)
        self.names: dict[Group, str] = {}
        self.styles: dict[str, Style] = {}
        for ranker, members in rankers.items():
            settings_of = {group: self._settings(group, of_panel=False) for group in members}
            shown = distinguishing_settings(
                [
                    [{n: as_typed(v) for n, v in settings_of[group].items()} for group in panel if group in settings_of]
                    for panel in self.panels.values()
                ]
            )
            short = {name: symbol(name) for name in shown}
            short = {name: each if [*short.values()].count(each) == 1 else name for name, each in short.items()}
            for group, settings in settings_of.items():
                words = [f"{short[name]}={_value(settings[name])}" for name in shown if name in settings]
                self.names[group] = labels.called.get(group) or " ".join([ranker, *words])
            model, fairness = members[0].choices.get("ranker/model", "linear"), _fairness(members[0])
            neural = ("ranker/model", members[0].choices["ranker"]) in self._several and model != "linear"
            base = ranker_style(members[0].choices["ranker"], fairness, neural)
            names = dict.fromkeys(map(self.names.__getitem__, members))
            self.styles.update(zip(names, variants(base, len(names)), strict=True))

    def style(self, group: Group) -> Style:
        """The style of a group."""
        return self.styles[self.names[group]]

    def title(self, panel: Panel) -> str:
        """The title of a panel: dataset, click model, and the settings in which they differ."""
        return ", ".join([dataset_name(panel[0]), panel[1].replace("_", " "), *panel[2:]])

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

    @property
    def shares_rows(self) -> bool:
        """Whether a row of panels has one dataset, so that its panels can share the y axis."""
        return len({panel[:1] + panel[2:] for panel in self.panels}) < len(self.panels) or len(self.panels) == 1

    def _settings(self, group: Group, of_panel: bool) -> dict[str, Any]:
        """The settings that distinguish a group, either those of dataset and click model or the others.

        Without those that only repeat a choice, and without precision and engine.
        """
        return {
            name: value
            for name, value in self._labels.settings(group).items()
            if not (name.endswith("._target_") or name in ROUNDING) and _is_of_panel(name) == of_panel
        }

    def _ranker(self, group: Group) -> str:
        """The ranker as in the papers, with its model and exploration where the figure has several of them."""
        ranker, fairness = group.choices["ranker"], _fairness(group)
        model, exploration = (
            group.choices.get(part, "") if (part, ranker) in self._several else ""
            for part in ("ranker/model", "exploration")
        )
        name = _MODELS.get(model, f"{{}} ({model})").format(RANKERS[ranker][0] if ranker in RANKERS else ranker)
        name += f", {exploration.replace('_', ' ')}" if exploration else ""
        pattern = "{}" if fairness == "none" else _FAIRNESS.get(fairness, (f"{{}} with {fairness}",))[0]
        return pattern.format(name)

    def _panel_key(self, group: Group) -> tuple[Any, ...]:
        """Dataset and click model, then the ranker in the order of `RANKERS`, then settings."""
        dataset, click = group.choices["dataset"], group.choices["click"]
        settings = self._labels.sort_key(group, _is_of_panel)
        return (dataset, settings, [*_CLICKS, click].index(click), click, *self._ranker_key(group))

    def _ranker_key(self, group: Group) -> tuple[Any, ...]:
        choices = [group.choices.get(part, "") for part in ("ranker", "ranker/model", "exploration")]
        rank, fairness = [*RANKERS, choices[0]].index(choices[0]), _fairness(group)
        settings = self._labels.sort_key(group, lambda name: not _is_of_panel(name))
        return (rank, choices, fairness != "none", fairness, settings)


def _fairness(group: Group) -> str:
    return group.choices.get("fairness", "none")


def _is_of_panel(setting: str) -> bool:
    """A panel shows one dataset and click model."""
    return part_of(setting) in ("dataset", "click")


def _value(value: object) -> str:
    """A value in a figure: 0.0001, not 1e-04; text as it is typed."""
    return f"{value:.6g}" if isinstance(value, float) else as_typed(value)


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
