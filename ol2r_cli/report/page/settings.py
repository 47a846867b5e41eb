"""The settings of every group, those that tell it from others first, and what to type to run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import PARTS, Labels
from ol2r_cli.report.override import text
from ol2r_cli.report.page.html import Html, element, folded, joined, pairs
from ol2r_cli.report.page.provenance import Manifests, ranges


def settings(groups: Sequence[Group], labels: Labels, names: Mapping[Group, str], of: Manifests) -> Html:
    """What all groups share, once; then each group."""
    shared = {
        name: value
        for name, value in groups[0].settings.items()
        if all(name in group.settings and text(group.settings[name]) == text(value) for group in groups)
    }
    own = [_group(group, labels, names[group], of, shared.keys()) for group in groups]
    whole = folded(f"{len(shared)} settings that all groups share", _values(shared)) if len(groups) > 1 else Html("")
    return joined([*own, whole], "\n")


def _group(group: Group, labels: Labels, name: str, of: Manifests, shared: object) -> Html:
    choices = [(part, group.choices[part]) for part in PARTS if part in group.choices]
    differing = labels.settings(group)
    rest = {key: value for key, value in group.settings.items() if key not in differing and key not in shared}  # type: ignore[operator]
    if set(group.settings) == set(shared):  # type: ignore[call-overload]
        rest = dict(group.settings)
    seeds = [
        (f"seeds of fold {fold}" if len(group.seeds) > 1 or fold is not None else "seeds", ranges(own))
        for fold, own in group.seeds.items()
    ]
    commands = dict.fromkeys(str(manifest["command"]) for manifest in of[group])
    return folded(
        name,
        pairs([*choices, *((key, text(value)) for key, value in differing.items()), *seeds]),
        element("p", "To run it again:", class_="note"),
        element("pre", element("code", "\n".join(commands))),
        folded(f"{len(rest)} more settings", _values(rest)) if rest else "",
    )


def _values(of: Mapping[str, object]) -> Html:
    return pairs((name, text(value)) for name, value in of.items())
