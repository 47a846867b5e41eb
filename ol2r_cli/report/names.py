"""What groups are called, in tables by the words of `ol2r run` and in figures as in papers; their tasks and styles."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.finished_run import AS_EXPERIMENT, CODE, IGNORED, RECORDING, default_settings
from ol2r_cli.report.measures import METRICS
from ol2r_cli.report.run_groups import FINGERPRINT, Group, is_typed

PARTS = ("dataset", "click", "intent", "ranker", "ranker/model", "exploration", "fairness")
ROUNDING = ("device.dtype", "device.engine")


class Labels:
    """Names that distinguish all of the given groups by the choices and settings in which they differ.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, a setting of the run
    (`rounds`) among all groups. A setting of the exploration that only follows the ranker's setting of the same name is
    left out. `called` are fixed names for figures, which otherwise derive the shortest name from the settings.
    """

    def __init__(self, groups: Sequence[Group], called: Mapping[Group, str] | None = None):
        self.called = called or {}
        parts = (*PARTS, "")
        names = dict.fromkeys(name for group in groups for name in group.settings)
        self._column = {n: column for column, n in enumerate(sorted(names, key=lambda n: parts.index(part_of(n))))}
        values: dict[tuple[str, str], set[str]] = {}  # of a setting among groups with the same choice of its part
        for group, name in product(groups, names):
            value = as_typed(group.settings[name]) if name in group.settings else ""
            values.setdefault((name, group.choices.get(part_of(name), "")), set()).add(value)
        typed = {group: {name for run in group.runs for name in run.typed} for group in groups}

        def distinguishes(group: Group, name: str) -> bool:
            follows = group.settings.get(name.replace("exploration.", "ranker."), ...) == group.settings[name]
            if name.startswith("exploration.") and follows and name not in typed[group]:
                return False
            return len(values[name, group.choices.get(part_of(name), "")]) > 1

        self._settings = {
            group: {n: group.settings[n] for n in self._column if n in group.settings and distinguishes(group, n)}
            for group in groups
        }
        self._several = several(groups, ("ranker/model", "exploration", "fairness"))
        # Names without their part, unless two settings, or one of the run, would have the same short name.
        differing = {name for settings in self._settings.values() for name in settings}
        brief = {name: name.partition(".")[2] if part_of(name) else name for name in differing}
        taken = Counter([*brief.values(), *IGNORED])
        shown = {name: name if part_of(name) and taken[short] > 1 else short for name, short in brief.items()}

        def text(settings: Mapping[str, Any]) -> str:
            return " ".join(f"{shown[name]}={as_typed(value)}" for name, value in settings.items())

        keys = {}  # choices, and the settings that a run typed or that are no defaults
        for group, settings in self._settings.items():
            defaults = default_settings(group.choices, group.settings)
            own = {n: v for n, v in settings.items() if n in typed[group] or defaults.get(n, ...) != v}
            keys[group] = (*sorted(group.choices.items()), text(own))
        alike = Counter(keys.values())
        self._short = {g: str(key[-1]) if alike[key] < 2 else text(self._settings[g]) for g, key in keys.items()}

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that distinguish this group from others with the same choices, by dotted name."""
        return self._settings[group]

    def ranker(self, group: Group) -> str:
        """The ranker; with its model, exploration and fairness where the ranker occurs with several."""
        ranker = group.choices["ranker"]
        parts = [part for part in PARTS if (part, ranker) in self._several]
        return " ".join([ranker, *(f"{part}={group.choices.get(part, '')}" for part in parts)])

    def short(self, group: Group) -> str:
        """Its settings as `l2=0.01 alpha=0.1`; with the part where the short name is ambiguous.

        Without defaults that no run typed, unless another group with these choices then looks the same.
        """
        return self._short[group]

    def words(self, group: Group) -> dict[str, str]:
        """Its choices, and the settings that distinguish it, as they are typed."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        return choices | {name: as_typed(value) for name, value in self.settings(group).items()}

    def overrides(self, group: Group) -> str:
        """Choices and settings as overrides for `ol2r run`, quoted for a shell."""
        names = {as_one: own for own, as_one in AS_EXPERIMENT.items()} if group.of_users else {}
        return shlex.join(
            f"{names.get(part := name.partition('.')[0], part)}{name[len(part) :]}={value}"
            for name, value in self.words(group).items()
            if (name, value) not in (("fairness", "none"), ("intent", "none"), ("click", "none"))
            and not name.endswith((FINGERPRINT, "results_version", CODE))
        )

    def sort_key(self, group: Group, counts: Callable[[str], bool]) -> list[Any]:
        """A key from the settings for which `counts` is true, in the order of the columns; numbers by size."""
        return [
            (self._column[name], (0, value, "") if isinstance(value, int | float) else (1, 0, as_typed(value)))
            for name, value in self.settings(group).items()
            if counts(name)
        ]

    def ordered(self, groups: Iterable[Group], metrics: Sequence[str] = ()) -> list[Group]:
        """Groups by dataset, click model and task; then the best first by the first metric if it is NDCG, or by name.

        Without metrics it is that of `METRICS`.
        """
        metric = (*metrics, METRICS[0])[0]

        def key(group: Group) -> tuple[object, ...]:
            estimate = group.estimate(metric) if "ndcg" in metric else None
            task = self.sort_key(group, defines_task)
            others = self.ranker(group), self.sort_key(group, lambda name: not defines_task(name))
            mean = (estimate is None, -estimate.mean if estimate else 0)
            return (group.choices["dataset"], group.choices["click"], task, *mean, *others)

        return sorted(groups, key=key)


@cache
def part_of(setting: str) -> str:
    """The part of a setting, `ranker/model` for ranker.model.width; empty for a setting of the run."""
    parts = [part for part in PARTS if setting.startswith(f"{part.replace('/', '.')}.")]
    return max(parts, key=len, default="")


def several(groups: Iterable[Group], parts: Sequence[str]) -> set[tuple[str, str]]:
    """(part, ranker) where a ranker occurs with several choices of a part."""
    choices = {(part, g.choices["ranker"], g.choices.get(part, "")) for g in groups for part in parts}
    count = Counter((part, ranker) for part, ranker, _ in choices)
    return {place for place in count if count[place] > 1}


def defines_task(setting: str) -> bool:
    """Whether different values of a setting are different tasks, instead of competitors in one task.

    What is recorded makes no other task, and how numbers are rounded does not either.
    """
    return setting not in {*RECORDING, *ROUNDING} and part_of(setting) in ("dataset", "click", "intent", "")


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
    known = [(group, {**group.settings, **{part: group.choices.get(part) for part in PARTS}}) for group in task]
    matching = [
        group for group, has in known if all(name in has and is_typed(has[name], wanted[name]) for name in wanted)
    ]
    if len(matching) > 1:
        first, *others = map(labels.words, matching)
        distinguishing = (f"{n}={value}" for n, value in first.items() if any(o.get(n) != value for o in others))
        raise ValueError(
            f"--baseline must match one row of each task, got {words}, which matches {len(matching)} with "
            f"{task_name(matching[0], labels)}: add what distinguishes them, such as "
            f"--baseline '{words} {next(distinguishing, '')}'"
        )
    return matching[0] if matching else None


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


class Panel(NamedTuple):
    """A panel of a figure shows groups of one dataset and click model. data: the dataset, and what differs of both."""

    data: tuple[str, ...]
    title: str


class Legend:
    """Names, styles and panels of some groups; one panel for each dataset and click model.

    A name has settings only where a panel has several groups of one ranker. So the PairRanks that validation chose for
    two click models are both called PairRank. Settings of dataset and click model are in the title of the panel.
    names: of all groups; those with the same name have the same style. styles: by name, in the order of the legend.
    """

    def __init__(self, groups: Sequence[Group], labels: Labels):
        several_parts = several(groups, ("ranker/model", "exploration"))
        called = list(dict.fromkeys(labels.called.values()))

        def ranker_key(group: Group) -> tuple[Any, ...]:
            choices = [group.choices.get(part, "") for part in ("ranker", "ranker/model", "exploration")]
            fairness = group.choices.get("fairness", "none")
            rank = [*RANKERS, choices[0]].index(choices[0])
            place = called.index(labels.called[group]) if group in labels.called else -1  # as the caller has them
            settings = labels.sort_key(group, lambda n: not _is_of_panel(n))
            return (rank, choices, fairness != "none", fairness, place, settings)

        def panel_key(group: Group) -> tuple[Any, ...]:
            dataset, click = group.choices["dataset"], group.choices["click"]
            settings = labels.sort_key(group, _is_of_panel)
            return (dataset, settings, [*_CLICKS, click].index(click), click, *ranker_key(group))

        # Without settings that only repeat a choice, and without precision and engine.
        settings = {
            group: {
                name: value
                for name, value in labels.settings(group).items()
                if not name.endswith("._target_") and name not in ROUNDING
            }
            for group in groups
        }
        self.panels: dict[Panel, list[Group]] = {}
        for group in sorted(groups, key=panel_key):
            dataset, click = group.choices["dataset"], group.choices["click"]
            differing = [f"{symbol(n)}={as_typed(v)}" for n, v in settings[group].items() if _is_of_panel(n)]
            user = [click.replace("_", " ")] if click != "none" else []  # fits to reviews have none
            title = ", ".join([dataset_name(dataset), *user, *differing])
            self.panels.setdefault(Panel((dataset, *differing), title), []).append(group)
        rankers: dict[str, list[Group]] = {}
        for group in sorted(groups, key=ranker_key):
            rankers.setdefault(_ranker(group, several_parts), []).append(group)
        self.names: dict[Group, str] = {}
        self.styles: dict[str, Style] = {}
        for ranker, members in rankers.items():
            texts = {
                group: {
                    name: f"{value:.6g}" if isinstance(value, float) else as_typed(value)  # 0.0001, not 1e-04
                    for name, value in settings[group].items()
                    if not _is_of_panel(name)
                }
                for group in members
            }
            shown = distinguishing_settings([[texts[g] for g in panel if g in texts] for panel in self.panels.values()])
            short = {name: symbol(name) for name in shown}
            short = {name: each if [*short.values()].count(each) == 1 else name for name, each in short.items()}
            for group, of_group in texts.items():
                words = [f"{short[name]}={of_group[name]}" for name in shown if name in of_group]
                self.names[group] = labels.called.get(group) or " ".join([ranker, *words])
            choices = members[0].choices
            several_models = ("ranker/model", choices["ranker"]) in several_parts
            neural = several_models and choices.get("ranker/model", "linear") != "linear"
            names = dict.fromkeys(map(self.names.__getitem__, members))
            looks = ranker_styles(choices["ranker"], len(names), choices.get("fairness", "none"), neural)
            self.styles.update(zip(names, looks, strict=True))


def _ranker(group: Group, several_parts: Collection[tuple[str, str]]) -> str:
    """The ranker as in the papers, with its model and exploration where the figure has several of them."""
    ranker, fairness = group.choices["ranker"], group.choices.get("fairness", "none")
    model, exploration = (
        group.choices.get(part, "") if (part, ranker) in several_parts else ""
        for part in ("ranker/model", "exploration")
    )
    name = _MODELS.get(model, f"{{}} ({model})").format(RANKERS[ranker][0] if ranker in RANKERS else ranker)
    name += f", {exploration.replace('_', ' ')}" if exploration else ""
    pattern = "{}" if fairness == "none" else _FAIRNESS.get(fairness, (f"{{}} with {fairness}",))[0]
    return pattern.format(name)


def _is_of_panel(setting: str) -> bool:
    return part_of(setting) in ("dataset", "click")


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


def ranker_styles(ranker: str, count: int = 1, fairness: str = "none", neural: bool = False) -> list[Style]:
    """Styles for `count` settings of a ranker: its colour from dark to light, and markers in a fixed order.

    The style of an extension follows from its name. With a fairness, all have its dash. neural: the ranker has a
    network, and the figure also shows it as a linear ranker: a darker colour.
    """
    if ranker in RANKERS:
        own = RANKERS[ranker][1]
    else:
        colour, dash, marker = hashlib.sha256(ranker.encode()).digest()[:3]
        own = Style(_OTHER_COLOURS[colour % 8], _OTHER_DASHES[dash % 5], _OTHER_MARKERS[marker % 9])
    if neural:
        own = own._replace(colour=shade(own.colour, -0.35), dash=BOTH, hollow=True)
    if fairness != "none":
        own = own._replace(dash=_FAIRNESS.get(fairness, ("", DOTTED))[1], hollow=True)
    if count == 1:
        return [own]
    first = _MARKERS.index(own.marker) if own.marker in _MARKERS else 0
    markers = _MARKERS[first:] + _MARKERS[:first]
    dashes = list(dict.fromkeys([own.dash, *_OTHER_DASHES])) if fairness == "none" else [own.dash]
    return [
        Style(
            shade(own.colour, -0.5 + 1.05 * number / (count - 1)),
            dashes[number % len(dashes)],
            markers[number % len(markers)],
            own.hollow,
        )
        for number in range(count)
    ]


def shade(colour: str, step: float) -> str:
    """A colour mixed with black (step -1 is black) or with white (step 1 is white)."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [part * (1 + step) if step < 0 else part + (255 - part) * step for part in parts]
    return "#" + "".join(f"{round(part):02x}" for part in mixed)
