"""A ranker that is given and never learns, such as the one in production: by a feature, weights, a file of scores, or a
model of LightGBM or XGBoost."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.dataset.cache import expand
from ol2r_cli.dataset.records import as_text, place_of
from ol2r_cli.files import open_file, read_json
from ol2r_cli.interfaces import Candidates, Oracle, Prediction, Ranker, RunContext
from ol2r_cli.ranker.fixed import fixed_loops
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import linear_scores, predicted
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random
from ol2r_cli.text.formatting import listed, one_line

_COLUMNS = "query", "document", "score"
_LIGHTGBM, _XGBOOST = b"tree\n", b"{"  # the first bytes of their files
_CALLED = "a document is called by its name in a LETOR comment (# docid = NAME), or by its row from 0"


class FixedRanker(Ranker):
    """Serves the order of one source, in every round.

    feature: the number of a feature, from 1; with a minus small values come first. weights: of a linear score, a list,
    or a file: a number a line, .npy, or .json with weights by seed, as exported runs have them.
    scores: a csv or parquet file with the columns query, document and score. model_file: of LightGBM (text) or XGBoost
    (json, ubj). Feature, weights and models see the features as rankers do, normalised as the dataset says.

    With feature and weights the score is linear: it is deployed, and others may start from it. Scores of the other two
    are those of the documents of the data, computed once.
    """

    pairs = "none"

    theta: Tensor

    def __init__(
        self,
        feature: int | None,
        weights: str | Sequence[float] | None,
        scores: str | None,
        model_file: str | None,
    ):
        super().__init__()
        sources = {"feature": feature, "weights": weights, "scores": scores, "model_file": model_file}
        given: dict[str, Any] = {name: source for name, source in sources.items() if source is not None}
        if len(given) != 1:
            names = [self.setting(name) for name in sources]
            got = " and ".join(map(self.setting, given)) or "none: type such as ranker.feature=1"
            raise ValueError(f"one of {', '.join(names)} must be given, got {got}")
        self.source, self.given = next(iter(given.items()))
        self.linear = self.source in ("feature", "weights")
        self.of_table = not self.linear
        self.path = expand(self.given) if isinstance(self.given, str) else None

    def hashes(self) -> Mapping[str, str]:
        """Return that of the file; ValueError where there is none."""
        if self.path is None:
            return {}
        try:
            with open_file(self.path) as file:
                return {self.source: hashlib.file_digest(file, "sha256").hexdigest()}
        except OSError as error:
            must = f"{self.setting(self.source)} must be a file"
            raise ValueError(f"{must}, got {self.given}: {error.strerror or one_line(error)}") from None

    def size(self, features: int) -> int:
        return features if self.linear else 0

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Read the source; ValueError, which says what to type, where it does not fit the data."""
        if self.linear:
            values = self._weights(context, features.shape[1])
        elif self.source == "scores":
            values = scores_of_documents(expand(self.given), *context.names(), setting=self.setting("scores"))[None]
        else:
            values = self._scores_of_model(expand(self.given), features)[None]
        self.replicas, finite = context.replicas, np.isfinite(values)
        if not finite.all():
            raise ValueError(f"{self.setting(self.source)} must give finite numbers, got {values[~finite][0]}")
        theta = torch.tensor(values).to(context.device, context.dtype)
        if self.linear:
            self.register_buffer("theta", theta.expand(context.replicas, -1).clone())
        else:
            self.theta = theta.contiguous()  # of every document: it follows from the file, so that no checkpoint has it

    def stages(self) -> Any:
        score = loops.gradient_steps.scores_by_theta if self.linear else fixed_loops.scores_by_row
        state = fixed_loops.FixedState(self.theta, self.theta)
        return loops.rounds.RankerStages(score, fixed_loops.learns_nothing, state, by_theta=True)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        if self.linear:
            return predicted(linear_scores(self.theta[:, None], candidates)[:, 0], candidates)
        return predicted(self.theta[0][candidates.document] * candidates.mask, candidates)

    def deploy(self) -> Float[Tensor, "B P"]:
        """Return the weights; nothing where scores are those of documents."""
        return self.theta.clone() if self.linear else self.theta.new_zeros(self.replicas, 0)

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        if self.linear:
            documents = candidates.features.flatten(0, 1)[None]
            return Linear().forward(deployed[None], documents).scores[0].unflatten(1, candidates.mask.shape)
        return self.theta[0][candidates.document].expand(len(deployed), -1, -1)

    def _weights(self, context: RunContext, features: int) -> NDArray[np.float64]:
        """Return the weights [B, F], or [1, F] where all replicas have the same."""
        if self.source == "feature":
            if not 1 <= abs(self.given) <= features:
                must = f"{self.setting('feature')} must be from 1 to {features}, the features of the data"
                raise ValueError(f"{must}, or such a number with a minus, got {self.given}")
            weights = np.zeros((1, features))
            weights[0, abs(self.given) - 1] = np.sign(self.given)
            return weights
        weights = np.array([self.given], np.float64) if self.path is None else self._weights_in_file(self.path, context)
        if weights.shape[1] != features:
            must = f"{self.setting('weights')} must be {features} numbers, one for each feature of the data"
            raise ValueError(f"{must}, got {weights.shape[1]}")
        return weights

    def _weights_in_file(self, path: Path, context: RunContext) -> NDArray[np.float64]:
        """Return the weights in a file: [1, F], or [B, F] if they are those of several seeds."""
        setting = self.setting("weights")
        try:
            if path.suffix == ".json":
                rows = {int(seed): np.array(row, np.float64) for seed, row in read_json(path)["weights"].items()}
            elif path.suffix == ".npy":
                rows = {0: np.load(path, allow_pickle=False).astype(np.float64)}
            else:
                rows = {0: np.loadtxt(path, ndmin=1)}
            if not rows or any(row.ndim != 1 for row in rows.values()) or len({*map(len, rows.values())}) > 1:
                raise ValueError("they are not one list")
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            must = f"{setting} must be a file with a number a line, .npy, or .json with weights by seed"
            raise ValueError(f"{must}, got {path}: {one_line(error)}") from None
        if len(rows) == 1:
            return np.stack([*rows.values()])
        assert context.random is not None
        seeds = context.random.draw().seeds.tolist()
        missing = [seed for seed in seeds if seed not in rows]
        if missing:
            raise ValueError(f"{setting} has weights of the seeds {listed(sorted(rows))}, got seed {missing[0]}")
        return np.stack([rows[seed] for seed in seeds])

    def _package(self, path: Path) -> str:
        """Return whose model the file has; ValueError for another file."""
        with open_file(path) as file:
            first = file.read(len(_LIGHTGBM))
        if first == _LIGHTGBM:
            return "lightgbm"
        if first[:1] == _XGBOOST:
            return "xgboost"
        must = f"{self.setting('model_file')} must be a text file of LightGBM, or a json or ubj file of XGBoost"
        raise ValueError(f"{must}, as their save_model writes them, got {self.given}")

    def _scores_of_model(self, path: Path, features: Float[Tensor, "N F"]) -> NDArray[np.float64]:
        """Return the scores [N] of a model, before any transformation of its own such as a logistic function."""
        package, setting = self._package(path), self.setting("model_file")
        self.packages = (package,)
        try:
            library = import_module(package)
        except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
            needs = f"{setting}={self.given} needs {package} ({one_line(error)})"
            raise ValueError(f"{needs}: type pip install 'ol2r[{package}]'") from None
        try:
            model = library.Booster(model_file=str(path))
            number = model.num_feature() if package == "lightgbm" else model.num_features()
        except Exception as error:  # of the library: it has classes of its own
            raise ValueError(f"{setting} must be a model of {package}, got {self.given}: {one_line(error)}") from None
        if number != features.shape[1]:
            must = f"{setting} must be a model of {features.shape[1]} features, as the data have"
            raise ValueError(f"{must}, got {self.given} of {number}")
        if package == "lightgbm":
            found = model.predict(features.numpy(), raw_score=True, num_threads=torch.get_num_threads())
        else:
            model.set_param({"nthread": torch.get_num_threads()})
            found = model.inplace_predict(features.numpy(), predict_type="margin")
        if found.shape != (len(features),):
            raise ValueError(f"{setting} must give a score for each document, got {self.given} with several")
        return np.asarray(found, np.float64)


