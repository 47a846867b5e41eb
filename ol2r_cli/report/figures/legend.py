"""Names and styles of groups in a figure, and the panels that show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.figures import paper_names
from ol2r_cli.report.figures.kinds import Width, inches
from ol2r_cli.report.figures.style import Style, style, variants
from ol2r_cli.report.labels import Labels, part_of
from ol2r_cli.report.run_groups import Group

_PANEL_PARTS = ("dataset", "click")  # a panel shows one choice of each
Panel = tuple[str, ...]
Item = TypeVar("Item")


class Legend:
    """Names, styles and panels of some groups; one panel for each dataset and click model.

    A name has settings only where a panel has several groups of one ranker. So the PairRanks that validation chose for
    two click models are both called PairRank. Settings of dataset and click model are in the title of the panel.
    Settings in `without` are never named: groups that differ in them only have the same name.
    """

    def __init__(self, groups: Sequence[Group], labels: Labels, without: Collection[str] = ()):
        self._labels, self._without = labels, frozenset(without)
        self.panels: dict[Panel, list[Group]] = {}
        for group in sorted(groups, key=self._sort_key):
            self.panels.setdefault(self._panel(group), []).append(group)
        self._several = _parts_with_several_choices(groups)
        shown = self._shown_settings()
        self._names = {
            id(group): labels.called.get(group) or self._with_settings(group, shown[self.ranker(group)])
            for members in self.panels.values()
            for group in members
        }
        self._styles = self._all_styles(groups)

    def label(self, group: Group) -> str:
        """The name of a group, such as PairRank, or olRankNet λ=0.1 α=0.01."""
        return self._names[id(group)]

    def style(self, group: Group) -> Style:
        """The style of a group; groups with the same label have the same style."""
        return self._styles[self.label(group)]

    def entries(self) -> dict[str, Style]:
        """All labels of the figure with their styles, in the order of the legend."""
        return dict(self._styles)

    def ranker(self, group: Group) -> str:
        """The ranker as in the papers, with its model and exploration where the figure has several of them."""
        choices = {part: group.choices.get(part, "") for part in ("ranker/model", "exploration")}
        named = {
            part: choice if (group.choices["ranker"], part) in self._several else "" for part, choice in choices.items()
        }
        fairness = group.choices.get("fairness", "none")
        return paper_names.ranker(group.choices["ranker"], named["ranker/model"], named["exploration"], fairness)

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that distinguish a group from others, without those of dataset and click model."""
        return {
            name: value
            for name, value in self._labels.settings(group).items()
            if part_of(name) not in _PANEL_PARTS and _is_informative(name) and name not in self._without
        }

    def varying(self) -> list[str]:
        """The settings in which groups of one panel and one ranker differ."""
        names: dict[str, None] = {}
        for members in self.panels.values():
            for ranker in dict.fromkeys(map(self.ranker, members)):
                several = [self.settings(group) for group in members if self.ranker(group) == ranker]
                known = dict.fromkeys(name for settings in several for name in settings)
                names |= {
                    name: None for name in known if len({as_typed(settings.get(name)) for settings in several}) > 1
                }
        return list(names)

    def title(self, panel: Panel) -> str:
        """The title of a panel: dataset, click model, and the settings in which they differ."""
        dataset, click, *settings = panel
        return ", ".join([paper_names.dataset(dataset), click.replace("_", " "), *settings])

    @property
    def shares_rows(self) -> bool:
        """Whether a row of panels has one dataset, so that its panels can share the y axis."""
        return len({panel[:1] + panel[2:] for panel in self.panels}) < len(self.panels) or len(self.panels) == 1

    def rows(self, width: Width, most: int = 3) -> list[list[Panel]]:
        """The panels in rows of at most `most`, of 1 in a narrow figure; each dataset begins a row."""
        most = most if inches(width, len(self.panels)) >= 5 else 1
        datasets: dict[Panel, list[Panel]] = {}
        for panel in self.panels:
            datasets.setdefault(panel[:1] + panel[2:] if self.shares_rows else (), []).append(panel)
        return [
            row for panels in datasets.values() for row in in_rows(panels, 2 if len(panels) == 4 and most > 2 else most)
        ]

    def _panel(self, group: Group) -> Panel:
        settings = self._labels.settings(group).items()
        differing = (
            f"{paper_names.symbol(name)}={as_typed(value)}"
            for name, value in settings
            if part_of(name) in _PANEL_PARTS and _is_informative(name)
        )
        return (group.choices["dataset"], group.choices["click"], *differing)

    def _sort_key(self, group: Group) -> tuple[Any, ...]:
        """Dataset and click model, then the ranker in the order of `paper_names`, then settings."""
        panel_settings = self._labels.sort_key(group, lambda name: part_of(name) in _PANEL_PARTS)
        click = paper_names.click_order(group.choices["click"])
        return (group.choices["dataset"], panel_settings, click, *self._ranker_key(group))

    def _ranker_key(self, group: Group) -> tuple[Any, ...]:
        known = [*paper_names.RANKERS]
        ranker = group.choices["ranker"]
        rank = known.index(ranker) if ranker in known else len(known)
        choices = [group.choices.get(part, "") for part in ("ranker", "ranker/model", "exploration")]
        fairness = group.choices.get("fairness", "none")
        settings = self._labels.sort_key(group, lambda name: part_of(name) not in _PANEL_PARTS)
        return (rank, choices, fairness != "none", fairness, settings)

    def _shown_settings(self) -> dict[str, list[str]]:
        """For each ranker a small set of settings that distinguishes its groups within every panel."""
        panels: dict[str, list[list[dict[str, str]]]] = {}
        for members in self.panels.values():
            by_ranker: dict[str, list[dict[str, str]]] = {}
            for group in members:
                settings = {name: as_typed(value) for name, value in self.settings(group).items()}
                by_ranker.setdefault(self.ranker(group), []).append(settings)
            for ranker, several in by_ranker.items():
                panels.setdefault(ranker, []).append(several)
        return {ranker: distinguishing_settings(several) for ranker, several in panels.items()}

    def _with_settings(self, group: Group, shown: Sequence[str]) -> str:
        settings = self.settings(group)
        symbols = [paper_names.symbol(name) for name in shown]
        parts = []
        for name in shown:
            if name in settings:
                symbol = paper_names.symbol(name)
                parts.append(f"{symbol if symbols.count(symbol) == 1 else name}={paper_names.value(settings[name])}")
        return " ".join([self.ranker(group), *parts])

    def _all_styles(self, groups: Sequence[Group]) -> dict[str, Style]:
        by_ranker: dict[str, dict[str, Group]] = {}
        for group in sorted(groups, key=self._ranker_key):
            by_ranker.setdefault(self.ranker(group), {})[self.label(group)] = group
        styles: dict[str, Style] = {}
        for members in by_ranker.values():
            choices = next(iter(members.values())).choices
            several_models = (choices["ranker"], "ranker/model") in self._several
            neural = several_models and choices.get("ranker/model", "linear") != "linear"
            base = style(choices["ranker"], choices.get("fairness", "none"), neural)
            styles.update(zip(members, variants(base, len(members)), strict=True))
        return styles


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


def _parts_with_several_choices(groups: Sequence[Group]) -> set[tuple[str, str]]:
    """(ranker, part) where a ranker occurs with several models or explorations.

    Runs of earlier versions, which had no such choice, do not count.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for group in groups:
        for part in ("ranker/model", "exploration"):
            if part in group.choices:
                found.setdefault((group.choices["ranker"], part), set()).add(group.choices[part])
    return {key for key, choices in found.items() if len(choices) > 1}


def _is_informative(setting: str) -> bool:
    """False for a setting that only repeats a choice, and for the precision and the engine."""
    return not setting.endswith("._target_") and setting not in ("device.dtype", "device.engine")
