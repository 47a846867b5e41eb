"""`ol2r reproduce` as typed, in small, and its table beside the paper's numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import yaml

from ol2r_cli.plugins.benchmark.paper import as_csv, comparison_table, data_values, paper_page, run_values
from ol2r_cli.plugins.benchmark.play import RecipeRuns
from ol2r_cli.plugins.benchmark.recipe import Condition, by_name, recipe_names
from ol2r_cli.plugins.benchmark.reproduce import main
from ol2r_cli.plugins.benchmark.results import Row
from ol2r_cli.plugins.benchmark.run_plan import plan_of
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.text.table import TextTable, markdown
from tests.plugins.benchmark.small import PAPER, load, use, write
from tests.report.runs import make, only

SMALL = ["dataset.queries={train:10,validation:5,test:5}", "dataset.documents=8", "device.threads=1"]


# A recipe that chooses among two settings.
CHOOSING = PAPER | {
    "competitors": {
        "random": {"words": "ranker=random"},
        "SGD": {"words": "ranker=sgd_ranknet", "grid": "ranker.learning_rate=0.001,5"},
    },
    "scale": {"quick": "rounds=40 replicas=2", "paper": "rounds=40 replicas=2"},
    "choose": "seed=1000 replicas=2 evaluate_on=[validation]",
    "figures": [{"kind": "learning_curve"}, {"kind": "cumulative_ndcg", "click": ["informational"]}],
    "metrics": ["test_ndcg_10"],
}
TYPED = ["pairrank_x", "--scale", "paper", "dataset=synthetic", *SMALL]


@pytest.fixture
def choosing(recipes: Path) -> None:
    write(recipes, "pairrank_x", **CHOOSING)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """The runs and pages of a reproduction, below `out`, and what it printed."""
    folder = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as shown:
        write(use(folder / "recipes", patch), "pairrank_x", **CHOOSING)
        assert main([*TYPED, f"output_dir={folder / 'out'}"]) == 0
    return folder / "out", shown.getvalue()


def test_a_dry_run_counts_runs_and_writes_nothing(choosing, tmp_path, capfd):
    assert main([*TYPED, f"output_dir={tmp_path / 'out'}", "--dry-run"]) == 0
    assert "2 runs to choose settings, then 2 with those that were chosen" in capfd.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_reproduction_warns_wherever_it_shows_numbers(reproduced):
    out, shown = reproduced
    folder = out / "reproduce" / "pairrank_x"
    names = ["README.md", "learning_curve.pdf", "learning_curve.png", "learning_curve.svg", "table.csv"]
    assert sorted(path.name for path in folder.iterdir()) == names
    for text in (shown, (folder / "README.md").read_text(), (folder / "learning_curve.svg").read_text()):
        assert "numbers cannot be compared" in text
    assert shown.startswith("paper: T = 40, 2 seeds, generated data, which is not the data of the paper")


def test_a_reproduction_chooses_by_runs_with_other_seeds(reproduced):
    """The learning rate with the best validation NDCG@10 of the two runs with seed 1000, which alone chose."""
    place = reproduced[0] / "reproduce"
    lines = (place / "pairrank_x" / "table.csv").read_text().splitlines()
    rows = {row["competitor"]: row for row in csv.DictReader(lines)}
    validation = {}
    for path in (place / "synthetic").iterdir():
        config = yaml.safe_load((path / "config.yaml").read_text())
        if config["seed"] == 1000:
            metrics = json.loads((path / "summary.json").read_text())["metrics"]
            validation[config["ranker"]["learning_rate"]] = metrics["validation_ndcg_10"]["mean"]
    assert len(validation) == 2
    assert rows["SGD"]["settings"] == f"ranker.learning_rate={max(validation, key=validation.__getitem__)}"


def test_a_reproduction_runs_nothing_twice(choosing, reproduced, tmp_path):
    out, _ = reproduced
    runs = sorted((out / "reproduce" / "synthetic").iterdir())
    assert len(runs) == 4  # two to choose from, and the two that are reported
    assert main([*TYPED, f"output_dir={out}", "--out", str(tmp_path / "elsewhere")]) == 0
    assert sorted((out / "reproduce" / "synthetic").iterdir()) == runs
    table = out / "reproduce" / "pairrank_x" / "table.csv"
    assert (tmp_path / "elsewhere" / "table.csv").read_bytes() == table.read_bytes()


def test_own_choices_are_found_in_dry_runs_and_in_runs(choosing, tmp_path, monkeypatch, capsys):
    """A dataset of one's own, in a folder that is typed; output_dir is that of the project file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own" / "dataset").mkdir(parents=True)
    (tmp_path / "own" / "dataset" / "mine.yaml").write_text("defaults: [synthetic]\n")
    (tmp_path / "ol2r.yaml").write_text("output_dir: results\n")
    typed = ["pairrank_x", "dataset=mine", "--config-dir", "own", *SMALL]
    assert main([*typed, "scale=quick", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "quick: T = 40, 2 seeds, mine" in out
    assert "2 jobs: 2 new" in out
    assert main(typed) == 0
    assert len(list((tmp_path / "results" / "reproduce" / "mine").glob("*/summary.json"))) == 2
    assert (tmp_path / "results" / "reproduce" / "pairrank_x" / "table.csv").is_file()
    assert (tmp_path / "results" / ".gitignore").is_file()
    assert not (tmp_path / "outputs").exists()
    assert main(["pairrank_x", "dataset=mine", *SMALL]) == 2


def test_settings_are_not_chosen_by_what_is_not_evaluated(choosing, recipes, tmp_path, capfd):
    text = (recipes / "pairrank_x.yaml").read_text().replace("evaluate_on=[validation]", "evaluate_on=[test]")
    (recipes / "pairrank_x.yaml").write_text(text)
    assert main(["pairrank_x", "--scale", "paper", "dataset=synthetic", f"output_dir={tmp_path}", *SMALL]) == 2
    error = capfd.readouterr().err
    assert "ol2r reproduce: settings are chosen by validation_ndcg_10, which " in error
    assert error.endswith(" dataset.validation=0.2\n")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["pairrank_fg3"], "NAME must be one of those that `ol2r reproduce` lists, got pairrank_fg3: did you mean pai"),
        (["pairrank_fig3", "scale=large"], "scale must be one of quick, paper, got large"),
        (["pairrank_fig3", "ranker=mgd"], "ranker is what pairrank_fig3 compares or chooses: leave out ranker=mgd"),
        (["pairrank_fig3", "rounds=many"], "rounds must be a whole number, got many"),
        (["pairrank_fig6", "rounds=0", *SMALL], "rounds must be"),
        (["pairrank_fig7", "rounds=199"], "rounds must be 200 or more, of which pairrank_fig7 draws a mean, got 199"),
    ],
)
def test_an_error_is_one_line(capfd, typed, message):
    assert main(typed) == 2
    assert capfd.readouterr().err.startswith(f"ol2r reproduce: {message}")


