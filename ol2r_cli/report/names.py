"""What groups are called: in tables by the words of `ol2r run`, in figures and LaTeX by those of the papers.

`Labels` finds the choices and settings in which groups differ, and writes them as they are typed. `Legend` writes the
same ones with the names and letters of the papers, and gives each name its style and each group its panel. A name that
`--name` or a recipe gives stands in place of both.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.plugins import other_kinds
from ol2r_cli.report.finished_run import IGNORED, default_parts, default_settings
from ol2r_cli.report.parts import NAMED_PARTS, PARTS, ROUNDING, TASK_PARTS, click_order, defines_task, part_of
from ol2r_cli.report.run_groups import FINGERPRINT, START_SEED, Group
from ol2r_cli.report.shown_metrics import METRICS
from ol2r_cli.report.styles import (
    BOTH,
    DASH_DOT,
    DASHED,
    DOTTED,
    INK,
    LONG,
    SOLID,
    Dash,
    Style,
    setting_styles,
    shade,
    style_of_name,
)
from ol2r_cli.run.run import CODE, CONTENT

START = "start"  # what tables call start.run
_NO_CHOICES = {"fairness": "none", "intent": "none", "click": "none"}  # words that change nothing
_NOT_TYPED = (FINGERPRINT, START_SEED, "results_version", CODE, CONTENT)  # ends of settings that no command has


class NamedStyle(NamedTuple):
    """The name of a ranker in the papers, and its style in every figure."""

    name: str
    style: Style


class NamedDash(NamedTuple):
    """The name of a fairness in the papers, and the dash of its rankers in every figure."""

    name: str
    dash: Dash


# In the order of a legend. Colours are those of Okabe and Ito (2008) and of Paul Tol's muted scheme, for colour-blind
# readers. There are more rankers than such colours: rankers of similar colours differ in dash and marker, and rankers
# that papers show together in colour.
RANKERS = {
    "pairrank": NamedStyle("PairRank", Style("#0072b2", SOLID, "o")),
    "pepairrank": NamedStyle("P2LinRank", Style("#44aa99", LONG, "d")),
    "olranknet": NamedStyle("olRankNet", Style("#d55e00", SOLID, "s")),
    "ollambdarank": NamedStyle("olLambdaRank", Style("#e69f00", LONG, "^")),
    "p2neurrank": NamedStyle("P2NeurRank", Style("#009e73", SOLID, "D")),
    "pdgd": NamedStyle("PDGD", Style("#cc79a7", DASHED, "v")),
    "dbgd": NamedStyle("DBGD", Style("#7a7a7c", DOTTED, "X")),
    "mgd": NamedStyle("MGD", Style("#882255", DASH_DOT, "P")),
    "nsgd": NamedStyle("NSGD", Style("#661100", DASHED, "8")),
    "coltr": NamedStyle("COLTR", Style("#6699cc", DASH_DOT, "<")),
    "intervention_aware": NamedStyle("intervention-aware", Style("#aa4499", DASHED, "X")),
    "epsilon_greedy": NamedStyle("ε-Greedy", Style("#999933", BOTH, ">")),
    "sgd_ranknet": NamedStyle("SGD RankNet", Style("#332288", DASHED, "<")),
    "toprank": NamedStyle("TopRank", Style("#117733", DASH_DOT, "h")),
    "batchrank": NamedStyle("BatchRank", Style("#0f8554", DOTTED, "H")),
    "cascade_ucb1": NamedStyle("CascadeUCB1", Style("#2ecee9", DASHED, ">")),
    "cascade_kl_ucb": NamedStyle("CascadeKL-UCB", Style("#186ceb", LONG, "<")),
    "cascade_ducb": NamedStyle("CascadeDUCB", Style("#1f235b", DOTTED, "d")),
    "cascade_swucb": NamedStyle("CascadeSWUCB", Style("#2226c1", SOLID, "p")),
    "cascade_linucb": NamedStyle("CascadeLinUCB", Style("#7adf8c", DASH_DOT, "v")),
    "cascade_lints": NamedStyle("CascadeLinTS", Style("#0401ea", BOTH, "^")),
    "ips_regression": NamedStyle("IPS regression", Style("#aa5500", LONG, "p")),
    "offline_ranknet": NamedStyle("offline RankNet", Style(INK, DASHED, "D")),
    "offline_network": NamedStyle("offline network", Style(INK, DASH_DOT, "8")),
    "offline_lambdamart": NamedStyle("offline LambdaMART", Style(INK, DOTTED, "P")),
    "ollambdarank_gt": NamedStyle("olLambdaRank GT", Style(INK, LONG, "*")),
    "oracle": NamedStyle("oracle", Style(INK, SOLID, "H")),
    "random": NamedStyle("random", Style("#a9a9ab", BOTH, ".")),
}
_DATASET_NAMES = {
    "mq2007": "MQ2007",
    "mq2007_part": "MQ2007_part",
    "mq2008": "MQ2008",
    "mslr_web10k": "MSLR-WEB10K",
    "mslr_web30k": "MSLR-WEB30K",
    "yahoo": "Yahoo",
    "istella_s": "Istella-S",
    "ohsumed": "OHSUMED",
    "letor": "LETOR",
    "clueweb09": "ClueWeb09",
    "synthetic": "generated data",
}
_FAIRNESS = {
    "fairexp": NamedDash("FairExp", DASHED),
    "fairco": NamedDash("FairCo", DASH_DOT),
    "mcfair": NamedDash("MCFair", DOTTED),
}
_FAIRCO = ("ips_regression", "fairco")  # the ranker and the fairness that its paper calls FairCo
_MODEL_NAMES = {"linear": "Linear", "mlp": "Neural"}
_SYMBOLS = {  # the papers' letter for a setting
    "ranker.l2": "λ",
    "ranker.learning_rate": "η",
    "ranker.members": "N",
    "ranker.label_noise_variance": "ν²",
    "ranker.model.width": "m",
    "exploration.alpha": "α",
    "exploration.epsilon": "ε",
    "fairness.epsilon": "ε",
    "start.run": START,
    "start.labels": "start labels",
    "start.noise": "start noise",
    "start.seed": "start seed",
    "rounds": "T",
    "positions": "k",
}


def dataset_name(dataset: str) -> str:
    """Return the name of a dataset, such as MSLR-WEB10K."""
    names = [_DATASET_NAMES, *(kind.datasets for kind in other_kinds())]
    return next((known[dataset] for known in names if dataset in known), dataset)


@cache
def known_rankers() -> dict[str, NamedStyle]:
    """Return `RANKERS`, followed by what other kinds of runs have in place of rankers."""
    others = {choice: (name, kind.styles()[choice]) for kind in other_kinds() for choice, name in kind.rankers.items()}
    return RANKERS | {choice: NamedStyle(*named) for choice, named in others.items()}


def symbol(setting: str) -> str:
    """Return the papers' letter for a setting, by its dotted name; without one, its last word."""
    last = setting.rpartition(".")[2]
    return _SYMBOLS.get(setting) or ("class" if last == "_target_" else last.replace("_", " "))


