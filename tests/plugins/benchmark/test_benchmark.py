"""`ol2r benchmark` as typed: a small benchmark is run, published, shown, and joined by another ranker."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli.commands.report import main as report
from ol2r_cli.plugins.benchmark import results
from ol2r_cli.plugins.benchmark.benchmark import main
from ol2r_cli.report.collection import collect
from scripts.publish.__main__ import main as publish
from tests.plugins.benchmark.small import BENCHMARK, published_in, use, write


@pytest.fixture(autouse=True)
def tiny(recipes):
    write(recipes, "tiny", **BENCHMARK)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The runs of `tiny` in out/, and its results in published/."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        write(use(folder / "recipes", patch), "tiny", **BENCHMARK)
        assert main(["tiny", "--run", f"output_dir={folder / 'out'}", "--out", str(folder / "published")]) == 0
    return folder


@pytest.fixture
def published(made, tmp_path, monkeypatch):
    """A folder with the published results of `tiny`."""
    folder = tmp_path / "published"
    shutil.copytree(made / "published", folder)
    published_in(folder, monkeypatch)
    return folder


def test_it_runs_chooses_and_writes(published, made, capfd):
    files = sorted(path.name for path in published.iterdir())
    assert files == ["tiny.parquet", "tiny_check.parquet", "tiny_choice.parquet"]
    rows = pl.read_parquet(published / "tiny.parquet")
    found = {(row.competitor, row.aim, row.condition.click) for row in results.published("tiny")}
    aims = {("random", ""), ("SGD", "offline"), ("SGD", "online")}
    assert found == {(*row, click) for row in aims for click in ("perfect", "informational")}
    assert len(rows) == 3 * rows["run"].n_unique(), "each run once, with three seeds"
    assert rows["seed"].unique().sort().to_list() == [0, 1, 2]
    assert pl.read_parquet(published / "tiny_check.parquet")["click"].unique().to_list() == ["informational"]
    before = {path: path.read_bytes() for path in published.iterdir()}
    assert main(["tiny", "--run", f"output_dir={made / 'out'}", "--out", str(published)]) == 0
    assert {path: path.read_bytes() for path in published.iterdir()} == before
    assert "done in" not in capfd.readouterr().err  # nothing was run


def test_pages_are_written_of_published_results(published, made):
    """With figures where the runs are; those that are there stay."""
    assert publish([]) == 0
    assert "![" not in (published / "tiny.md").read_text()
    assert publish(["--runs", str(made / "out" / "benchmark")]) == 0
    page = (published / "tiny.md").read_text()
    assert "| random (baseline) |" in page
    assert "![test NDCG@10 by round on small](tiny_small.svg)" in page
    shared = "dataset=synthetic 'dataset.queries={train:10,validation:5,test:5}' dataset.documents=8"
    assert f"    ol2r run -m {shared} rounds=40 replicas=3 evaluate_every=20 click=CLICK OVERRIDES" in page
    figure = (published / "tiny_small.svg").read_text()
    assert "informational" in figure
    (published / "tiny.md").unlink()
    assert publish([]) == 0
    assert (published / "tiny.md").read_text() == page
    assert (published / "tiny_small.svg").read_text() == figure
    index = (published / "README.md").read_text()
    assert "| [Tiny](tiny.md) | small | perfect, informational | 2 |" in index
    assert re.search(r"## Overview\n\n.*\n\n\| ranker +\| +mean rank \|", page)


def test_two_aims_choose(published, made):
    """Of the three runs that differ in the learning rate alone, the reported ones are best for their aims."""
    metrics = {"offline": "validation_ndcg_10", "online": "cumulative_ndcg"}
    choices = pl.read_parquet(published / "tiny_choice.parquet")
    candidates = collect([made / "out" / "benchmark" / "synthetic"], words=["seed=1000"]).runs
    for row in results.published("tiny"):
        if row.competitor == "SGD":
            (run,) = row.group.runs
            data = (run.fingerprint, run.choices["click"])
            rivals = [each for each in candidates if (each.fingerprint, each.choices["click"]) == data]
            assert len(rivals) == row.candidates == 3
            metric = metrics[row.aim]
            best = max(rivals, key=lambda each: each.values[1000][metric])
            tried = choices.filter(click=run.choices["click"])[metric]
            assert sorted(tried) == sorted(each.values[1000][metric] for each in rivals)
            rate = run.settings["ranker.learning_rate"]
            assert rate == best.settings["ranker.learning_rate"]
            assert row.edges == (["ranker.learning_rate"] if rate != 0.01 else [])


def test_published_tables_are_shown_whole_or_in_part(published, capsys):
    assert main(["tiny"]) == 0
    everything = capsys.readouterr().out.splitlines()
    assert main(["tiny", "click=inf"]) == 0
    part = capsys.readouterr().out.splitlines()
    titles = [[line for line in shown if line.startswith("small, ")] for shown in (everything, part)]
    assert titles == [["small, perfect", "small, informational"], ["small, informational"]]
    assert set(part) <= set(everything)


def test_the_published_file_is_a_report(published, capsys):
    assert report([str(published / "tiny.parquet"), "--metric", "test_ndcg_10", "--format", "csv"]) == 0
    distinct = pl.read_parquet(published / "tiny.parquet")["run"].n_unique()
    assert len(capsys.readouterr().out.splitlines()) == 1 + distinct


def test_tables_of_another_results_version_are_outdated(published, capsys, monkeypatch):
    monkeypatch.setattr("ol2r_cli.plugins.benchmark.tables.RESULTS_VERSION", 1000)
    assert main(["tiny", "click=inf"]) == 0
    assert "outdated: made with results_version" in capsys.readouterr().err
    assert publish([]) == 0
    for name in ("tiny.md", "README.md"):
        assert "**outdated: made with results_version" in (published / name).read_text(), name


def test_chosen_settings_need_their_choosing_runs(published, capsys):
    """Without them intervals would silently lack the choice."""
    (published / "tiny_choice.parquet").unlink()
    assert main(["tiny", "click=inf"]) == 2
    assert "results of SGD must have choosing runs beside them, in NAME_choice.parquet" in capsys.readouterr().err


@pytest.fixture
def add(published, tmp_path, capfd):
    """A function that adds a ranker to the table for informational users; it returns rows and what is told."""

    def added(*words: str) -> tuple[list[list[str]], str]:
        assert main(["tiny", "click=inf", f"output_dir={tmp_path / 'own'}", "--add", *words]) == 0
        captured = capfd.readouterr()
        assert f"runs: {tmp_path / 'own'}" in captured.out
        assert "perfect" not in captured.out
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in captured.out.splitlines()]
        return [row for row in rows if row and row[0].startswith(words[0].partition("=")[2])], captured.err

    return added


EQUAL = ["ranker=sgd_ranknet", "exploration=epsilon_greedy", "ranker.learning_rate=1e-30,2e-30"]


def test_an_added_row_shows_what_was_typed_and_is_repeated_last(add):
    """And a choice between equal settings is told."""
    rows, told = add(*EQUAL)
    shown = ["sgd_ranknet (added)", "both", "exploration=epsilon_greedy learning_rate=1e-30"]
    assert [row[:3] for row in rows][1:-1] == [shown]
    assert rows[-1] == rows[0]
    assert "small, informational, offline: all settings are equally good" in told


def test_a_ranker_that_is_added_again_has_the_same_numbers(add):
    rows, told = add("ranker=random")
    assert "[1/1] ranker=random: done" in told, "a job has the name of what it is, not of the protocol"
    assert [row[0] for row in rows] == ["random (baseline)", *["random (added)", "random"], *["random (added)"] * 2]
    assert rows[0][1:3] == rows[1][1:3]


def test_a_dry_run_counts_what_an_added_ranker_needs(published, tmp_path, capfd):
    assert main(["tiny", "click=inf", "--dry-run", "--add", *EQUAL, f"output_dir={tmp_path / 'new'}"]) == 0
    assert "2 runs to choose settings, then 2" in capfd.readouterr().out
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def joined(made):
    """The words that add a ranker, whose runs are there."""
    added = ["ranker=sgd_ranknet", "ranker.learning_rate=0.02,0.3"]
    words = ["tiny", "click=per", f"output_dir={made / 'own'}", "--add", *added]
    with pytest.MonkeyPatch.context() as patch:
        write(use(made / "recipes_of_own", patch), "tiny", **BENCHMARK)
        published_in(made / "published", patch)
        assert main(words) == 0
    return words


@pytest.fixture(scope="module")
def paper_tables(made, joined, tmp_path_factory):
    """Files with two of three rows, one of them the user's by a name of its own, by suffix."""
    folder = tmp_path_factory.mktemp("paper")
    wanted = [*joined, "--name", "sgd_ranknet=Our & ranker", "--rows", "random", "--out"]
    with pytest.MonkeyPatch.context() as patch:
        write(use(folder / "recipes", patch), "tiny", **BENCHMARK)
        published_in(made / "published", patch)
        for form in ("tex", "csv", "md", "json", "parquet", "svg"):
            assert main([*wanted, str(folder / "made" / f"table.{form}")]) == 0, form
    return {file.suffix: file for file in (folder / "made").iterdir()}


