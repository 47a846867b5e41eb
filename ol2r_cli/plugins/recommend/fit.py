"""One fit: from a configuration to reviews, model and run directory, and what the directory has in the end.

A fit is a run without rounds: the same directory, id, sweep and report. It has no checkpoint: one that was killed
starts again, to the same files. `per_user.parquet` has NDCG of every test user, so that tests are paired over users.
"""

from __future__ import annotations

import io
import logging
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
import yaml
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ol2r_cli.columns import EVALUATION_COLUMNS, TRACE_COLUMNS, RunColumns, ndcg_columns
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import names_of
from ol2r_cli.config.ranges import WholeNumber, check_settings
from ol2r_cli.plugins import Render
from ol2r_cli.plugins.recommend.evaluation import CUTOFFS, ndcg, rankings, users_of
from ol2r_cli.plugins.recommend.model import Recommender
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.run import CONFIG, SUMMARY
from ol2r_cli.run.experiment import Make
from ol2r_cli.run.identity import RESULTS_VERSION, identity
from ol2r_cli.run.lifecycle import Lifecycle
from ol2r_cli.run.own_code import own_code
from ol2r_cli.run.run import EVALUATION, Run, Table
from ol2r_cli.run.store import LOGGER, Manifest, RunDirectory
from ol2r_cli.tensor.numpy_streams import other_numbers
from ol2r_cli.text.formatting import duration, number, printable

MODEL, TREES = "model.npz", "tree.json"
PER_USER = Table("per_user.parquet", ("user",), {"user": "Int64"})  # a column per metric, a row per user of a split
_GROUPS = ("reviews", "model", "device", "launcher")
_NOT_HASHED = ("reviews", "device", "explain", "interview")  # and what no run hashes; the fingerprint says the reviews
_WITH_HIT = "users=with_hit leaves out users without a hit among the first 100: a model can gain by having fewer hits"
_log = logging.getLogger(LOGGER)


@dataclass(frozen=True)
class ExplainSettings:
    """Which recommendation to explain: of an item to a user, or without an item of the user's first ten."""

    user: WholeNumber | None
    item: WholeNumber | None
    out: str | None


@dataclass(frozen=True)
class FitSettings:
    """The settings of configs/recommend.yaml, where each is described, with the values that it may have."""

    seed: WholeNumber
    users: Literal["all", "with_hit"]
    explain: Mapping[str, Any]
    interview: bool
    note: str
    output_dir: str
    data_dir: str
    force: bool


class Fit:
    """A checked configuration with its reviews, its model (not fitted) and its run directory.

    `make` builds what the settings of a group name. ValueError for bad settings or data.
    """

    needs_gpu = False

    def __init__(
        self,
        settings: Mapping[str, Any],
        choices: Mapping[str, str],
        make: Make = build,
        code: Mapping[str, str] | None = None,
    ):
        self.began = time.monotonic()
        check_settings(FitSettings, {name: settings[name] for name in settings if name not in _GROUPS}, "")
        check_settings(ExplainSettings, settings["explain"], "explain")
        self.settings, self.choices = dict(settings), choices
        source = make(settings["reviews"], "reviews")
        self.model: Recommender = make(settings["model"], "model")
        if not callable(getattr(source, "load", None)) or isinstance(source, Recommender):
            raise ValueError(f"reviews._target_ must be a class with a method `load`, got {type(source).__name__}")
        if not isinstance(self.model, Recommender):
            what = f"a class that is {Recommender.__module__}.Recommender"
            raise ValueError(f"model._target_ must be {what}, got {type(self.model).__name__}")
        if settings["device"]["name"] != "cpu":
            raise ValueError(f"device must be cpu, since fits run on a CPU, got {settings['device']['name']}")
        self.reviews: Reviews = source.load()
        self._check_explained()
        self.code = own_code(self.settings) if code is None else code
        decisive = {name: value for name, value in settings.items() if name not in _NOT_HASHED}
        if other_numbers():
            decisive["numbers_of_numpy"] = other_numbers()
        self.id = identity(decisive, self.reviews.fingerprint, self.code)
        path = Path(settings["output_dir"]).expanduser() / choices["reviews"] / f"{choices['model']}-{self.id}"
        self.directory = RunDirectory(path, path.parents[1], (MODEL, TREES, PER_USER.file))

    def _check_explained(self) -> None:
        """Raise ValueError for a user or an item without a review for training, a file of another form than a page or
        JSON, and for what the model lacks: before the fit, which takes long."""
        reviews, explained = self.reviews, self.settings["explain"]
        if explained["out"] is not None and not explained["out"].endswith((".html", ".json")):
            raise ValueError(f"explain.out must end in .html or .json, got {explained['out']}")
        if explained["user"] is None and explained["item"] is not None:
            raise ValueError("explain.item needs a user: type explain.user=NUMBER")
        for side, owners in (("user", reviews.user), ("item", reviews.item)):
            number = explained[side]
            if number is not None and reviews.place(side, number) not in owners[reviews.train]:
                raise ValueError(f"explain.{side} must have a training review, got {number}, which has none")
        needed = {
            "explain": explained["item"] is not None,
            "interview": self.settings["interview"],
            "fold_in": reviews.observed is not None,
        }
        for method, given in needed.items():
            if given and getattr(type(self.model), method) is getattr(Recommender, method):
                getattr(self.model, method)(*(0, 0) if method == "explain" else (None,))  # ValueError

    def setup_error(self) -> str:
        """Return an empty text: the constructor has checked everything."""
        return ""

    def stored(self) -> Run | None:
        """Return the run on disk, all of its files compared; None if it was not begun, and with `force=true`."""
        return None if self.settings["force"] else Run.read(self.directory.path, thorough=True)

    def restored(self) -> Recommender:
        """Return the fitted model of the finished run."""
        content = io.BytesIO(Run.read_finished(self.directory.path).content(MODEL))
        with np.load(content, allow_pickle=False) as arrays:
            self.model.load(dict(arrays), self.reviews)
        return self.model

    def recommended(self, model: Recommender, users: NDArray[np.int64], split: str, places: int) -> NDArray[np.int64]:
        """Return the first `places` items [n, places] for each user."""
        reviews = self.reviews
        if reviews.observed is None:
            return rankings(model.scores, reviews, split, places, users)
        new, profiles = users_of(reviews, "test"), reviews.user_profile(reviews.observed)

        def scores(users: NDArray[np.int64]) -> NDArray[np.float32]:
            values = model.scores(users)
            for row in np.flatnonzero(np.isin(users, new)):
                values[row] = model.fold_in(profiles[users[row]])
            return values

        return rankings(scores, reviews, split, places, users)

    def values(self, model: Recommender, split: str, cutoffs: tuple[int, ...] = CUTOFFS) -> pl.DataFrame:
        """Return NDCG of each user with a review in a split: columns user (its number), <split>_ndcg_10, .."""
        users = users_of(self.reviews, split)
        lists = self.recommended(model, users, split, max(cutoffs))
        columns = ndcg(lists, users, self.reviews, split, cutoffs).T
        frame = {f"{split}_ndcg_{cutoff}": column for cutoff, column in zip(cutoffs, columns, strict=True)}
        return pl.DataFrame({"user": self.reviews.numbers("user")[users]} | frame)