def paper_name(ranker: str, parts: Mapping[str, str], called: str = "") -> str:
    """Return a ranker as in the papers, such as Neural-PDGD; `parts` do not come with it: those of `Labels.parts`.

    called: another name of the ranker.
    """
    model, exploration, fairness = (parts.get(part, "") for part in NAMED_PARTS)
    known = known_rankers()
    name = called or (known[ranker].name if ranker in known else ranker)
    if (ranker, fairness) == _FAIRCO and not called:
        name, fairness = "FairCo", ""
    if model:
        name = f"{_MODEL_NAMES[model]}-{name}" if model in _MODEL_NAMES else f"{name} ({model})"
    if fairness:
        name = f"{_FAIRNESS[fairness].name}-{name}" if fairness in _FAIRNESS else f"{name} with {fairness}"
    if exploration == "none":
        return f"{name} without exploration"
    return f"{name}, {exploration.replace('_', ' ')}" if exploration else name


def ranker_style(ranker: str, parts: Mapping[str, str]) -> Style:
    """Return the style of a ranker; `parts` do not come with it.

    That of an extension follows from its name. Another model is darker, another exploration lighter; these and a
    fairness have a dash of their own and hollow markers.
    """
    known = known_rankers()
    style = known[ranker].style if ranker in known else style_of_name(ranker)
    model, exploration, fairness = (parts.get(part, "") for part in NAMED_PARTS)
    if model:
        style = style._replace(colour=shade(style.colour, -0.35), dash=BOTH, hollow=True)
    if exploration:
        look = style_of_name(exploration)
        style = Style(shade(style.colour, 0.35), look.dash, look.marker, hollow=True)
    if fairness:
        style = style._replace(dash=_FAIRNESS[fairness].dash if fairness in _FAIRNESS else DOTTED, hollow=True)
    return style