@pytest.fixture
def printed(published, joined, capfd):
    """The cells of the user's row, as the whole table prints it."""
    assert main([*joined, "--name", "sgd_ranknet=Our & ranker"]) == 0
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capfd.readouterr().out.splitlines()]
    return next(row for row in cells if row and row[0].startswith("Our & ranker"))


def test_a_latex_table_says_which_rows_are_left_out(paper_tables, printed):
    latex = paper_tables[".tex"].read_text()
    line = next(line for line in latex.splitlines() if line.startswith(r"Our \& ranker"))
    for written, shown in {r"$\pm$": "±", r"\&": "&", r"$^{\dagger}$": "†", "{[}": "["}.items():
        line = line.replace(written, shown)
    assert line.startswith(f"{printed[0]} & {re.split(' [↑↓]', printed[1])[0]}")
    assert r"\caption{Tiny: small, perfect. " in latex
    assert "2 of 3 rows are shown; Holm's correction is for all of a column." in latex
    assert "SGD" not in latex.partition("Made with")[0].replace("SGD RankNet", "")


def test_a_markdown_table_has_the_rows_that_are_wanted(paper_tables, printed):
    page = paper_tables[".md"].read_text()
    assert printed[0] in page
    assert "SGD" not in page.partition("Made with")[0].replace("SGD RankNet", "")
    assert "second table" not in page