def scores_of_documents(
    path: Path, query: Sequence[str], document: Sequence[str], setting: str = "FILE"
) -> NDArray[np.float64]:
    """Return the scores [N] in a csv or parquet file of the documents with these names, each of a query.

    Other rows are left out, and so are equal ones. `setting` is what errors call the file. ValueError for a file that
    cannot be read, and where it has no score of a document, several ones, or one that is not a number.
    """
    try:
        is_parquet = path.suffix == ".parquet"
        table = pl.read_parquet(path) if is_parquet else pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{setting} must be a csv or parquet file, got {path}: {one_line(error)}") from None
    lacking = [name for name in _COLUMNS if name not in table.columns]
    if lacking:
        must = f"{setting} must have the columns {', '.join(_COLUMNS)}"
        raise ValueError(f"{must}, got {path} without {listed(lacking)} (it has: {listed(table.columns)})")
    ids = [as_text(path, table[name]).str.strip_chars() for name in _COLUMNS[:2]]
    score = table["score"].cast(pl.Float64, strict=False)
    bad = ~score.is_finite().fill_null(False)
    if bad.any():
        row = int(bad.arg_max() or 0)
        where = f"row {row + 1}" if is_parquet else place_of(path, row)
        raise ValueError(f"{setting} must have a number as score, got {table['score'][row]} in {where} of {path}")
    given = pl.DataFrame([*ids, score.alias("score")]).unique(maintain_order=True)
    again = given.filter(given.select(_COLUMNS[:2]).is_duplicated())
    if len(again):
        of = f"document {again['document'][0]} of query {again['query'][0]}"
        raise ValueError(f"{setting} must have one score for each document, got two for {of} in {path}")
    tried = []
    for names in document, [*map(str, range(len(query)))]:
        of_data = pl.DataFrame([pl.Series("query", query, pl.String), pl.Series("document", names, pl.String)])
        tried.append(of_data.join(given, on=_COLUMNS[:2], how="left", maintain_order="left"))
    found = max(tried, key=lambda table: table["score"].count())
    missing = found.filter(pl.col("score").is_null())
    if len(missing):
        such_as = f"document {missing['document'][0]} of query {missing['query'][0]}"
        got = f"got none for {len(missing):,} of {len(query):,}, such as {such_as}, in {path}"
        raise ValueError(f"{setting} must have a score for each document of all splits, {got}: {_CALLED}")
    return found["score"].to_numpy()
