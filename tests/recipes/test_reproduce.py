"""`ol2r reproduce` as typed: choice of settings, figures, table and page; dry runs; messages."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from ol2r_cli.commands.reproduce import main
from ol2r_cli.recipes.recipe import recipe_names
from tests.recipes.small import PAPER, write

SMALL = ["dataset.queries={train:10,validation:5,test:5}", "dataset.documents=8", "device.threads=1"]


@pytest.fixture
def choosing(recipes: Path) -> None:
    """A recipe that chooses among two settings."""
    changes = {
        "competitors": {
            "random": {"words": "ranker=random"},
            "SGD": {"words": "ranker=sgd_ranknet", "grid": "ranker.learning_rate=0.001,5"},
        },
        "scale": {"quick": "rounds=40 replicas=2", "paper": "rounds=40 replicas=2"},
        "choose": "seed=1000 replicas=2 evaluate_on=[validation]",
        "figures": [{"kind": "learning_curve"}, {"kind": "cumulative_ndcg", "click": ["informational"]}],
        "metrics": ["test_ndcg_10"],
    }
    write(recipes, "pairrank_x", **PAPER | changes)


def test_a_reproduction_chooses_settings_draws_and_runs_nothing_twice(choosing, tmp_path, capfd):
    typed = ["pairrank_x", "--scale", "paper", "dataset=synthetic", f"output_dir={tmp_path / 'out'}", *SMALL]
    assert main(typed) == 0
    shown = capfd.readouterr()
    folder = tmp_path / "out" / "reproduce" / "pairrank_x"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "learning_curve.pdf", "learning_curve.png", "learning_curve.svg", "table.csv",
    ]  # fmt: skip
    for text in (shown.out, (folder / "README.md").read_text(), (folder / "learning_curve.svg").read_text()):
        assert "numbers cannot be compared" in text
    assert shown.out.startswith("paper: T = 40, 2 seeds, generated data, which is not the data of the paper")
    rows = {row["competitor"]: row for row in csv.DictReader((folder / "table.csv").read_text().splitlines())}
    validation = validated(tmp_path / "out" / "reproduce")
    assert len(validation) == 2
    assert rows["SGD"]["settings"] == f"ranker.learning_rate={max(validation, key=validation.__getitem__)}"
    runs = sorted(path.name for path in (tmp_path / "out" / "reproduce" / "synthetic").iterdir())
    assert len(runs) == 4  # two to choose from, and the two that are reported
    before = (folder / "table.csv").read_bytes()
    assert main([*typed, "--out", str(tmp_path / "elsewhere")]) == 0
    assert sorted(path.name for path in (tmp_path / "out" / "reproduce" / "synthetic").iterdir()) == runs
    assert (tmp_path / "elsewhere" / "table.csv").read_bytes() == before


def validated(folder: Path) -> dict[float, float]:
    """NDCG@10 on validation by learning rate, of the runs that settings were chosen by, which alone have seed 1000."""
    ndcg = {}
    for path in (folder / "synthetic").iterdir():
        config = yaml.safe_load((path / "config.yaml").read_text())
        if config["seed"] == 1000:
            metrics = json.loads((path / "summary.json").read_text())["metrics"]
            ndcg[config["ranker"]["learning_rate"]] = metrics["validation_ndcg_10"]["mean"]
    return ndcg


def test_a_dry_run_lists_the_runs_and_writes_nothing(choosing, tmp_path, capsys):
    assert main(["pairrank_x", "scale=quick", "--dry-run", f"output_dir={tmp_path / 'out'}", *SMALL]) == 0
    out = capsys.readouterr().out
    assert "quick: T = 40, 2 seeds, generated data" in out
    assert "2 jobs: 2 new" in out
    assert main(["pairrank_x", "--scale", "paper", "dataset=synthetic", "--dry-run", *SMALL]) == 0
    assert "2 runs to choose settings by validation, then 2 with those that were chosen" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_own_choices_are_found_in_dry_runs_and_in_runs(choosing, tmp_path, monkeypatch, capsys):
    """A dataset of one's own, in a folder that is typed; output_dir is that of the project file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own" / "dataset").mkdir(parents=True)
    (tmp_path / "own" / "dataset" / "mine.yaml").write_text("defaults: [synthetic]\n")
    (tmp_path / "ol2r.yaml").write_text("output_dir: results\n")
    typed = ["pairrank_x", "dataset=mine", "--config-dir", "own", *SMALL]
    assert main([*typed, "--dry-run"]) == 0
    assert "2 jobs: 2 new" in capsys.readouterr().out
    assert main(typed) == 0
    assert len(list((tmp_path / "results" / "reproduce" / "mine").glob("*/summary.json"))) == 2
    assert (tmp_path / "results" / "reproduce" / "pairrank_x" / "table.csv").is_file()
    assert (tmp_path / "results" / ".gitignore").is_file()
    assert not (tmp_path / "outputs").exists()
    assert main(["pairrank_x", "dataset=mine", *SMALL]) == 2


def test_an_error_is_one_line(capfd):
    for typed, message in (
        (
            ["pairrank_fg3"],
            "NAME must be one of those that `ol2r reproduce` lists, got pairrank_fg3: did you mean pair",
        ),
        (["pairrank_fig3", "scale=large"], "scale must be one of quick, paper, got large"),
        (["pairrank_fig3", "ranker=mgd"], "ranker is what pairrank_fig3 compares or chooses: leave out ranker=mgd"),
        (["pairrank_fig3", "rounds=many"], "rounds must be a whole number, got many"),
        (["pairrank_fig6", "rounds=0", *SMALL], "rounds must be"),
    ):
        assert main(typed) == 2, typed
        assert capfd.readouterr().err.startswith(f"ol2r reproduce: {message}"), typed


def test_missing_data_are_an_error_that_says_where_to_get_them_and_how_to_go_on(tmp_path, capsys):
    assert main(["pairrank_fig3", "--scale", "paper", f"data_dir={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "ol2r reproduce: pairrank_fig3 at scale=paper needs MSLR-WEB10K: dataset.path must be a folder"
    )
    assert "get it from https://www.microsoft.com/en-us/research/project/mslr/, then type data_dir=FOLDER" in line
    assert line.endswith("dataset=mq2008 dataset.path=FOLDER, or dataset=synthetic, or --scale quick")


def test_settings_cannot_be_chosen_without_validation(choosing, recipes, tmp_path, capfd):
    text = (recipes / "pairrank_x.yaml").read_text().replace("evaluate_on=[validation]", "evaluate_on=[test]")
    (recipes / "pairrank_x.yaml").write_text(text)
    typed = ["pairrank_x", "--scale", "paper", "dataset=synthetic", f"output_dir={tmp_path / 'out'}", *SMALL]
    assert main(typed) == 2
    assert "ol2r reproduce: settings of SGD are chosen by validation, which " in (err := capfd.readouterr().err)
    assert err.endswith(" lacks: type dataset.validation=0.2\n")


def test_recipes_are_listed_and_completed(capsys):
    assert main([]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == recipe_names("reproduce")
