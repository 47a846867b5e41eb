"""A finished run: its settings, its tables as frames, its ranker."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.survey import find_run, read_state

if TYPE_CHECKING:
    import polars as pl

    from ol2r_cli.api.picture import Picture
    from ol2r_cli.learned import Learned
    from ol2r_cli.results.schema import Table


class Run:
    """What lies in a run directory, given by its path or, below `root`, its id; read when it is first asked for.

    ValueError where there is no run, or none that is finished. What the files and columns mean is in docs/outputs.md.
    """

    def __init__(self, run: str | PathLike[str], root: str | PathLike[str] = "outputs"):
        self.path = find_run(str(run), root)
        self._directory = RunDirectory(self.path)
        state = read_state(self.path)
        if state is None or state.state != "finished":
            how = "no run" if state is None else state.state + (f": {state.error}" if state.error else "")
            raise ValueError(f"a run must be finished, got {self.path} ({how})")
        self.manifest: Mapping[str, Any] = state.manifest  # run.json

    def __repr__(self) -> str:
        chosen = ", ".join(f"{group}={self.choices[group]}" for group in ("ranker", "click", "dataset"))
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        return f"<Run {self.id}: {chosen}, {self.rounds} rounds, {seeds}, in {self.path}>"

    @property
    def id(self) -> str:
        return self.manifest["id"]

    @property
    def choices(self) -> Mapping[str, str]:
        """The choice of each group."""
        return self.manifest["choices"]

    @property
    def seeds(self) -> list[int]:
        return list(self.manifest["seeds"])

    @property
    def rounds(self) -> int:
        return self.manifest["progress"]["rounds"]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings, as config.yaml has them: settings["ranker"]["l2"]."""
        import yaml

        return yaml.safe_load((self.path / "config.yaml").read_text())

    @cached_property
    def summary(self) -> dict[str, dict[str, Any]]:
        """Final values: metric -> mean, sd (over seeds, n - 1) and n."""
        return self._directory.read_json("summary.json")["metrics"]

    @cached_property
    def per_seed(self) -> pl.DataFrame:
        """The values behind `summary`: a row per seed, a column per metric."""
        from ol2r_cli.results.summary import by_seed

        return by_seed(self._directory)

    @cached_property
    def trace(self) -> pl.DataFrame:
        """A row per seed and round."""
        return self._read("TRACE")

    @cached_property
    def evaluation(self) -> pl.DataFrame:
        """A row per seed, evaluated round and split."""
        return self._read("EVALUATION")

    @cached_property
    def blocks(self) -> pl.DataFrame:
        """Block size at every rank; empty without `block_rounds`, or without blocks."""
        return self._read("BLOCKS")

    @cached_property
    def interactions(self) -> pl.DataFrame:
        """What was shown and clicked; empty without `save_interactions=true`."""
        return self._read("INTERACTIONS")

    @cached_property
    def learned(self) -> Learned:
        """The learned ranker of every seed; ValueError where it cannot score queries that are new."""
        from ol2r_cli.learned import Learned

        return Learned(self.path)

    def score(
        self, file: str | PathLike[str], seed: int | None = None, data: str | PathLike[str] | None = None
    ) -> pl.Series:
        """Scores of all documents of a LETOR file, in its order, as `ol2r score` gives them.

        `seed` names the replica (None: the first); `data` is where the run's data are now, where they are needed.
        """
        import polars as pl
        import torch

        with torch.inference_mode():
            scores = self.learned.scores(Path(file), seed, None if data is None else Path(data))
        return pl.Series("score", scores.numpy())

    def plot(self, kind: str = "learning_curve", **options: Any) -> Picture:
        """A figure of this run alone; see `draw`."""
        from ol2r_cli.api.calls import draw

        return draw(kind, self, **options)

    def _read(self, name: str) -> pl.DataFrame:
        from ol2r_cli.results import schema

        table: Table = getattr(schema, name)
        return table.read(self._directory)
