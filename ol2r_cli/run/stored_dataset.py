"""The dataset of a finished run, from the settings in its directory, which may come from others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build, check_stored
from ol2r_cli.dataset.table import DatasetSource
from ol2r_cli.formatting import error_line
from ol2r_cli.untrusted_file import read_yaml


def stored_settings(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of the run in a directory, as `config.yaml` has them; nothing in them has been checked.

    ValueError for a damaged file.
    """
    try:
        content = read_yaml(path / "config.yaml")
        return {**content, "dataset": dict(content["dataset"])}
    except (OSError, LookupError, TypeError, ValueError) as error:
        command, reason = manifest["command"], error_line(error)
        raise ValueError(f"{path}/config.yaml is damaged ({reason}): type {command} force=true") from error


def stored_dataset_settings(
    path: Path, settings: Mapping[str, Any], own_targets: Collection[str] = (), data: Path | None = None
) -> dict[str, Any]:
    """The settings of the dataset of a run, checked, with its data in the folder `data` (None: where they were).

    The cache is that of this machine: what a run names is read, and never written to. Raises ValueError for a class
    that is not trusted (`own_targets` are those of `check_stored`), and for `data` of a run that generates its own.
    """
    dataset = settings["dataset"]
    check_stored(dataset, "dataset", path / "config.yaml", own_targets)
    if data is not None and "path" not in dataset:
        raise ValueError(f"--data is for data that lie in files, got {data}: {path} generates its own")
    here = {"cache_dir": Catalogue().root.values["cache_dir"]} if "cache_dir" in dataset else {}
    resolved: Any = OmegaConf.to_container(OmegaConf.create(here), resolve=True)
    return {**dataset, **resolved, **({} if data is None else {"path": str(data)})}


def dataset_source(settings: Mapping[str, Any]) -> DatasetSource:
    """What loads a dataset with these settings; ValueError for the class of something else."""
    source = build(OmegaConf.create({"dataset": settings}).dataset)
    if not isinstance(source, DatasetSource):
        raise ValueError(f"dataset._target_ must be a dataset, got {settings['_target_']}")
    return source
