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
from tests import cases
from tests.finished import printed, refused
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
def run(tmp_path_factory):
    """A finished run that takes the measure, which lies in its working folder."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "measure").mkdir()
    (folder / "measure" / "abandonment.yaml").write_text(SETTINGS)
    (folder / "own_abandonment.py").write_text(CODE)
    sys.path.append(str(folder))
    assert cli.main(words(folder)) == 0
    yield next(find_runs(folder / "outputs"))
    sys.path.remove(str(folder))


def words(folder: Path) -> list[str]:
    run = ["rounds=40", "replicas=2", "evaluate_every=20", "click=navigational", f"output_dir={folder / 'outputs'}"]
    return ["run", *TINY, *run, "measures=[ndcg,abandonment]", "--config-dir", str(folder)]


def test_it_is_in_the_tables_and_the_summary(run):
    trace, evaluation = (pl.read_parquet(run / f"{name}.parquet") for name in ("trace", "evaluation"))
    assert trace.schema["abandoned"] == pl.Float32
    assert (trace["clicks"] == 0).cast(pl.Float32).equals(trace["abandoned"])
    assert evaluation["barren_3"].is_between(0, 1).all()
    metrics = Run.read_finished(run).summary
    assert metrics["abandoned"]["mean"] == pytest.approx(trace["abandoned"].mean())
    assert {"abandoned_last_tenth", "test_barren_3", "validation_barren_3_untrained"} <= metrics.keys()


def test_it_is_in_what_other_tools_receive(run, tmp_path):
    exported = tracked_run(run)
    assert {"trace/abandoned", "evaluation/test_barren_3"} <= exported.curves.keys()
    assert "abandoned" in exported.summary
    folder, file = run.parents[2], tmp_path / "queries.parquet"
    assert cli.main(["export", str(run), "--to", "per-query", "--config-dir", str(folder), "--out", str(file)]) == 0
    last = pl.read_parquet(run / "evaluation.parquet").filter(round=40, split="test")
    assert pl.read_parquet(file)["barren_3"].mean() == pytest.approx(last["barren_3"].mean())


REPORTS = """
--out table.md | test barren@3, abandonment
--metric abandoned --out report.csv | abandoned_mean
--out report.html | measure-abandoned, measure-barren_3
--figure measure --option column=abandoned --out figure.svg | abandonment
--figure measure --option column=barren_3 --out figure.svg | barren@3
"""


@pytest.mark.parametrize(("typed", "shown"), cases.lines(REPORTS))
def test_it_is_in_reports(run, tmp_path, monkeypatch, typed, shown):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", str(run), *typed.split()]) == 0
    (file,) = tmp_path.iterdir()
    assert [text for text in shown.split(", ") if text not in file.read_text()] == []


def test_it_is_in_what_a_run_prints(run, capsys):
    assert "  abandonment      0." in printed(capsys, *words(run.parents[2]))


def test_a_figure_of_a_measure_names_the_columns(run, tmp_path, capsys):
    told = refused(capsys, "report", run, "--figure", "measure", "--out", tmp_path / "no.svg")
    assert "abandoned" in told
    assert told.endswith(", got none: type --option column=online_ndcg")


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
def test_columns_that_no_method_returns_are_refused(measure, got):
    with pytest.raises(ValueError, match=f"^the measure mine must define {got}$"):
        check_columns({"mine": measure})