class Labels:
    """Names that distinguish all of the given groups by the choices and settings in which they differ.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, a setting of the run
    (`rounds`) among all groups. A setting of the exploration that only follows the ranker's setting of the same name is
    left out. `called` are fixed names, in place of the ranker with its parts; with `one_row_each` each must be the name
    of one row of a panel, as of `--name`, where recipes give one name to all rows of a competitor. `rankers` are other
    names of rankers, by their choice. chosen: the settings that a selection chose, whose numbers differ from task to
    task.

    Of each group: parts: its model, exploration and fairness, as far as they are not those that come with its ranker.
    settings: those that distinguish it from others with the same choices, by dotted name. told: the settings that its
    name has, without defaults that no run typed, and nulls that are defaults. So a default that was typed for one click
    model only is in the names for all of them. They are there where another group with the same choices would look the
    same without them.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        called: Mapping[Group, str] | None = None,
        one_row_each: bool = False,
        rankers: Mapping[str, str] | None = None,
    ):
        self.called = called or {}
        self.rankers = rankers or {}
        self.one_row_each = one_row_each
        self.chosen: Collection[str] = ()
        order = (*PARTS, "")  # the settings of the run last
        names = sorted(
            dict.fromkeys(chain(*(group.settings for group in groups))), key=lambda name: order.index(part_of(name))
        )
        self._column = {name: column for column, name in enumerate(names)}
        self.parts = {group: _named_parts(group, groups) for group in groups}
        self.settings = _differing(groups, names)
        self.told = _with_short_starts(_without_defaults(self.settings))
        self._words = _brief(set().union(*self.settings.values()))

    def after_selection(self, chosen: Collection[str]) -> Labels:
        """Return the same labels, of groups that are what a selection left, which chose these settings."""
        labels = copy(self)
        labels.chosen = chosen
        return labels

    def ranker(self, group: Group) -> str:
        """Return its fixed name; otherwise the ranker, with the parts that do not come with it."""
        parts = [f"{part}={choice}" for part, choice in self.parts[group].items()]
        ranker = group.choices["ranker"]
        return self.called.get(group) or " ".join([self.rankers.get(ranker, ranker), *parts])

    def short(self, group: Group) -> str:
        """Return the settings of `told` as `l2=0.01 alpha=0.1`; with the part where the short name is ambiguous."""
        return " ".join(f"{self._words[name]}={as_typed(value)}" for name, value in self.told[group].items())

    def words(self, group: Group) -> dict[str, str]:
        """Return its choices, and the settings that distinguish it, as they are typed."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        return choices | {name: as_typed(value) for name, value in self.settings[group].items()}

    def overrides(self, group: Group) -> str:
        """Return choices and settings as overrides for the command of its kind, quoted for a shell."""
        overrides: dict[str, str] = {}
        defaults = default_settings(group.choices, group.settings)
        for name, value in self.words(group).items():
            if _NO_CHOICES.get(name) == value or name.endswith(_NOT_TYPED):
                continue
            whole = next((outer for outer in _outer_names(name) if outer in defaults), None)
            if whole:  # a mapping where the default is none, as of dataset.popularity={zipf: 1}
                name, value = whole, as_typed(_inner_settings(whole, group.settings))
            overrides[group.run_kind.as_typed(name)] = value
        return shlex.join(f"{name}={value}" for name, value in overrides.items())

    def sort_key(self, group: Group, counts: Callable[[str], bool]) -> list[Any]:
        """Return a key from the settings for which `counts` is true, in the order of columns; numbers by size."""
        return [(self._column[name], _by_size(value)) for name, value in self.settings[group].items() if counts(name)]

    def ordered(self, groups: Iterable[Group], metrics: Sequence[str] = ()) -> list[Group]:
        """Return groups by dataset, users and task; then the best first by the first metric if it is NDCG, or by name.

        Without metrics it is that of `METRICS`.
        """
        metric = metrics[0] if metrics else METRICS[0]

        def key(group: Group) -> tuple[object, ...]:
            estimate = group.estimate(metric) if "ndcg" in metric else None
            best_first = (0, -estimate.mean) if estimate else (1, 0)
            task = self.sort_key(group, defines_task)
            name = self.ranker(group), self.sort_key(group, lambda setting: not defines_task(setting))
            return (group.choices["dataset"], click_order(group.choices["click"]), task, *best_first, *name)

        return sorted(groups, key=key)