def test_files_for_programs_have_the_numbers_that_are_printed(paper_tables, printed):
    """Both intervals, and the difference from the baseline."""
    rows = pl.read_csv(paper_tables[".csv"])
    assert rows.columns == pl.read_parquet(paper_tables[".parquet"]).columns
    assert {row["ranker"] for row in pl.read_json(paper_tables[".json"]).to_dicts()} == {"random", "Our & ranker"}
    of = {row["ranker"]: row for row in rows.filter(click="perfect").to_dicts()}
    own, base = of["Our & ranker"], of["random"]
    mean, half, *_ = re.findall(r"[\d.]+", printed[1])
    wide = re.findall(r"\(([\d.]+)\)", printed[1]) or [half]
    names = ("mean", "half_width", "half_width_with_selection")
    assert [f"{own[f'test_ndcg_10_{name}']:.4f}" for name in names] == [mean, half, *wide]
    assert own["test_ndcg_10_overrides"].startswith("ranker=sgd_ranknet ranker.learning_rate=")
    assert own["test_ndcg_10_difference"] == pytest.approx(own["test_ndcg_10_mean"] - base["test_ndcg_10_mean"])


def test_a_figure_has_the_rows_that_are_wanted(paper_tables):
    texts = re.findall(r">([^<>]+)</text>", paper_tables[".svg"].read_text())
    assert {"Our &amp; ranker", "test NDCG@10, small, perfect"} <= set(texts)
    assert "SGD" not in texts


