"""What groups are called in figures, in the words of the papers, and in which panel each is.

`Legend` is where the name in a legend comes from: the ranker as in the papers (`paper_name`), and the settings that its
row has in tables, by the letters of the papers; or the name that `--name` or a recipe gives (`Labels.called`). How a
name looks is in `styles.py`; what groups are called in tables is in `names.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.plugins import other_kinds
from ol2r_cli.report.names import Labels
from ol2r_cli.report.parts import NAMED_PARTS, ROUNDING, TASK_PARTS, click_order, part_of
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.styles import Style, ranker_style, setting_styles

RANKER_NAMES = {  # in the papers, in the order of a legend
    "pairrank": "PairRank",
    "pepairrank": "P2LinRank",
    "olranknet": "olRankNet",
    "ollambdarank": "olLambdaRank",
    "p2neurrank": "P2NeurRank",
    "pdgd": "PDGD",
    "dbgd": "DBGD",
    "mgd": "MGD",
    "nsgd": "NSGD",
    "coltr": "COLTR",
    "intervention_aware": "intervention-aware",
    "epsilon_greedy": "ε-Greedy",
    "sgd_ranknet": "SGD RankNet",
    "toprank": "TopRank",
    "batchrank": "BatchRank",
    "cascade_ucb1": "CascadeUCB1",
    "cascade_kl_ucb": "CascadeKL-UCB",
    "cascade_ducb": "CascadeDUCB",
    "cascade_swucb": "CascadeSWUCB",
    "cascade_linucb": "CascadeLinUCB",
    "cascade_lints": "CascadeLinTS",
    "ips_regression": "IPS regression",
    "offline_ranknet": "offline RankNet",
    "offline_network": "offline network",
    "offline_lambdamart": "offline LambdaMART",
    "ollambdarank_gt": "olLambdaRank GT",
    "oracle": "oracle",
    "random": "random",
}
_DATASET_NAMES = {
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
_FAIRNESS_NAMES = {"fairexp": "FairExp", "fairco": "FairCo", "mcfair": "MCFair"}
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
    "start.run": "start",
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
def ranker_names() -> dict[str, str]:
    """Return `RANKER_NAMES`, followed by the names of what other kinds of runs have in place of rankers."""
    return RANKER_NAMES | {choice: name for kind in other_kinds() for choice, name in kind.rankers.items()}


def symbol(setting: str) -> str:
    """Return the papers' letter for a setting, by its dotted name; without one, its last word."""
    last = setting.rpartition(".")[2]
    return _SYMBOLS.get(setting) or ("class" if last == "_target_" else last.replace("_", " "))


def paper_name(ranker: str, parts: Mapping[str, str], called: str = "") -> str:
    """Return a ranker as in the papers, such as Neural-PDGD; `parts` do not come with it: those of `Labels.parts`.

    called: another name of the ranker.
    """
    model, exploration, fairness = (parts.get(part, "") for part in NAMED_PARTS)
    name = called or ranker_names().get(ranker, ranker)
    if (ranker, fairness) == _FAIRCO and not called:
        name, fairness = "FairCo", ""
    if model:
        name = f"{_MODEL_NAMES[model]}-{name}" if model in _MODEL_NAMES else f"{name} ({model})"
    if fairness:
        name = f"{_FAIRNESS_NAMES[fairness]}-{name}" if fairness in _FAIRNESS_NAMES else f"{name} with {fairness}"
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
    """Return a key that sorts names: rankers as in `ranker_names`, each first with the parts that come with it."""
    ranker, parts = group.choices["ranker"], labels.parts[group]
    fixed_names = list(dict.fromkeys(labels.called.values()))  # in the order of the caller
    place = fixed_names.index(labels.called[group]) if group in labels.called else -1
    settings = labels.sort_key(group, lambda name: not _is_of_panel(name))
    known = [*ranker_names(), ranker].index(ranker)
    return (known, ranker, [parts.get(part, "") for part in NAMED_PARTS], place, settings)


def _setting_texts(group: Group, labels: Labels) -> dict[str, str]:
    """Return the settings that a name has, as text; precision last."""
    told = {name: value for name, value in labels.told[group].items() if not _is_of_panel(name)}
    names = [name for name in told if name not in labels.chosen or not _is_number(told[name])]
    names.sort(key=lambda name: name in ROUNDING)
    return {name: as_typed(told[name]) for name in names}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
