"""What a finished run has trained and was trained on, built again from its files, and whether its numbers fit them.

The files may come from others: only classes that are trusted are built (`config/instantiate.py`), and what a run names
is read and never written to.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from omegaconf import OmegaConf
from torch import Tensor

from ol2r_cli.columns import ndcg_columns
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.dataset.inference import FeatureSource
from ol2r_cli.dataset.table import Dataset, DatasetSource
from ol2r_cli.interfaces import Candidates, Ranker
from ol2r_cli.metrics.evaluation import GROUP, groups_by_length
from ol2r_cli.plugins import kind_of, run_parts
from ol2r_cli.run import CONFIG, RANKER, SUMMARY
from ol2r_cli.run.identity import RESULTS_VERSION, added_values
from ol2r_cli.run.own_code import check_stored, check_unchanged
from ol2r_cli.run.run import EVALUATION, TRACE, Run, damaged_files
from ol2r_cli.run.summary import summarise
from ol2r_cli.tensor.shapes import Float

_ODD_VALUES = OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError  # of an edited run
TOLERANCE = 1e-6  # of online NDCG, which is stored in single precision, and of cumulative NDCG per round


class TrainedRanker:
    """The ranker of a finished run.

    `deployed` is what `Ranker.deploy` returned after the last round, replicas in the order of `seeds`; `features` is
    the number of features that the ranker sees. `own_targets` are classes of the user that the run may name, besides
    those of ol2r and of plug-ins. Raises ValueError, which says what to type, when `ranker.pt` is missing, damaged or
    names another class, and when the ranker cannot score queries that it has not served.
    """

    deployed: Float[Tensor, "B P"]

    def __init__(self, run: Run, own_targets: Collection[str] = ()):
        kind = kind_of(run.choices)
        if kind.name != "run":
            raise ValueError(f"RUN must be of `ol2r run`, got {run.path}, which is of ol2r {kind.name}")
        self.run, self.own_targets = run, own_targets
        self._sources: dict[Path | None, FeatureSource] = {}  # by where the data are
        file = run.path / RANKER
        try:
            self.deployed, self.seeds, self.features, stored = _content_of(run)
        except FileNotFoundError:
            raise ValueError(f"{run.path} has no {RANKER}: type {run.command} force=true") from None
        except Exception as error:  # torch.load has no end of them
            raise _damaged(run, error) from None
        settings = local_settings(stored, "ranker", file, own_targets)
        self.ranker: Ranker = build(settings, "ranker")
        if not isinstance(self.ranker, Ranker):
            raise ValueError(f"ranker._target_ in {file} must be a ranker, got {settings['_target_']}")
        check_unchanged(run.path, run.manifest, {"ranker": settings})
        sorts_by_label = self.ranker.needs_labels and not self.deployed.shape[1]
        if not self.ranker.generalises or sorts_by_label or self.ranker.of_table:
            what = f"ranker={run.choices['ranker']} cannot"
            raise ValueError(f"RUN must be of a ranker that can score new queries, got {run.path}: {what}")
        one, features = torch.zeros(1, 1, dtype=torch.int64), self.deployed.new_zeros(1, 1, self.features)
        try:  # whether the parameters fit the ranker
            self.ranker.score(self.deployed, Candidates(one[0], one, features, one == 0))
        except (RuntimeError, LookupError, ValueError, TypeError) as error:
            raise _damaged(run, error) from None

    def feature_source(self, data: Path | None = None) -> FeatureSource:
        """Return what makes the features that the ranker sees of documents that are to be scored.

        `data` is where the run's data are now, None where they were: they are needed when normalisation depends on the
        training split. Raises ValueError as `FeatureSource` does.
        """
        if data not in self._sources:
            source = dataset_source(dataset_settings(self.run, self.own_targets, data))
            self._sources[data] = FeatureSource(source, self.features, self.run.fingerprint)
        return self._sources[data]

    def scores(self, documents: Dataset, replica: int = 0) -> Float[Tensor, "N"]:
        """Return the scores of `documents`, in their order, by a replica. They are served as in the evaluation."""
        split = documents.split("test", dtype=self.deployed.dtype)
        deployed = self.deployed[replica : replica + 1]
        scores = self.deployed.new_empty(len(documents.labels))
        for group in groups_by_length(split, GROUP):
            candidates, _ = split.serve(group)
            of_group = self.ranker.score(deployed, candidates)[0]
            scores[candidates.document[candidates.mask]] = of_group[candidates.mask]
        return scores

    def replica(self, seed: int | None, name: str) -> int:
        """Return the replica of a seed, 0 for None; ValueError, which has how it is typed, for an unknown seed."""
        if seed is not None and seed not in self.seeds:
            raise ValueError(f"{name} must be one of {', '.join(map(str, self.seeds))}, got {seed}")
        return 0 if seed is None else self.seeds.index(seed)


def _content_of(run: Run) -> tuple[Float[Tensor, "B P"], list[int], int, dict[str, Any]]:
    """Return what `ranker.pt` has: parameters, seeds, number of features and settings. Any error if it is damaged."""
    content = torch.load(io.BytesIO(run.content(RANKER)), map_location="cpu", weights_only=True)
    deployed, seeds = content["deployed"], [int(seed) for seed in content["seeds"]]
    is_dense = deployed.layout == torch.strided and deployed.is_floating_point()
    if not is_dense or deployed.shape != (len(seeds), deployed.shape[1]):
        raise ValueError("its parameters are not numbers for every seed")
    return deployed, seeds, int(content["features"]), dict(content["ranker"])


def _damaged(run: Run, error: Exception) -> ValueError:
    """Return the error of a damaged `ranker.pt`, with what to type."""
    return ValueError(f"{run.path / RANKER} is damaged ({type(error).__name__}): type {run.command} force=true")


def run_settings(run: Run, own_targets: Collection[str] = (), data: Path | None = None) -> dict[str, Any]:
    """Return all settings of a run as they may be used here, as of `local_settings` and `dataset_settings`."""
    file = run.path / CONFIG
    stored = {name: local_settings(value, name, file, own_targets) for name, value in run.settings.items()}
    return {**added_values(), **stored, "dataset": dataset_settings(run, own_targets, data)}


def local_settings(settings: Any, name: str, file: Path, own_targets: Collection[str] = ()) -> Any:
    """Return the settings that a run stores in `file` as they may be used here; `name` is the group, or the setting.

    They are checked (`check_stored`), and the folders to which arrays and results are written, wherever they are named,
    are those of this machine. All that builds what a run names begins with this function.
    """
    check_stored(settings, name, file, own_targets)
    return _with_local_folders(settings, name)


def _with_local_folders(settings: Any, name: str) -> Any:
    setting = name.rpartition(".")[2]
    if setting == "cache_dir":
        return OmegaConf.create({setting: Catalogue().root.values[setting]})[setting]
    if setting == "output_dir":
        return str(default_output_dir())
    if isinstance(settings, Mapping):
        return {key: _with_local_folders(value, f"{name}.{key}") for key, value in settings.items()}
    if isinstance(settings, list):
        return [_with_local_folders(value, f"{name}[]") for value in settings]
    return settings


def dataset_settings(run: Run, own_targets: Collection[str] = (), data: Path | None = None) -> dict[str, Any]:
    """Return the settings of a run's dataset, with its data in the folder `data` (None: where they were).

    They are `local_settings`. Raises ValueError for a damaged config.yaml, for a class that is not trusted
    (`own_targets` are those of `check_stored`), and for `data` of a run that generates its own.
    """
    dataset = run.settings.get("dataset")
    if not isinstance(dataset, dict):
        raise ValueError(f"{run.path / CONFIG} is damaged (it has no dataset): type {run.command} force=true")
    settings: dict[str, Any] = local_settings(dataset, "dataset", run.path / CONFIG, own_targets)
    if str(settings.get("_target_")).startswith("ol2r_cli.dataset."):
        settings = {"popularity": "uniform", **settings}  # which runs from before there was the setting do not name
    if data is not None and "path" not in dataset:
        raise ValueError(f"--data is for data that lie in files, got {data}: {run.path} generates its own")
    return settings if data is None else {**settings, "path": str(data)}


def dataset_source(settings: Mapping[str, Any]) -> DatasetSource:
    """Return what loads a dataset with these settings; ValueError for the class of something else."""
    source = build(settings, "dataset")
    if not isinstance(source, DatasetSource):
        raise ValueError(f"dataset._target_ must be a dataset, got {settings['_target_']}")
    return source


def differences(run: Run, notes: list[str] | None = None) -> Iterator[str]:
    """Yield what is wrong with a finished run, each in a few words; nothing if it is intact.

    Looked at are sizes and hashes of files, and what its kind compares. What cannot be compared adds a line to `notes`.
    """
    wrong = list(damaged_files(run.path, run.manifest["files"]))
    yield from wrong
    try:
        yield from kind_of(run.choices).differences(run, [] if notes is None else notes)
    except (*_ODD_VALUES, pl.exceptions.PolarsError) as error:
        if not wrong:  # otherwise the damage has been named
            yield f"cannot be read ({str(error).splitlines()[0]})"


def differences_of_experiment(run: Run, notes: list[str]) -> Iterator[str]:
    """Yield what is wrong with the tables and the summary of a finished experiment.

    Looked at: rounds and seeds of the tables, cumulative NDCG against online NDCG, what parts of the run have written,
    and the summary against the tables. What cannot be compared adds a line to `notes`.
    """
    yield from _trace(run)
    for part in run_parts():
        if part.differences is not None:
            yield from part.differences(run, notes)
    yield from _evaluations(run)
    yield from _summary(run)


def _trace(run: Run) -> Iterator[str]:
    """Yield a fault unless the trace has each round of each seed once, and cumulative NDCG is the discounted sum of
    online NDCG, where queries that are skipped count 0."""
    trace, number = run.trace, pl.col("round")
    if not _has_each_once(run, trace, np.arange(1, run.rounds + 1)):
        seeds = sorted(run.seeds)
        yield f"{TRACE.file} has {len(trace):,} rows, which are not rounds 1 to {run.rounds:,} of seeds {seeds}"
    for cutoff, discount in ndcg_discounts(run).items():
        online, cumulative = (column.name for column in ndcg_columns(cutoff)[:2])
        steps = pl.col(online).cast(pl.Float64).fill_null(0) * discount ** (number - 1)
        error = (steps.cum_sum().over("seed") - pl.col(cumulative)).abs() / number
        largest = trace.select(error.max()).item()
        if largest is None or largest > TOLERANCE:
            yield f"{TRACE.file}: {cumulative} is not the discounted sum of {online}"


def ndcg_discounts(run: Run) -> dict[int, float]:
    """Return the discount of cumulative NDCG at each cutoff that a run has measured."""
    of_ndcg = [node for name, node in run.settings["measure"].items() if name.partition("@")[0] == "ndcg"]
    return {node["cutoff"]: node["discount"] for node in of_ndcg}


def _evaluations(run: Run) -> Iterator[str]:
    """Yield a fault unless every split is evaluated once for all seeds in the same rounds, the last one included."""
    for (split,), rows in run.evaluation.group_by("split", maintain_order=True):
        rounds = rows["round"].unique().sort().to_numpy()
        if rounds[-1] != run.rounds or not _has_each_once(run, rows, rounds):
            yield f"{EVALUATION.file}: split {split} lacks rounds of a seed, or has them twice"


def _has_each_once(run: Run, rows: pl.DataFrame, rounds: np.ndarray) -> bool:
    """Return whether rows of a table, which is sorted, are those of all seeds in these rounds."""
    seeds = sorted(run.seeds)
    expected = pl.DataFrame({"seed": np.repeat(seeds, len(rounds)), "round": np.tile(rounds, len(seeds))})
    return rows.select("seed", "round").equals(expected)


def _summary(run: Run) -> Iterator[str]:
    """Yield a fault unless the summary is that of the tables, up to the last digits, which differ between versions of
    polars."""
    content, expected = run.summary_file, summarise(run)
    if content.get("results_version") != RESULTS_VERSION:
        return
    for part in ("rounds", "seeds", "metrics", "by_seed"):
        if not _equal(content.get(part), expected[part]):
            yield f"{SUMMARY}: {part} is not that of the tables"


def _equal(content: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return content.keys() == expected.keys() and all(_equal(content[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(content) == len(expected) and all(map(_equal, content, expected))
    if isinstance(content, float) and isinstance(expected, float):
        return math.isclose(content, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(content == expected)