def test_published_tables_are_written_without_a_run(published, tmp_path, capsys):
    assert main(["tiny", "click=inf", "--rows", "sgd", "--out", str(tmp_path / "t.tex")]) == 0
    assert capsys.readouterr().out == f"written: {tmp_path / 't.tex'}\n"
    assert r"\caption{Tiny: small, informational. " in (tmp_path / "t.tex").read_text()
    assert main(["tiny", "click=inf", "--rows", "SGD", "--name", "random=chance", "SGD=gradient"]) == 0
    shown = capsys.readouterr().out
    assert "chance (baseline)" in shown
    assert "gradient" in shown


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("--out t.doc", "--out must end in .md, .csv, .parquet, .tex, .json, .png, .svg, .pdf, got t.doc"),
        ("--rows SDG", "--rows must name rows, 'random', 'SGD', got SDG: did you mean SGD?"),
        ("--name SGD=random", "--name must give each row another name, got random"),
        ("--repeat random SDG", "--repeat must name rows, 'random', 'SGD', got SDG: did you mean SGD?"),
    ],
)
def test_options_of_a_published_table_are_checked(published, capsys, typed, message):
    assert main(["tiny", "click=inf", *typed.split()]) == 2
    assert f"ol2r benchmark: {message}" in capsys.readouterr().err


def test_reports_do_not_mix_seeds_that_chose_into_an_own_row(published, joined, made, capsys):
    """Beside the published file and alone: values are over the seeds that count."""
    own = str(made / "own" / "benchmark")
    for places in ([own], [str(published / "tiny.parquet"), own]):
        assert report([*places, "ranker=sgd_ranknet", "--json"]) == 0
        rows, told = capsys.readouterr()
        frame = pl.read_json(rows.encode())
        assert frame["n"].unique().to_list() == [3]
        assert re.search(r"\d+ runs of model selection left out, which has other seeds: ol2r report .* seed=1000", told)


def test_a_row_is_repeated_with_its_settings(published, tmp_path, capfd):
    assert main(["tiny", "click=inf", "--repeat", "sgd", f"output_dir={tmp_path / 'own'}"]) == 0
    shown = capfd.readouterr().out
    assert re.search("([12]) of \\1 runs have the published numbers in all metrics, to the last digit", shown)
    assert "random" not in shown
    rows = pl.read_parquet(published / "tiny.parquet")
    other = pl.when(pl.col("seed") == 1).then(pl.col("test_ndcg_10") + 0.25).otherwise(pl.col("test_ndcg_10"))
    rows.with_columns(other).write_parquet(published / "tiny.parquet")
    assert main(["tiny", "click=inf", "--repeat", "SGD", f"output_dir={tmp_path / 'own'}"]) == 1
    shown = capfd.readouterr().out
    assert "0 of" in shown
    assert shown.count("2 of 3") == shown.count("0.2500") >= 1


@pytest.mark.parametrize(
    ("change", "seeds", "marked", "code", "told"),
    [
        (0.0, [1], False, 0, "to the last digit"),
        (1e-13, [1], False, 0, "but for the rounding of sums, below 1e-9"),
        (0.001, [1], False, 1, "0 of"),
        (0.001, [1], True, 0, "others have ‡, and the published means within half of their 95% intervals over seeds"),
        (9.0, [0, 1, 2], True, 1, "0 of"),
    ],
)
def test_a_row_is_repeated_as_far_as_processors_give_it(published, made, capfd, change, seeds, marked, code, told):
    """Sums may round otherwise everywhere; a row with ‡ has means within half of their intervals."""
    rows, value = pl.read_parquet(published / "tiny.parquet"), pl.col("test_ndcg_10")
    other = pl.when(pl.col("seed").is_in(seeds)).then(value + change).otherwise(value)
    rows.with_columns(other).write_parquet(published / "tiny.parquet")
    words = [shlex.join(row.words) for row in results.published("tiny")] if marked else []
    tried = pl.DataFrame({"overrides": words, "differs": [True] * len(words)}, {"overrides": str, "differs": bool})
    tried.write_parquet(published / "processors.parquet")
    finished = f"output_dir={made / 'out'}"
    assert main(["tiny", "click=inf", "--repeat", "SGD", finished]) == code
    shown = capfd.readouterr().out
    assert told in shown
    assert ("‡: of the mean, in half intervals" in shown) == marked
    assert main(["tiny", "click=inf"]) == 0
    assert bool(re.search(r"SGD.* ± [\d.]+ ‡", capfd.readouterr().out)) == marked


