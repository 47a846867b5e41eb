"""A measure of the user, one file and one YAML, is in every output without another edit."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Measure
from ol2r_cli.metrics.measurement import check_columns
from ol2r_cli.plugins.export.tensorboard import tracked_run
from ol2r_cli.run.run import Run, find_runs
from tests.worlds import TINY

CODE = '''\
"""Abandonment: rounds without a click, and lists whose first places have nothing relevant."""

from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Measure


class Abandonment(Measure):
    """1 for a list without a click; offline 1 for a list without a relevant document among the first three."""

    trace = (Column("abandoned", "abandonment", higher_is_better=False, digits=3),)
    evaluation = (Column("barren_3", "barren@3", higher_is_better=False),)

    def of_rounds(self, rounds):
        return {"abandoned": (~rounds.clicks.any(2)).double()}

    def of_lists(self, lists):
        return {"barren_3": (lists.labels[..., :3] == 0).all(-1).double()}
'''
SETTINGS = "# Rounds without a click.\n_target_: own_abandonment.Abandonment\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    """A folder with the measure and a finished run that takes it."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "measure").mkdir()
    (folder / "measure" / "abandonment.yaml").write_text(SETTINGS)
    (folder / "own_abandonment.py").write_text(CODE)
    sys.path.append(str(folder))
    assert cli.main(["run", *words(folder), "measures=[ndcg,abandonment]"]) == 0
    yield folder
    sys.path.remove(str(folder))


def words(folder: Path) -> list[str]:
    run = ["rounds=40", "replicas=2", "evaluate_every=20", "click=navigational", f"output_dir={folder / 'outputs'}"]
    return [*TINY, *run, "--config-dir", str(folder)]


def test_it_is_in_every_output(folder: Path, capsys: pytest.CaptureFixture[str]):
    """Tables, summary, what is printed, reports, figures, the page and exports."""
    run = next(find_runs(folder / "outputs"))
    trace, evaluation = (pl.read_parquet(run / f"{name}.parquet") for name in ("trace", "evaluation"))
    assert trace.schema["abandoned"] == pl.Float32
    assert ((trace["clicks"] == 0).cast(pl.Float32) == trace["abandoned"]).all()
    assert trace["blocks"].null_count() == len(trace), "it was not asked for"
    assert evaluation["barren_3"].is_between(0, 1).all()
    metrics = Run.read_finished(run).summary
    assert metrics["abandoned"]["mean"] == pytest.approx(trace["abandoned"].mean())
    assert {"abandoned_last_tenth", "test_barren_3", "validation_barren_3_untrained"} <= metrics.keys()
    capsys.readouterr()
    assert cli.main(["run", *words(folder), "measures=[ndcg,abandonment]"]) == 0
    assert "  abandonment      0." in capsys.readouterr().out
    report = ["report", str(folder / "outputs")]
    assert cli.main(report) == 0
    table = capsys.readouterr().out
    assert "test barren@3" in table
    assert "abandonment" in table
    assert cli.main([*report, "--metric", "abandoned", "--out", str(folder / "r.csv")]) == 0
    assert "abandoned_mean" in (folder / "r.csv").read_text()
    exported = tracked_run(run)
    assert {"trace/abandoned", "evaluation/test_barren_3"} <= exported.curves.keys()
    assert "abandoned" in exported.summary
    file = folder / "queries.parquet"
    assert cli.main(["export", str(run), "--to", "per-query", "--config-dir", str(folder), "--out", str(file)]) == 0
    last = evaluation.filter(pl.col("round") == 40, pl.col("split") == "test")
    assert pl.read_parquet(file)["barren_3"].mean() == pytest.approx(last["barren_3"].mean())
    pytest.importorskip("matplotlib")
    for column in "abandoned", "barren_3":
        file = folder / f"{column}.svg"
        assert cli.main([*report, "--figure", "measure", "--option", f"column={column}", "--out", str(file)]) == 0
        assert file.stat().st_size > 1000
    assert cli.main([*report, "--out", str(folder / "report.html")]) == 0
    page = (folder / "report.html").read_text()
    assert "measure-abandoned" in page
    assert "measure-barren_3" in page
    capsys.readouterr()
    assert cli.main([*report, "--figure", "measure", "--out", str(folder / "no.svg")]) == 2
    told = capsys.readouterr().err
    assert "abandoned" in told
    assert told.endswith(", got none: type --option column=online_ndcg\n")
    assert told.count("\n") == 1


class Mistyped(Measure):
    trace = (Column("abandoned"),)

    def of_round(self, rounds):
        return {}


class Unfilled(Measure):
    evaluation = (Column("found"),)


@pytest.mark.parametrize(
    ("measure", "got"),
    [
        (Mistyped(), "of_rounds, which returns abandoned, got of_round: rename it"),
        (Unfilled(), "of_lists, which returns found, got none"),
    ],
)
def test_columns_that_no_method_returns_are_refused(measure: Measure, got: str):
    with pytest.raises(ValueError, match=f"^the measure mine must define {got}$"):
        check_columns({"mine": measure})