def test_data_that_are_not_there_can_be_generated(tmp_path, capfd):
    assert main(["pairrank_fig3", "--scale", "paper", f"data_dir={tmp_path}"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("ol2r reproduce: pairrank_fig3 needs MSLR-WEB10K: dataset.path must be a folder")
    assert "get it from https://www.microsoft.com/en-us/research/project/mslr/, then type data_dir=FOLDER" in line
    assert line.endswith("or go on with generated data, labelled as such: type dataset=synthetic")


def test_figures_and_tables_are_listed(capfd):
    assert main([]) == 0
    listed = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    assert listed == recipe_names("reproduce")


def cells_of(table: TextTable) -> list[list[str]]:
    """The cells of the table's lines in markdown, without the backslash before a bar."""
    rows = [re.split(r"(?<!\\)\|", row)[1:-1] for row in markdown(table).splitlines()]
    return [[cell.strip().replace(r"\|", "|") for cell in row] for row in rows]


@pytest.fixture
def with_printed_numbers(recipes):
    """A recipe with a number of A for each of two datasets."""
    number = {"competitor": "A", "metric": "test_ndcg_10", "text": "paper.txt", "near": "Table 1"}
    printed = [number | {"data": "mslr", "value": 0.4, "click": "perfect"}, number | {"data": "yahoo", "value": 0.6}]
    competitors = {name: {"words": "ranker=pairrank"} for name in "AB"}
    return load("reproduce", recipes, metrics=["test_ndcg_10"], competitors=competitors, printed=printed)


def test_a_page_has_the_printed_numbers_below_the_caveat(with_printed_numbers, tmp_path):
    """Of all datasets that generated data stand for."""
    recipe = with_printed_numbers
    plan = plan_of(recipe, ["rounds=50"])
    make(tmp_path, test={0: 0.45, 1: 0.55})
    condition = Condition("generated data", "perfect", "A")
    row = Row(condition, by_name("ranker.l2=7 exploration.alpha=1"), (), only(tmp_path))
    runs = RecipeRuns([row], grids={condition: [row] * 2})
    values = run_values(plan, runs)
    head, _, cells = cells_of(comparison_table(plan, runs, values))
    assert head == ["data", "click", "competitor", "settings", "n", "test NDCG@10", "the paper"]
    # t(1) = 12.706, sd = .1 / sqrt 2, over sqrt 2: .6353
    own = ["generated data", "perfect", "A", "l2=7 alpha=1", "2", "0.5000 ± 0.6353"]
    assert cells == [*own, "0.4000 (MSLR-WEB10K), 0.6000 (Yahoo)"]
    rows = list(csv.DictReader(io.StringIO(as_csv(plan, runs, values))))
    assert [(row["paper_data"], row["paper_value"]) for row in rows] == [("MSLR-WEB10K", "0.4"), ("Yahoo", "0.6")]
    assert rows[0]["scale"] == "quick"
    assert float(rows[0]["half_width"]) == pytest.approx(12.7062047 * 0.05)
    text = paper_page(plan, runs, values, [Path("somewhere/learning_curve.png")])
    warning = "> **quick: T = 50, 3 seeds, generated data: shapes can be compared, numbers cannot**"
    assert text.index(warning) < text.index("0.5000")
    assert "- A is best\n  - **no**, B is" in text
    assert "![learning_curve](learning_curve.png)" in text
    assert "over seeds, of which there are n. Settings are the best of up to 2 by validation NDCG@10, chosen" in text
    assert text.endswith("    ol2r reproduce pairrank_x --scale quick rounds=50\n")


def test_differences_from_the_paper_are_shown_on_its_own_data(with_printed_numbers):
    both = {"unfairness": Estimate(3, None, 1), "test_ndcg_10": Estimate(0.7, None, 1)}
    reported = {
        Condition("Yahoo", "perfect", "A"): both,
        Condition("Yahoo", "perfect", "B"): {"test_ndcg_10": Estimate(0.5, None, 1)},
    }
    head, _, *rows = cells_of(
        comparison_table(plan_of(with_printed_numbers, ["dataset=yahoo"], "paper"), RecipeRuns(), reported)
    )
    assert [head, *rows] == [
        ["data", "click", "competitor", "n", "|unfairness|", "test NDCG@10", "the paper", "difference"],
        ["Yahoo", "perfect", "A", "1", "3.000", "0.7000", "0.6000", "0.1000"],
        ["Yahoo", "perfect", "B", "1", "", "0.5000", "", ""],
    ]


def test_sizes_of_document_groups_in_every_dataset(recipes):
    """Sizes agree with `dataset.group_ratio` of the generated data to within 3 per cent."""
    recipe = load("reproduce", recipes, data=["mslr_inlink", "yahoo_471"])
    values = data_values(plan_of(recipe, ["dataset.queries={train:30,validation:5,test:5}"]))
    shares = {(slot, group): estimates["size"].mean for (slot, _, group, *_), estimates in values.items()}
    for ratio in (0.65, 0.86):
        slot = f"generated data, group_ratio={ratio}"
        assert shares[slot, "A"] == pytest.approx(100 * ratio, abs=3)
        assert shares[slot, "A"] + shares[slot, "B"] == pytest.approx(100)
