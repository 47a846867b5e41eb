"""Where the numbers come from: programs, machines, data and times of all runs, and each run by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ol2r_cli.report.groups import Group
from ol2r_cli.report.page.html import Html, folded, joined, pairs, plain
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.manifest import duration

Manifests = Mapping[Group, Sequence[Mapping[str, Any]]]


def manifests(groups: Sequence[Group]) -> dict[Group, list[dict[str, Any]]]:
    """run.json of every run of every group."""
    return {group: [RunDirectory(run.path).read_json("run.json") for run in group.runs] for group in groups}


def provenance(of: Manifests, names: Mapping[Group, str]) -> Html:
    """What all runs have in common, as far as they do, and a table of the runs."""
    every = [manifest for own in of.values() for manifest in own]
    packages = dict.fromkeys(name for manifest in every for name in manifest.get("versions") or {})
    versions = [
        (name, _listed(str((manifest.get("versions") or {}).get(name, "unknown")) for manifest in every))
        for name in packages
    ]
    data = dict.fromkeys(
        (
            manifest["dataset"]["name"] + ("" if run.fold is None else f", fold {run.fold}"),
            manifest["dataset"]["fingerprint"],
        )
        for group, own in of.items()
        for run, manifest in zip(group.runs, own, strict=True)
    )
    common = [
        *versions,
        ("git commit", _listed(map(_commit, every))),
        ("results version", _listed(str(manifest.get("results_version")) for manifest in every)),
        ("device", _listed(_device(manifest) for manifest in every)),
        ("run between", f"{min(map(_started, every))} and {max(map(_ended, every))}"),
        ("time of all runs", duration(sum(manifest.get("seconds") or 0 for manifest in every))),
        *((f"{name}, sha256", fingerprint) for name, fingerprint in data),
    ]
    return joined([pairs(common), folded(f"{len(every)} runs", _runs(of, names))], "\n")


def warnings(of: Manifests) -> list[str]:
    """What may make runs of a report differ for other reasons than their settings."""
    every = [manifest for own in of.values() for manifest in own]
    lines = []
    for what in ("ol2r", "torch", "numpy"):
        found = sorted({str((manifest.get("versions") or {}).get(what)) for manifest in every})
        if len(found) > 1:
            lines.append(f"The runs were made with several versions of {what}: {', '.join(found)}.")
    if any((manifest.get("git") or {}).get("dirty") for manifest in every):
        lines.append("Some runs were made by a checkout with changes that no commit has.")
    return lines


def _runs(of: Manifests, names: Mapping[Group, str]) -> Html:
    rows = [
        (
            str(run.path),
            names[group],
            "" if run.fold is None else str(run.fold),
            ranges(run.seeds),
            _ended(manifest),
            duration(manifest.get("seconds") or 0),
            _device(manifest),
            _commit(manifest)[:19],
        )
        for group, own in of.items()
        for run, manifest in zip(group.runs, own, strict=True)
    ]
    headings = ("directory", "group", "fold", "seeds", "ended (UTC)", "time", "device", "git commit")
    return plain(headings, rows, "Each run by itself")


def ranges(seeds: Iterable[int]) -> str:
    """Such as 0–4, 10."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and runs[-1][1] == seed - 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def _listed(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _commit(manifest: Mapping[str, Any]) -> str:
    git = manifest.get("git")
    return "none (installed package)" if not git else git["commit"] + (" with changes" if git.get("dirty") else "")


def _device(manifest: Mapping[str, Any]) -> str:
    threads = manifest.get("threads")
    return f"{manifest.get('device')}, {threads} thread{'s' * (threads != 1)}"


def _started(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("started") or "").replace("T", " ").removesuffix("+00:00")


def _ended(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("ended") or "").replace("T", " ").removesuffix("+00:00")