def _named_parts(group: Group, groups: Sequence[Group]) -> dict[str, str]:
    """Return its model, exploration and fairness that `ol2r run ranker=X` does not bring: its name has them.

    Which model and exploration a ranker of the user brings is not known here: its name has those that were typed, and
    those in which groups of this ranker differ.
    """
    ranker = group.choices["ranker"]
    defaults = default_parts(ranker)
    named = {}
    for part in NAMED_PARTS:
        choice = group.choices.get(part)
        if choice is None or choice == defaults.get(part):
            continue
        of_ranker = {other.choices.get(part) for other in groups if other.choices["ranker"] == ranker}
        if defaults.get(part) is not None or is_typed_in(group, part) or len(of_ranker) > 1:
            named[part] = choice
    return named


def _differing(groups: Sequence[Group], names: Sequence[str]) -> dict[Group, dict[str, Any]]:
    """Return those of the settings `names` that have several values among groups with the same choice of their part.

    A group without the setting counts as a value.
    """
    values: dict[tuple[str, str], set[str]] = {}
    for group in groups:
        for name in names:
            value = as_typed(group.settings[name]) if name in group.settings else ""
            values.setdefault(_place(group, name), set()).add(value)

    def differs(group: Group, name: str) -> bool:
        return name in group.settings and len(values[_place(group, name)]) > 1 and not _follows_ranker(group, name)

    return {group: {name: group.settings[name] for name in names if differs(group, name)} for group in groups}


def _place(group: Group, name: str) -> tuple[str, str]:
    """Return a setting, and the group's choice of its part: groups with the same place are compared."""
    return name, group.choices.get(part_of(name), "")


def _follows_ranker(group: Group, name: str) -> bool:
    """Return whether a setting of the exploration was not typed, and has the value that it has for the ranker."""
    if not name.startswith("exploration.") or is_typed_in(group, name):
        return False
    return group.settings.get(name.replace("exploration.", "ranker."), ...) == group.settings[name]


def _outer_names(name: str) -> Iterator[str]:
    """Yield what a setting is part of: `dataset` and `dataset.popularity` of `dataset.popularity.zipf`."""
    for end in re.finditer(r"\.", name):
        yield name[: end.start()]


