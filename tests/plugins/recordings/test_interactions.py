"""Saved interactions against the trace, and what is said of a setting whose plug-in is not there."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import cli, plugins
from ol2r_cli.config.composer import compose
from ol2r_cli.run.experiment import Experiment
from tests.finished import run_in

SMALL = ["dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=8", "rounds=30", "replicas=2"]


def test_every_shown_document_is_a_row_and_nothing_else_changes(tmp_path: Path):
    saved, without = run_in(tmp_path / "saved", *SMALL, "save_interactions=true"), run_in(tmp_path / "without", *SMALL)
    assert saved.trace.equals(without.trace), "rounds are played one by one, as they are together"
    assert without.interactions.is_empty()
    rounds = saved.interactions.group_by("seed", "round", maintain_order=True)
    of_rounds = rounds.agg(pl.col("query").first(), pl.col("rank"), clicks=pl.col("click").sum())
    columns = ["seed", "round", "query", "clicks"]
    assert of_rounds.select(columns).rows() == saved.trace.select(columns).rows()
    assert all(ranks == [*range(1, len(ranks) + 1)] for ranks in of_rounds["rank"].to_list())
    assert not saved.interactions.select("seed", "round", "document").is_duplicated().any()


def test_a_run_that_needs_the_plugin_says_so(tmp_path: Path, monkeypatch, capsys):
    """And others keep their ids without it."""
    with_it = run_in(tmp_path / "with", *SMALL)
    without = {name: each for name, each in plugins.installed().plugins.items() if name != "recordings"}
    monkeypatch.setattr(plugins, "installed", lambda: plugins.Installed(without, {}))
    assert run_in(tmp_path / "without", *SMALL).id == with_it.id
    assert cli.main(["run", *SMALL, "save_interactions=true"]) == 2
    assert "there is no setting or group 'save_interactions'" in capsys.readouterr().err
    composition = compose(SMALL)
    with pytest.raises(ValueError, match="save_interactions needs a plug-in that is not installed: leave it out"):
        Experiment(composition.settings | {"save_interactions": True}, composition.choices)