@pytest.fixture
def theirs(published, tmp_path):
    """The results of another machine, in a file."""
    return Path(shutil.copytree(published, tmp_path / "theirs")) / "tiny.parquet"


def test_of_a_file_of_another_machine_one_seed_is_played_again(theirs, tmp_path, capfd):
    again = ["check", str(theirs), f"output_dir={tmp_path / 'out'}"]
    assert main(again) == 0
    told = r"(\d+) of \1 runs have the numbers of tiny.parquet\ntiny.parquet can be merged: type"
    assert re.search(told, capfd.readouterr().out)
    seeds = [tuple(run.seeds) for run in collect([tmp_path / "out" / "benchmark"]).runs]
    assert set(seeds) == {(0,)}, "nothing chooses"
    assert main([*again, "click=inf"]) == 0
    assert "nothing is wrong with this part: to check all of tiny.parquet leave out click=inf" in capfd.readouterr().out


def other_numbers(rows, choices):
    value = pl.col("cumulative_ndcg")
    return rows.with_columns(pl.when(pl.col("seed") == 0).then(value + 1e-3).otherwise(value)), choices


def other_best(rows, choices):
    value, is_last = pl.col("cumulative_ndcg"), pl.col("settings").str.ends_with("=0.001")
    return rows, choices.with_columns(pl.when(is_last).then(99.0).otherwise(value).alias("cumulative_ndcg"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_numbers, r"cannot be merged: \d runs with other numbers"),
        (lambda rows, choices: (rows.filter(click="perfect"), choices), r"rows? missing: small, informational"),
        (lambda rows, choices: (rows.filter(pl.col("seed") < 2), choices), "random must have folds .* with 3 seeds"),
        (other_best, "has ranker.learning_rate=.*, and its choosing runs choose ranker.learning_rate=0.001"),
        (lambda rows, _: (rows, None), "SGD, offline must have choosing runs in tiny_choice.parquet, got none"),
    ],
    ids=["numbers", "a row", "a seed", "the choice", "choosing runs"],
)
def test_a_file_with_something_else_cannot_be_merged(theirs, made, capfd, change, message):
    choices = theirs.with_name("tiny_choice.parquet")
    rows, of_choice = change(pl.read_parquet(theirs), pl.read_parquet(choices))
    rows.write_parquet(theirs)
    choices.unlink()
    if of_choice is not None:
        of_choice.write_parquet(choices)
    assert main(["check", str(theirs), f"output_dir={made / 'checked'}"]) == 1  # runs are played once for all cases
    shown, told = capfd.readouterr()
    assert re.search(message, shown + told)
    assert "tiny.parquet cannot be merged" in shown


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "one FILE is needed: type ol2r benchmark check"),
        ("other.parquet", "FILE must be called NAME.parquet of tiny"),
        ("tiny.parquet --run", "check takes a file and a part of it"),
        ("tiny.parquet dataset=mq2008", "dataset must be one of the file, small, got mq2008"),
    ],
)
def test_what_is_checked_is_a_file_of_a_benchmark(theirs, capfd, monkeypatch, typed, message):
    monkeypatch.chdir(theirs.parent)
    shutil.copy(theirs, "other.parquet")
    assert main(["check", *typed.split()]) == 2
    assert message in capfd.readouterr().err


