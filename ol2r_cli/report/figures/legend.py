"""What every group is called in a figure, in the fewest words that tell it from the others, and how it looks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ol2r_cli.report.figures import names
from ol2r_cli.report.figures.options import Width, inches
from ol2r_cli.report.figures.styles import Style, style, variants
from ol2r_cli.report.figures.telling import fewest
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels, part_of
from ol2r_cli.report.override import text

_OF_THE_TASK = ("dataset", "click")
Panel = tuple[str, ...]


class Legend:
    """Names and looks of some groups, and the panels they belong to: one for each dataset and click model.

    Settings are named only where a panel has several groups of the same name, so that the PairRanks that validation
    chose for two click models are both PairRank. Settings of dataset and users are named in the title of the panel.
    Those in `without` are never named: groups that differ in nothing else have one name.
    """

    def __init__(self, groups: Sequence[Group], labels: Labels, without: Collection[str] = ()):
        self._labels, self._without = labels, frozenset(without)
        self.panels: dict[Panel, list[Group]] = {}
        for group in sorted(groups, key=self._place):
            self.panels.setdefault(self._panel(group), []).append(group)
        self._several = _occurring_twice(groups)
        told = self._telling()
        self._names = {
            id(group): labels.called(group) or self._with_settings(group, told[self.ranker(group)])
            for own in self.panels.values()
            for group in own
        }
        self._styles = self._looks(groups)

    def label(self, group: Group) -> str:
        """Such as PairRank, or olRankNet λ=0.1 α=0.01."""
        return self._names[id(group)]

    def style(self, group: Group) -> Style:
        """The same for the same label."""
        return self._styles[self.label(group)]

    def entries(self) -> dict[str, Style]:
        """All labels of the figure with their looks, in the order of the legend."""
        return dict(self._styles)

    def ranker(self, group: Group) -> str:
        """The ranker as papers write it, with what it occurs with several of."""
        own = {part: group.choices.get(part, "") for part in ("ranker/model", "exploration")}
        said = {
            part: choice if (group.choices["ranker"], part) in self._several else "" for part, choice in own.items()
        }
        fairness = group.choices.get("fairness", "none")
        return names.ranker(group.choices["ranker"], said["ranker/model"], said["exploration"], fairness)

    def settings(self, group: Group) -> dict[str, Any]:
        """Settings that tell it from other groups, without those of dataset and users."""
        own = self._labels.settings(group)
        told = (name for name in own if part_of(name) not in _OF_THE_TASK and _said(name) and name not in self._without)
        return {name: own[name] for name in told}

    def varying(self) -> list[str]:
        """The settings in which groups of one panel and one ranker differ."""
        found: dict[str, None] = {}
        for members in self.panels.values():
            for ranker in dict.fromkeys(map(self.ranker, members)):
                several = [self.settings(group) for group in members if self.ranker(group) == ranker]
                known = dict.fromkeys(name for own in several for name in own)
                found |= {name: None for name in known if len({text(own.get(name)) for own in several}) > 1}
        return list(found)

    def title(self, panel: Panel) -> str:
        """Of a panel: the dataset and the click model, with the settings in which they differ."""
        dataset, click, *settings = panel
        return ", ".join([names.dataset(dataset), click.replace("_", " "), *settings])

    @property
    def in_rows(self) -> bool:
        """Whether panels stand in rows of one dataset, which may share the extent of y."""
        return len({panel[:1] + panel[2:] for panel in self.panels}) < len(self.panels) or len(self.panels) == 1

    def rows(self, width: Width, most: int = 3) -> list[list[Panel]]:
        """The panels in rows of so many (one where the figure is narrow), every dataset in rows of its own."""
        most = most if inches(width, len(self.panels)) >= 5 else 1
        datasets: dict[Panel, list[Panel]] = {}
        for panel in self.panels:
            datasets.setdefault(panel[:1] + panel[2:] if self.in_rows else (), []).append(panel)
        rows = []
        for panels in datasets.values():
            each = 2 if len(panels) == 4 and most > 2 else most
            rows += [panels[first : first + each] for first in range(0, len(panels), each)]
        return rows

    def _panel(self, group: Group) -> Panel:
        own = self._labels.settings(group)
        settings = (
            f"{names.symbol(name)}={text(own[name])}" for name in own if part_of(name) in _OF_THE_TASK and _said(name)
        )
        return (group.choices["dataset"], group.choices["click"], *settings)

    def _place(self, group: Group) -> tuple[object, ...]:
        task = self._labels.order(group, lambda name: part_of(name) in _OF_THE_TASK)
        own = self._labels.order(group, lambda name: part_of(name) not in _OF_THE_TASK)
        known = [*names.RANKERS]
        ranker = group.choices["ranker"]
        place = known.index(ranker) if ranker in known else len(known)
        rest = [group.choices.get(part, "") for part in ("ranker", "ranker/model", "exploration")]
        fairness = group.choices.get("fairness", "none")
        click = names.place_of_click(group.choices["click"])
        return (group.choices["dataset"], task, click, place, rest, fairness != "none", fairness, own)

    def _telling(self) -> dict[str, list[str]]:
        """For each name of a ranker the fewest settings, or nearly, that tell its groups apart within every panel."""
        panels: dict[str, list[list[dict[str, str]]]] = {}
        for members in self.panels.values():
            alike: dict[str, list[dict[str, str]]] = {}
            for group in members:
                own = {name: text(value) for name, value in self.settings(group).items()}
                alike.setdefault(self.ranker(group), []).append(own)
            for name, several in alike.items():
                panels.setdefault(name, []).append(several)
        return {name: fewest(several) for name, several in panels.items()}

    def _with_settings(self, group: Group, told: Sequence[str]) -> str:
        own = self.settings(group)
        symbols = [names.symbol(name) for name in told]
        parts = []
        for name in told:
            if name in own:
                brief = names.symbol(name) if symbols.count(names.symbol(name)) == 1 else name
                parts.append(f"{brief}={names.value(own[name])}")
        return " ".join([self.ranker(group), *parts])

    def _looks(self, groups: Sequence[Group]) -> dict[str, Style]:
        by_ranker: dict[str, dict[str, Group]] = {}
        for group in sorted(groups, key=lambda group: self._place(group)[3:]):
            by_ranker.setdefault(self.ranker(group), {})[self.label(group)] = group
        looks: dict[str, Style] = {}
        for members in by_ranker.values():
            first = next(iter(members.values()))
            choices = first.choices
            neural = (choices["ranker"], "ranker/model") in self._several and choices.get(
                "ranker/model", "linear"
            ) != "linear"
            own = style(choices["ranker"], choices.get("fairness", "none"), neural)
            looks.update(zip(members, variants(own, len(members)), strict=True))
        return looks


def _occurring_twice(groups: Sequence[Group]) -> set[tuple[str, str]]:
    """(ranker, part) where a ranker occurs with several choices of its model or exploration; runs of versions that
    knew no such choice say nothing."""
    found: dict[tuple[str, str], set[str]] = {}
    for group in groups:
        for part in ("ranker/model", "exploration"):
            if part in group.choices:
                found.setdefault((group.choices["ranker"], part), set()).add(group.choices[part])
    return {key for key, choices in found.items() if len(choices) > 1}


def _said(setting: str) -> bool:
    """Whether a setting says more than the choices do."""
    return not setting.endswith("._target_") and setting != "device.dtype"