def _inner_settings(outer: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings have of a mapping."""
    return {name.removeprefix(f"{outer}."): settings[name] for name in settings if name.startswith(f"{outer}.")}


def _without_defaults(settings: Mapping[Group, dict[str, Any]]) -> dict[Group, dict[str, Any]]:
    """Return the settings that `Labels.told` has, of those that distinguish groups."""
    typed = _typed_values(settings)
    told: dict[Group, dict[str, Any]] = {}
    for group, values in settings.items():
        defaults = default_settings(group.choices, group.settings)
        told[group] = {
            name: value
            for name, value in values.items()
            if value != defaults.get(name, ...) or (*_place(group, name), as_typed(value)) in typed
        }
    looks = {group: json.dumps([group.choices, told[group]], sort_keys=True, default=str) for group in told}
    count = Counter(looks.values())
    return {group: told[group] if count[looks[group]] == 1 else settings[group] for group in settings}


def _typed_values(settings: Mapping[Group, dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return the settings that some run typed, each with its `_place` and value."""
    typed = set()
    for group, values in settings.items():
        for name, value in values.items():
            if value is not None and is_typed_in(group, name):
                typed.add((*_place(group, name), as_typed(value)))
    return typed


def _by_size(value: Any) -> tuple[int, float, str]:
    """Return a key that sorts values of a setting: numbers by size, before others as text."""
    return (0, value, "") if isinstance(value, int | float) else (1, 0, as_typed(value))


def _with_short_starts(told: Mapping[Group, dict[str, Any]]) -> dict[Group, dict[str, Any]]:
    """Return what is told, of a start the note or else the ranker of the run that it is from, where it is of no other
    start."""
    starts = {group: group.runs[0].manifest.get("start") for group, values in told.items() if values.get("start.run")}
    short = {
        told[group]["start.run"]: start.get("note") or start["choices"]["ranker"]
        for group, start in starts.items()
        if start
    }
    count = Counter(short.values())
    brief = {long: name for long, name in short.items() if count[name] == 1}
    return {
        group: {name: brief.get(value, value) if name == "start.run" else value for name, value in values.items()}
        for group, values in told.items()
    }


def _brief(names: Collection[str]) -> dict[str, str]:
    """Return settings without their part, `l2` for ranker.l2, unless two, or one of the run, would be the same."""
    brief = {name: name.removeprefix(f"{name.partition('.')[0]}.") if part_of(name) else name for name in names}
    brief |= {name: START for name in names if name == "start.run"}
    count = Counter([*brief.values(), *IGNORED])
    return {name: name if part_of(name) and count[short] > 1 else short for name, short in brief.items()}


def is_typed_in(group: Group, name: str) -> bool:
    """Return whether the command of one of the group's runs has this choice or setting."""
    return any(name in run.typed for run in group.runs)


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

    A name has the settings of `Labels.told`, so that a ranker with another setting is never called by the name of the
    ranker alone, without the numbers that a selection chose (`Labels.chosen`): the PairRanks that validation chose for
    two click models are both called PairRank. Settings of dataset, users and intents are in the title of the panel.
    ValueError for a fixed name that two groups of a panel have, where labels are `one_row_each`.
    panels: each with its groups. names: of all groups; those with the same name have the same style. styles: by name,
    in the order of the legend.
    """

    def __init__(self, groups: Sequence[Group], labels: Labels):
        self.panels = _panels(groups, labels)
        self.names: dict[Group, str] = {}
        self.styles: dict[str, Style] = {}
        for ranker, members in _by_paper_name(groups, labels).items():
            self._add(ranker, members, labels)
        if labels.one_row_each:
            self._check_fixed_names(labels)

    def _add(self, ranker: str, groups: Sequence[Group], labels: Labels) -> None:
        """Add the names and styles of the groups of one ranker with the same parts, which the papers call `ranker`."""
        texts = {group: _setting_texts(group, labels) for group in groups}
        words = _setting_words(dict.fromkeys(setting for text in texts.values() for setting in text))
        values_by_name: dict[str, list[str]] = {}
        for group, text in texts.items():
            told = [f"{word}={text[setting]}" for setting, word in words.items() if setting in text]
            name = labels.called.get(group) or " ".join([ranker, *told])
            self.names[group] = name
            values_by_name[name] = [text.get(setting, "") for setting in words]
        if any(group in labels.called for group in groups):  # its settings do not tell a fixed name from others
            values_by_name = {name: [name] for name in values_by_name}
        own = ranker_style(groups[0].choices["ranker"], labels.parts[groups[0]])
        styles = setting_styles(own, list(values_by_name.values()))
        self.styles |= zip(values_by_name, styles, strict=True)

    def _check_fixed_names(self, labels: Labels) -> None:
        """Raise ValueError if two groups of a panel have a fixed name."""
        for members in self.panels.values():
            count = Counter(self.names[group] for group in members)
            for group in members:
                name = self.names[group]
                if group in labels.called and count[name] > 1:
                    raise ValueError(
                        f"--name must give each row of a figure another name, got {name} for {count[name]}: choose "
                        "another name, or add settings to the words, such as 'ranker=pdgd rounds=500=short'"
                    )


def _panels(groups: Iterable[Group], labels: Labels) -> dict[Panel, list[Group]]:
    """Return the groups of each panel: panels by dataset, then by users as in tables, groups as in the legend."""

    def key(group: Group) -> tuple[Any, ...]:
        settings = labels.sort_key(group, _is_of_panel)
        users = click_order(group.choices["click"])
        return (group.choices["dataset"], settings, users, group.choices.get("intent", ""), *_legend_key(group, labels))

    panels: dict[Panel, list[Group]] = {}
    for group in sorted(groups, key=key):
        panels.setdefault(_panel(group, labels), []).append(group)
    return panels


def _panel(group: Group, labels: Labels) -> Panel:
    """Return the panel of a group."""
    dataset, click, intent = (group.choices.get(part, "none") for part in TASK_PARTS)
    told = {name: f"{symbol(name)}={as_typed(value)}" for name, value in labels.told[group].items()}
    dataset_settings = [text for name, text in told.items() if part_of(name) == "dataset"]
    user_settings = [text for name, text in told.items() if part_of(name) in ("click", "intent")]
    users = [] if click == "none" else [click.replace("_", " ")]
    intents = [] if intent == "none" else [f"intent {intent}"]
    return Panel(
        (dataset, *dataset_settings, *user_settings),
        ", ".join([dataset_name(dataset), *dataset_settings]),
        ", ".join([*users, *intents, *user_settings]),
    )


def _is_of_panel(setting: str) -> bool:
    return part_of(setting) in TASK_PARTS


def _by_paper_name(groups: Iterable[Group], labels: Labels) -> dict[str, list[Group]]:
    """Return the groups of each ranker with its parts, both in the order of the legend."""
    by_name: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: _legend_key(group, labels)):
        ranker = group.choices["ranker"]
        name = paper_name(ranker, labels.parts[group], labels.rankers.get(ranker, ""))
        by_name.setdefault(name, []).append(group)
    return by_name


def _legend_key(group: Group, labels: Labels) -> tuple[Any, ...]:
    """Return a key that sorts names: rankers as in `known_rankers`, each first with the parts that come with it."""
    ranker, parts = group.choices["ranker"], labels.parts[group]
    fixed_names = list(dict.fromkeys(labels.called.values()))  # in the order of the caller
    place = fixed_names.index(labels.called[group]) if group in labels.called else -1
    settings = labels.sort_key(group, lambda name: not _is_of_panel(name))
    known = [*known_rankers(), ranker].index(ranker)
    return (known, ranker, [parts.get(part, "") for part in NAMED_PARTS], place, settings)


def _setting_texts(group: Group, labels: Labels) -> dict[str, str]:
    """Return the settings that a name has, as text; precision last."""
    told = {name: value for name, value in labels.told[group].items() if not _is_of_panel(name)}
    names = [
        name
        for name, value in told.items()
        if name not in labels.chosen or isinstance(value, bool) or not isinstance(value, int | float)
    ]
    names.sort(key=lambda name: name in ROUNDING)
    return {name: as_typed(told[name]) for name in names}


def _setting_words(settings: Collection[str]) -> dict[str, str]:
    """Return the symbol of each setting; its dotted name where two have the same one, or the same last word."""
    symbols = {setting: symbol(setting) for setting in settings}
    count = Counter(symbols.values())
    last_words = Counter(setting.rpartition(".")[2] for setting in settings)
    words = {}
    for setting, letter in symbols.items():
        is_clear = setting in _SYMBOLS or last_words[setting.rpartition(".")[2]] == 1
        words[setting] = letter if count[letter] == 1 and is_clear else setting
    return words