def test_benchmarks_are_listed(tmp_path, monkeypatch, capsys):
    published_in(tmp_path / "nothing", monkeypatch)
    assert main([]) == 0
    assert capsys.readouterr().out.splitlines()[0].split(maxsplit=1) == ["tiny", "two rankers (not published yet)"]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("other", "NAME must be one of those that `ol2r benchmark` lists, got other"),
        ("tiny", "there are no published results of tiny for this: type ol2r benchmark tiny --run"),
        ("tiny --dry-run", "--dry-run goes with --run or --add"),
        ("tiny --run --add ranker=pdgd", "--add, --repeat and --run exclude each other: leave out all but one"),
        ("tiny --add ranker=pdgd", "there are no published results of tiny for this"),
        ("tiny --run rounds=3", "tiny fixes all settings but dataset, dataset.fold, click: leave out rounds=3"),
        ("tiny --add ranker=pdgd seed=3", "tiny fixes all settings but dataset, dataset.fold, click: leave out seed=3"),
        ("tiny dataset.path=a/b", "leave out dataset.path=a/b: type data_dir=FOLDER"),
        ("tiny --add ranker=pdgd,dbgd", "--add must name one ranker, such as --add ranker=mine"),
        ("tiny --add ranker.l2=1", "--add must name one ranker, such as --add ranker=mine, got ranker.l2=1"),
        (
            "tiny --add dataset=synthetic",
            "--add must name one ranker, such as --add ranker=mine, got dataset=synthetic",
        ),
        ("tiny --dry-run --add click=per", "--add must name one ranker, such as --add ranker=mine, got click=per"),
        ("tiny --add ranker=pdgd --add ranker=dbgd", "--add adds one ranker"),
        ("--out there", "--out goes with NAME, such as ol2r benchmark linear --out table.tex"),
        ("tiny --out there", "there are no published results of tiny for this"),
        ("tiny --repeat random --out x.tex", "--out goes with a table: leave it out with --repeat"),
        ("tiny --run --rows random", "--rows and --name go with a table that is shown: leave them out with --run"),
        ("tiny --name random", "--name must be ROW=NAME, such as mine=Ours, got random"),
        ("claims PairRank --rows PDGD", "claims takes the name of a paper and no options"),
        (
            "tiny dataset=synthetic --add ranker=pdgd dataset=mq2008",
            "dataset must be typed once, got dataset=synthetic and dataset=mq2008",
        ),
        ("tiny click=per click=inf", "click must be typed once, got click=per and click=inf"),
        ("tiny dataset.fold=1 --add ranker=pdgd", "leave out dataset.fold=1: small has no folds"),
        (
            "tiny click=infomational",
            "click must be perfect or informational with small, got infomational: did you mean",
        ),
        ("tiny dataset=mq2008", "dataset must be synthetic, got mq2008"),
    ],
)
def test_errors_say_what_to_type(tmp_path, monkeypatch, capsys, typed, message):
    published_in(tmp_path / "nothing", monkeypatch)
    assert main(typed.split()) == 2
    assert f"ol2r benchmark: {message}" in capsys.readouterr().err


def test_two_rows_may_have_the_same_run(published, monkeypatch):
    """A competitor whose chosen settings are those that another one has by default. They share a place."""
    known = results.published("tiny")
    both = [
        replace(row, condition=row.condition._replace(competitor="same")) for row in known if row.competitor == "SGD"
    ]
    before = pl.read_parquet(published / "tiny.parquet")
    results.as_published([*known, *both]).write_parquet(published / "tiny.parquet")
    choices = pl.read_parquet(published / "tiny_choice.parquet")
    of_both = pl.concat([choices, choices.with_columns(competitor=pl.lit("same"))])
    of_both.write_parquet(published / "tiny_choice.parquet")
    rows = pl.read_parquet(published / "tiny.parquet")["rows"].to_list()
    assert len(rows) == len(before), "each run once"
    assert all(("SGD, online" in names) == ("same, online" in names) for names in rows)
    assert publish([]) == 0
    overview = (published / "tiny.md").read_text().partition("## small")[0].splitlines()
    places = [line.split("|")[2] for line in overview if line.startswith(("| SGD", "| same"))]
    assert len(places) == 2
    assert places[0] == places[1]