class FitRunner(Lifecycle):
    """Fits a model and writes what it has, the values of every user, and their means."""

    kind_name = "recommend"

    def __init__(self, experiment: Fit, words: Sequence[str], render: Render | None = None):
        super().__init__(experiment.settings, experiment.directory, words, render)
        self.fit, self.seed = experiment, int(experiment.settings["seed"])
        self.steps: list[dict[str, float]] = []
        self.line = sys.stderr if render and sys.stderr.isatty() else None  # where to show the last step

    def _interrupted(self) -> tuple[str, str]:
        return f"after step {len(self.steps)}", "starts again"

    def _resume(self) -> int:
        self.directory.clear()
        return 0

    def _explain(self, error: Exception) -> str:
        if isinstance(error, FloatingPointError):
            return f"model={self.fit.choices['model']} diverged ({error}): make its learning rate smaller, or l2 larger"
        return super()._explain(error)

    def _manifest(self, first: int) -> Manifest:
        fit, choices = self.fit, self.fit.choices
        recorded = {name: value for name, value in self.settings.items() if name not in ("explain", "interview")}
        self.directory.write_text(CONFIG, yaml.safe_dump(recorded, sort_keys=False, allow_unicode=True))
        columns = {column.name: column for column in (ndcg_columns(cutoff)[2] for cutoff in CUTOFFS)}
        return Manifest(
            self.directory,
            id=fit.id,
            # Readers of runs find reviews and model under the names that are those of experiments, too.
            choices={"dataset": choices["reviews"], "click": "none", "ranker": choices["model"]}
            | {group: choices[group] for group in ("reviews", "model")},
            fingerprint=fit.reviews.fingerprint,
            code=fit.code or None,
            seeds=[self.settings["seed"]],
            rounds=1,
            device="cpu",
            threads=self.settings["device"]["threads"],
            packages=["scikit-learn", "scipy", *fit.model.packages],
            command=self.command,
            typed=names_of(self.words) or None,
            note=self.settings["note"],
            columns=RunColumns(TRACE_COLUMNS, {**EVALUATION_COLUMNS, **columns}).declared(),
            began=fit.began,
            own_time=self.time.read,
            explain=self._explain,
        )

    def _introduce(self, first: int) -> None:
        _log.info("%s", self.command)
        if self.settings["users"] == "with_hit":
            _log.warning(_WITH_HIT)
            print(f"warning: {_WITH_HIT}", file=sys.stderr)

    def _play(self) -> None:
        values = self._fitted_values()
        if self.settings["users"] == "with_hit":
            last = CUTOFFS[-1]
            values = {split: users.filter(pl.col(f"{split}_ndcg_{last}") > 0) for split, users in values.items()}
        self._write_model()
        steps = pl.DataFrame(self.steps, schema_overrides={"seed": pl.Int64, "round": pl.Int64})
        self.directory.write_parquet(EVALUATION.file, steps.with_columns(split=pl.lit("validation")))
        users = values["test"].join(values["validation"], on="user", how="full", coalesce=True).sort("user")
        self.directory.write_parquet(PER_USER.file, users)
        self.directory.write_json(SUMMARY, summarise(values, self.seed))
        self.manifest.progress(1)
        _log.info("finished")
        self._close()

    def _fitted_values(self) -> dict[str, pl.DataFrame]:
        """Fit the model; returns the NDCG of each user by split, test first."""
        fit = self.fit

        def validate(model: Recommender) -> float:
            return float(fit.values(model, "validation", (50,))["validation_ndcg_50"].mean())  # type: ignore[arg-type]

        with (
            threadpool_limits(self.settings["device"]["threads"]),
            torch.inference_mode(False),
            torch.enable_grad(),
            np.errstate(over="ignore", invalid="ignore"),  # what is not finite ends the fit by its scores
        ):
            fit.model.fit(fit.reviews, self.seed, self._progress, validate)
            self._show("")
            return {split: fit.values(fit.model, split) for split in ("test", "validation")}

    def _progress(self, step: int, **values: float) -> None:
        """Record a step of the fit. KeyboardInterrupt if the run is to stop."""
        if self.stop:
            raise KeyboardInterrupt
        recorded = {name: float(value) for name, value in values.items()}
        self.steps.append({"seed": self.seed, "round": step, **recorded})
        told = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in values.items())
        _log.info("step %d: %s", step, told)
        self._show(f"step {step}: {told}")
        self.manifest.progress(0)

    def _show(self, text: str) -> None:
        """Replace the line on the terminal, if there is one."""
        if self.line:
            print(f"\r\x1b[K{text}", end="", file=self.line, flush=True)

    def _write_model(self) -> None:
        arrays = io.BytesIO()
        np.savez(arrays, **self.fit.model.state())  # type: ignore[arg-type]
        with arrays.getbuffer() as view:
            self.directory.write_bytes(MODEL, view)
        if (trees := self.fit.model.trees()) is not None:
            self.directory.write_json(TREES, trees)


