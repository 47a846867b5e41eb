"""`ol2r.yaml`: its settings are below what is typed, and a slip in it is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli.commands import clean, export, report, run, status, verify
from ol2r_cli.config.catalogue import ProjectFile, default_output_dir, read_project
from ol2r_cli.config.composer import Composer, compose
from ol2r_cli.recipes.recipe import load_recipe
from ol2r_cli.recipes.run_plan import paper_plan
from ol2r_cli.run.run import find_run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_settings_are_defaults_below_what_is_typed(here):
    assert read_project() == ProjectFile()
    assert ProjectFile().overrides([]) == []
    assert default_output_dir() == Path("outputs") == Path(compose().config.output_dir)
    (here / "ol2r.yaml").write_text("launcher: slurm\n")
    assert Composer()([]).choices["launcher"] == "slurm"
    assert Composer()(["launcher=processes"]).choices["launcher"] == "processes"
    (here / "ol2r.yaml").write_text("output_dir: my results\ndata_dir: /data\nlauncher: {jobs: 4, retries: 1}\n")
    composer = Composer()
    config = composer([]).config
    assert (config.output_dir, config.data_dir) == ("my results", "/data")
    assert (config.launcher.jobs, config.launcher.retries) == (4, 1)
    config = composer(["output_dir=typed", "launcher.jobs=2", "ranker=oracle"]).config
    assert (config.output_dir, config.data_dir) == ("typed", "/data")
    assert (config.launcher.jobs, config.launcher.retries) == (2, 1)
    assert "jobs" not in composer(["launcher=slurm"]).config.launcher, "its settings are those of another launcher"
    assert composer.shown([], "all").output_dir == "my results"
    assert composer.jobs(["seed=1,2"]) == [["seed=1"], ["seed=2"]], "they are not what is typed"


def test_its_output_dir_is_the_default_of_the_commands_that_read_runs(here, capsys):
    (here / "ol2r.yaml").write_text("output_dir: results\n")
    assert run.main(["experiment=smoke", "rounds=3", "evaluate_every=3"]) == 0
    told = capsys.readouterr().out
    (path,) = (here / "results" / "synthetic").iterdir()
    assert "ol2r status (all runs)" in told
    assert find_run(path.name.rpartition("-")[2]) == path.relative_to(here)
    assert not (here / "outputs").exists()
    for command, words in ((status, []), (report, []), (clean, []), (verify, [])):
        assert command.main(words) == 0
        assert "1 finished" in (out := capsys.readouterr().out) or "pairrank" in out or "1 run below results" in out
    assert export.main(["--to", "per-query", "--out", "values.csv"]) == 0
    assert paper_plan(load_recipe("reproduce", "pairrank_fig3")).output_dir == Path("results")


SLIPS = [
    ("choices: [a\n", r"^ol2r\.yaml must be a YAML file that can be read: "),
    (
        "- choices\n",
        r"^ol2r\.yaml must be lines `KEY: VALUE` with the keys choices, output_dir, data_dir, launcher",
    ),
    ("chioces: a\n", r"^ol2r\.yaml: ProjectFile has no setting 'chioces': did you mean choices\?$"),
    ("1: a\n", r"^ol2r\.yaml: .* has no setting '1': it has choices, output_dir, data_dir, launcher$"),
    ("choices: [1]\n", r"^ol2r\.yaml: choices must be a list \[\.\.,\.\.\] of which each is text, got \[1\]$"),
    ("output_dir: 3\n", r"^ol2r\.yaml: output_dir must be null or text, got 3$"),
    ("launcher: [slurm]\n", r"^ol2r\.yaml: launcher must be null or text or settings in quotes"),
    ("launcher: {jobs: 2024-01-01}\n", r"^launcher\.jobs in ol2r\.yaml must be a number, text, "),
]


def test_a_slip_is_one_line_and_2(here, capsys):
    for text, told in SLIPS:
        (here / "ol2r.yaml").write_text(text)
        with pytest.raises(ValueError, match=told):
            Composer()([])
        for command in (run, status, clean, verify, report) if "2024" not in text else (run,):
            assert command.main([]) == 2, text
            assert capsys.readouterr().err.count("\n") == 1, text
