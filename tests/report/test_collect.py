from __future__ import annotations

import pytest

from ol2r_cli.report.collect import collect
from tests.report.runs import make


def test_each_run_once_and_others_counted(tmp_path):
    done = make(tmp_path / "a")
    make(tmp_path / "a", status="interrupted")
    make(tmp_path / "b", status="failed")
    make(tmp_path / "b", status="running")  # nobody holds it: killed
    found = collect([tmp_path / "a", tmp_path / "b", done, tmp_path / "a" / ".." / "a"])
    assert [run.path for run in found.runs] == [done]
    assert found.unfinished == {tmp_path / "a": 1, tmp_path / "b": 2}
    assert found.damaged == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", "{"),
        ("run.json", '{"status": "finished"}'),
        ("summary.json", '{"metrics": {"test_ndcg_10": {"mean": 0.5}}}'),
        ("summary.json", None),
        ("config.yaml", None),
        ("config.yaml", "a: [1"),
        ("config.yaml", "no mapping"),
    ],
)
def test_damage_is_named_and_stops_nothing(tmp_path, name, content):
    good, bad = make(tmp_path), make(tmp_path)
    if content is None:
        (bad / name).unlink()
    else:
        (bad / name).write_text(content)
    found = collect([tmp_path])
    assert [run.path for run in found.runs] == [good]
    assert len(found.damaged) == 1
    assert found.damaged[0].startswith(str(bad))
    assert "\n" not in found.damaged[0]


def test_settings_have_dotted_names_and_those_that_cannot_change_results_are_left_out(tmp_path):
    make(tmp_path, "ranker.l2=1e-5", "rounds=10", "force=true", "exploration.alpha=2.0")
    (run,) = collect([tmp_path]).runs
    assert run.settings["ranker.l2"] == 1e-5
    assert repr(run.settings["exploration.alpha"]) == "2"
    assert run.settings["rounds"] == 10
    never = {"force", "output_dir", "data_dir", "seed", "dataset.fold", "dataset.data_dir", "device.name"}
    assert not (never | {"device.threads"}) & run.settings.keys()
    assert {"device.dtype", "dataset.normalise", "click.stop"} <= run.settings.keys()
    assert run.typed >= {"ranker.l2", "rounds", "force", "exploration.alpha"}


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"DIR must be a folder with runs, got .*nowhere, which does not exist"):
        collect([tmp_path / "nowhere"])