def summarise(values: Mapping[str, pl.DataFrame], seed: int) -> dict[str, Any]:
    """Return the content of summary.json: of each column of a split mean, sd and number of the users' values."""
    metrics = {}
    for users in values.values():
        for name in users.columns[1:]:  # the first is `user`
            column = users[name].to_numpy()
            mean = float(column.mean()) if len(column) else 0.0
            sd = float(column.std(ddof=1)) if len(column) > 1 else None
            metrics[name] = {"mean": mean, "sd": sd, "n": len(column)}
    means = {name: [metric["mean"]] for name, metric in metrics.items()}
    by_seed = {"seed": [seed], **means}
    return {"results_version": RESULTS_VERSION, "seeds": 1, "rounds": 1, "metrics": metrics, "by_seed": by_seed}


def differences(run: Run) -> Iterator[str]:
    """Yield what is wrong with a finished fit: the metrics of its summary are the means over users."""
    means = run.table(PER_USER).drop("user").mean().row(0, named=True)
    for name, mean in means.items():
        if not math.isclose(run.summary[name]["mean"], mean or 0.0, rel_tol=1e-9, abs_tol=1e-9):
            yield f"{SUMMARY}: metrics are not the means of {PER_USER.file}"
            return


def render(run: Run, finished_before: bool = False) -> str:
    """Return the text that `ol2r recommend` prints for a finished fit."""
    choices, metrics, steps = run.choices, run.summary, run.evaluation

    def of(split: str) -> str:
        return ", ".join(number(metrics[f"{split}_ndcg_{cutoff}"]["mean"], 4) for cutoff in CUTOFFS)

    memory = run.manifest.get("peak_memory_gb")
    lines = {
        "fit": f"model {choices['model']}, reviews {choices['reviews']}, seed {run.seeds[0]}",
        "note": run.manifest.get("note", ""),
        "test": f"NDCG@{', '.join(map(str, CUTOFFS))}: {of('test')} ({metrics['test_ndcg_10']['n']:,} users)",
        "validation": f"{of('validation')} ({metrics['validation_ndcg_10']['n']:,} users)",
        "time": f"{duration(run.manifest['seconds'])}, {len(steps)} steps" + (f", {memory:.1f} GB" if memory else ""),
        "files": str(run.path),
    }
    texts = [f"finished: fit {run.id}", *(f"  {name:<10} {line}" for name, line in lines.items() if line)]
    return "\n".join(map(printable, texts)) + ("\n(done before: force=true fits it again)" if finished_before else "")
