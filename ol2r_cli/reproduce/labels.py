"""The lines of a figure by the names that the recipe has for its competitors."""

from __future__ import annotations

from collections.abc import Mapping

from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.reproduce.protocol import Place


class Named(Labels):
    """Labels of the groups at some places, which figures call by their competitor."""

    def __init__(self, groups: Mapping[Place, Group]):
        super().__init__(list(groups.values()))
        self._names = {group: place.competitor for place, group in groups.items()}

    def called(self, group: Group) -> str:
        return self._names[group]
