"""What a plug-in may record of a run: rounds in a table of its own, as `RunPart` says."""

from __future__ import annotations

from typing import Any

import pytest

from ol2r_cli import cli, plugins
from ol2r_cli.plugins import Installed, Plugin, RunPart
from ol2r_cli.run.identity import added_values
from ol2r_cli.run.run import Run, Table, find_runs
from tests.moments import stop_at

SMALL = ["dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=8", "rounds=30", "replicas=2"]
KEY = {"seed": "Int64", "round": "Int64", "rank": "Int32"}
TALLY = Table("tally.parquet", ("seed", "round", "rank"), KEY | {"document": "Int64"})


def record(runner: Any, every: int, t: int, interaction: Any):
    """Record the documents shown in every so many rounds."""
    if t % every == 0:
        shown = interaction.shown.numpy()
        document = interaction.candidates.document.gather(1, interaction.ranking).numpy()
        runner.trace.record_places(TALLY, t, shown, {"document": document})


@pytest.fixture
def tally(monkeypatch):
    """A plug-in with a setting that has rounds recorded."""
    part = RunPart(
        setting="tally",
        line="tally: 0  # every so many rounds",
        table=lambda: TALLY,
        prepare=lambda experiment: experiment.settings["tally"],
        record=record,
    )
    plugin = Plugin(name="tally", about="documents shown", run_parts=[part])
    there = Installed({**plugins.installed().plugins, "tally": plugin}, {})
    monkeypatch.setattr(plugins, "installed", lambda: there)
    added_values.cache_clear()
    yield
    added_values.cache_clear()


WORDS = ["run", *SMALL, "tally=4", "ranker=random", "save_interactions=true", "--quiet"]


@pytest.mark.usefixtures("tally")
def test_a_part_records_rounds_in_a_table_of_its_own(tmp_path, monkeypatch):
    """It is the same where the run is interrupted: its rows are in parts then, of which the checkpoint knows."""
    assert cli.main([*WORDS, f"output_dir={tmp_path / 'whole'}"]) == 0
    for round in 9, 26:
        with monkeypatch.context() as patch:
            stop_at(patch, round)
            assert cli.main([*WORDS, f"output_dir={tmp_path / 'stopped'}"]) == 130
        assert list((tmp_path / "stopped").rglob("tally.part*.parquet"))
    assert cli.main([*WORDS, f"output_dir={tmp_path / 'stopped'}"]) == 0
    whole, stopped = (Run.read_finished(next(find_runs(tmp_path / name))) for name in ("whole", "stopped"))
    rows = whole.table(TALLY)
    assert rows["round"].unique().to_list() == [4, 8, 12, 16, 20, 24, 28]
    assert rows.equals(whole.interactions.filter(whole.interactions["round"] % 4 == 0).select(rows.columns))
    assert (stopped.path / TALLY.file).read_bytes() == (whole.path / TALLY.file).read_bytes()
    assert not list(stopped.path.glob("*.part*"))
    assert [*whole.manifest["files"]][-1] == TALLY.file


@pytest.mark.usefixtures("tally")
def test_a_run_without_a_part_is_as_without_its_plugin(tmp_path, monkeypatch):
    assert cli.main(["run", *SMALL, "ranker=random", "tally=0", f"output_dir={tmp_path / 'with'}", "--quiet"]) == 0
    monkeypatch.undo()
    added_values.cache_clear()
    assert cli.main(["run", *SMALL, "ranker=random", f"output_dir={tmp_path / 'without'}", "--quiet"]) == 0
    (there,), (absent,) = (list(find_runs(tmp_path / name)) for name in ("with", "without"))
    assert there.name == absent.name
    assert not (there / TALLY.file).exists()
