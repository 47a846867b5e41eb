"""What groups are called in figures, as in the papers, and their styles, which are the same in every figure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.names import NAMED_PARTS, ROUNDING, Labels, click_order, part_of
from ol2r_cli.report.run_groups import Group

Dash = str | tuple[int, tuple[float, ...]]
SOLID: Dash = "-"
DASHED: Dash = (0, (4, 1.5))
DOTTED: Dash = (0, (1, 1.2))
DASH_DOT: Dash = (0, (5, 1.3, 1, 1.3))
LONG: Dash = (0, (8, 1.5))
BOTH: Dash = (0, (3, 1.2, 1, 1.2, 1, 1.2))
INK = "#1a1a1b"  # text, axes and skylines


class Style(NamedTuple):
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
    "pepairrank": ("P2LinRank", Style("#44aa99", LONG, "d")),
    "olranknet": ("olRankNet", Style("#d55e00", SOLID, "s")),
    "ollambdarank": ("olLambdaRank", Style("#e69f00", LONG, "^")),
    "p2neurrank": ("P2NeurRank", Style("#009e73", SOLID, "D")),
    "pdgd": ("PDGD", Style("#cc79a7", DASHED, "v")),
    "dbgd": ("DBGD", Style("#7a7a7c", DOTTED, "X")),
    "mgd": ("MGD", Style("#882255", DASH_DOT, "P")),
    "nsgd": ("NSGD", Style("#661100", DASHED, "8")),
    "coltr": ("COLTR", Style("#6699cc", DASH_DOT, "<")),
    "intervention_aware": ("intervention-aware", Style("#aa4499", DASHED, "X")),
    "epsilon_greedy": ("ε-Greedy", Style("#999933", BOTH, ">")),
    "sgd_ranknet": ("SGD RankNet", Style("#332288", DASHED, "<")),
    "toprank": ("TopRank", Style("#117733", DASH_DOT, "h")),
    "batchrank": ("BatchRank", Style("#0f8554", DOTTED, "H")),
    "cascade_ucb1": ("CascadeUCB1", Style("#2ecee9", DASHED, ">")),
    "cascade_kl_ucb": ("CascadeKL-UCB", Style("#186ceb", LONG, "<")),
    "cascade_ducb": ("CascadeDUCB", Style("#1f235b", DOTTED, "d")),
    "cascade_swucb": ("CascadeSWUCB", Style("#2226c1", SOLID, "p")),
    "cascade_linucb": ("CascadeLinUCB", Style("#7adf8c", DASH_DOT, "v")),
    "cascade_lints": ("CascadeLinTS", Style("#0401ea", BOTH, "^")),
    "ips_regression": ("IPS regression", Style("#aa5500", LONG, "p")),
    "offline_ranknet": ("offline RankNet", Style(INK, DASHED, "D")),
    "offline_network": ("offline network", Style(INK, DASH_DOT, "8")),
    "offline_lambdamart": ("offline LambdaMART", Style(INK, DOTTED, "P")),
    "ollambdarank_gt": ("olLambdaRank GT", Style(INK, LONG, "*")),
    "oracle": ("oracle", Style(INK, SOLID, "H")),
    "random": ("random", Style("#a9a9ab", BOTH, ".")),
    # models of `ol2r recommend`, which no figure shows together with rankers
    "fact": ("FacT", Style("#d55e00", DASHED, "o")),
    "mter": ("MTER", Style("#0072b2", DOTTED, "s")),
    "bprmf": ("BPRMF", Style("#009e73", DASHED, "^")),
    "efm": ("EFM", Style("#cc79a7", SOLID, "D")),
    "nmf": ("NMF", Style("#e69f00", SOLID, "v")),
    "fmf": ("FMF", Style("#332288", SOLID, "P")),
    "most_popular": ("MostPopular", Style("#7a7a7c", DASH_DOT, "p")),
}
_OTHER_COLOURS = ("#332288", "#44aa99", "#117733", "#999933", "#882255", "#aa4499", "#cc6677", "#6699cc")
_OTHER_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h")
_OTHER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "p", "h")
_DATASETS = {
    "amazon_cellphones": "Amazon",
    "mq2007": "MQ2007",
    "mq2008": "MQ2008",
    "mslr_web10k": "MSLR-WEB10K",
    "mslr_web30k": "MSLR-WEB30K",
    "yahoo": "Yahoo",
    "istella_s": "Istella-S",
    "letor": "LETOR",
    "clueweb09": "ClueWeb09",
    "synthetic": "generated data",
}
_FAIRNESS = {"fairexp": ("FairExp", DASHED), "fairco": ("FairCo", DASH_DOT), "mcfair": ("MCFair", DOTTED)}
_FAIRCO = ("ips_regression", "fairco")  # the ranker and the fairness that its paper calls FairCo
_MODELS = {"linear": "Linear", "mlp": "Neural"}
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


def paper_name(ranker: str, parts: Mapping[str, str]) -> str:
    """A ranker as in the papers, such as Neural-PDGD; `parts` are those that do not come with it: `Labels.parts`."""
    model, exploration, fairness = (parts.get(part, "") for part in NAMED_PARTS)
    name = RANKERS[ranker][0] if ranker in RANKERS else ranker
    if (ranker, fairness) == _FAIRCO:
        name, fairness = "FairCo", ""
    if model:
        name = f"{_MODELS[model]}-{name}" if model in _MODELS else f"{name} ({model})"
    if fairness:
        name = f"{_FAIRNESS[fairness][0]}-{name}" if fairness in _FAIRNESS else f"{name} with {fairness}"
    if exploration == "none":
        return f"{name} without exploration"
    return f"{name}, {exploration.replace('_', ' ')}" if exploration else name


class Panel(NamedTuple):
    """A panel of a figure: groups with the same dataset, users and intents.

    data: the dataset, and what differs. dataset, users: the same in words, the users with their intents.
    """

    data: tuple[str, ...]
    dataset: str
    users: str

    @property
    def title(self) -> str:
        return ", ".join(filter(None, [self.dataset, self.users]))


class Legend:
    """Names, styles and panels of some groups; one panel for each dataset, click model and schedule of intents.

    A name has settings only where a panel has several groups of one ranker. So the PairRanks that validation chose for
    two click models are both called PairRank. Settings of dataset, users and intents are in the title of the panel.
    ValueError for a fixed name that two groups of a panel have, where labels are `one_row_each`.
    panels: each with its groups. names: of all groups; those with the same name have the same style. styles: by name,
    in the order of the legend.
    """

    def __init__(self, groups: Sequence[Group], labels: Labels):
        self.panels: dict[Panel, list[Group]] = {}
        for group in sorted(groups, key=lambda group: (*_panel_key(group, labels), *_ranker_key(group, labels))):
            self.panels.setdefault(_panel(group, labels), []).append(group)
        self.names: dict[Group, str] = {}
        self.styles: dict[str, Style] = {}
        members: dict[str, list[Group]] = {}
        for group in sorted(groups, key=lambda group: _ranker_key(group, labels)):
            name = paper_name(group.choices["ranker"], labels.parts(group))
            members.setdefault(name, []).append(group)
        for name, of_name in members.items():
            self._add(name, of_name, labels)
        if labels.one_row_each:
            self._check_fixed_names(labels)

    def _check_fixed_names(self, labels: Labels) -> None:
        """Raise ValueError if two groups of a panel have a fixed name."""
        for of_panel in self.panels.values():
            count = Counter(self.names[group] for group in of_panel)
            for name in [labels.called[group] for group in of_panel if group in labels.called]:
                if count[name] > 1:
                    raise ValueError(
                        f"--name must give each row of a figure another name, got {name} for {count[name]}: choose "
                        "another name, or add settings to the words, such as 'ranker=pdgd rounds=500=short'"
                    )

    def _add(self, name: str, groups: Sequence[Group], labels: Labels) -> None:
        """Add the names and styles of all groups of one ranker with the same parts."""
        texts = {group: _setting_texts(group, labels) for group in groups}
        shown = distinguishing_settings(
            [[texts[group] for group in of_panel if group in texts] for of_panel in self.panels.values()]
        )
        short = {setting: symbol(setting) for setting in shown}
        count = Counter(short.values())
        words = {setting: text if count[text] == 1 else setting for setting, text in short.items()}
        values: dict[str, list[str]] = {}  # of the shown settings, by name
        for group, of_group in texts.items():
            told = [f"{words[setting]}={of_group[setting]}" for setting in shown if setting in of_group]
            self.names[group] = labels.called.get(group) or " ".join([name, *told])
            values[self.names[group]] = [of_group.get(setting, "") for setting in shown]
        own = ranker_style(groups[0].choices["ranker"], labels.parts(groups[0]))
        fixed = any(group in labels.called for group in groups)
        factors = [[name] for name in values] if fixed else [*values.values()]
        self.styles.update(zip(values, setting_styles(own, factors), strict=True))


def _panel_key(group: Group, labels: Labels) -> tuple[Any, ...]:
    """A key that sorts panels: by dataset, its settings, and then users in the order of the tables."""
    settings = labels.sort_key(group, _is_of_panel)
    return (group.choices["dataset"], settings, click_order(group.choices["click"]), group.choices.get("intent", ""))


def _ranker_key(group: Group, labels: Labels) -> tuple[Any, ...]:
    """A key that sorts names: rankers in the order of `RANKERS`, each first with the parts that come with it."""
    ranker, parts = group.choices["ranker"], labels.parts(group)
    fixed = list(dict.fromkeys(labels.called.values()))  # in the order of the caller
    place = fixed.index(labels.called[group]) if group in labels.called else -1
    settings = labels.sort_key(group, lambda name: not _is_of_panel(name))
    known = [*RANKERS, ranker].index(ranker)
    return (known, ranker, [parts.get(part, "") for part in NAMED_PARTS], place, settings)


def _panel(group: Group, labels: Labels) -> Panel:
    dataset, click, intent = (group.choices.get(part, "none") for part in ("dataset", "click", "intent"))
    told = {name: f"{symbol(name)}={as_typed(value)}" for name, value in labels.told(group).items()}
    of_data = [text for name, text in told.items() if part_of(name) == "dataset"]
    of_users = [text for name, text in told.items() if part_of(name) in ("click", "intent")]
    users = [] if click == "none" else [click.replace("_", " ")]  # fits to reviews have none
    intents = [] if intent == "none" else [f"intent {intent}"]
    return Panel(
        (dataset, *of_data, *of_users),
        ", ".join([dataset_name(dataset), *of_data]),
        ", ".join([*users, *intents, *of_users]),
    )


def _setting_texts(group: Group, labels: Labels) -> dict[str, str]:
    """What a name may have of its settings, as text: not what only repeats a choice, precision and engine last."""
    told = labels.told(group)
    names = [name for name in told if not (_is_of_panel(name) or name.endswith("._target_"))]
    texts = {name: f"{told[name]:.6g}" if isinstance(told[name], float) else as_typed(told[name]) for name in names}
    return {name: texts[name] for name in sorted(names, key=lambda name: name in ROUNDING)}  # 0.0001, not 1e-04


def _is_of_panel(setting: str) -> bool:
    return part_of(setting) in ("dataset", "click", "intent")


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


def ranker_style(ranker: str, parts: Mapping[str, str]) -> Style:
    """The style of a ranker; `parts` are those that do not come with it.

    That of an extension follows from its name. Another model is darker, another exploration lighter; these and a
    fairness have a dash of their own and hollow markers.
    """
    model, exploration, fairness = (parts.get(part, "") for part in NAMED_PARTS)
    style = RANKERS[ranker][1] if ranker in RANKERS else _style_of(ranker)
    if model:
        style = style._replace(colour=shade(style.colour, -0.35), dash=BOTH, hollow=True)
    if exploration:
        other = _style_of(exploration)
        style = Style(shade(style.colour, 0.35), other.dash, other.marker, hollow=True)
    if fairness:
        style = style._replace(dash=_FAIRNESS.get(fairness, ("", DOTTED))[1], hollow=True)
    return style


def _style_of(name: str) -> Style:
    """A style that follows from a name."""
    colour, dash, marker = hashlib.sha256(name.encode()).digest()[:3]
    return Style(_OTHER_COLOURS[colour % 8], _OTHER_DASHES[dash % 5], _OTHER_MARKERS[marker % 9])


def setting_styles(own: Style, values: Sequence[Sequence[str]]) -> list[Style]:
    """The styles of several settings of a ranker, from its own style and the values of each.

    Where one setting varies, each value has another colour, from dark to light, another dash and another marker. Where
    several do, the one with most values is the colour, and the others together are dash and marker.
    """
    if len(values) == 1:
        return [own]
    columns = [list(dict.fromkeys(column)) for column in zip(*values, strict=True)]
    most = max(range(len(columns)), key=lambda column: len(columns[column]))  # of equally many the first
    others = list(dict.fromkeys(_without(row, most) for row in values))
    dashes = list(dict.fromkeys([own.dash, *_OTHER_DASHES]))
    first = _MARKERS.index(own.marker) if own.marker in _MARKERS else 0
    markers = _MARKERS[first:] + _MARKERS[:first]
    styles = []
    for row in values:
        shade_number = columns[most].index(row[most])
        look = others.index(_without(row, most)) if len(others) > 1 else shade_number
        step = -0.5 + 1.05 * shade_number / max(len(columns[most]) - 1, 1)
        styles.append(
            Style(shade(own.colour, step), dashes[look % len(dashes)], markers[look % len(markers)], own.hollow)
        )
    return styles


def _without(row: Sequence[str], column: int) -> tuple[str, ...]:
    return (*row[:column], *row[column + 1 :])


def shade(colour: str, step: float) -> str:
    """A colour mixed with black (step -1 is black) or with white (step 1 is white)."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [part * (1 + step) if step < 0 else part + (255 - part) * step for part in parts]
    return "#" + "".join(f"{round(part):02x}" for part in mixed)
