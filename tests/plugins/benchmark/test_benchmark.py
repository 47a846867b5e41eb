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


def test_published_tables_are_shown(published, capsys, monkeypatch):
    assert main(["tiny"]) == 0
    everything = capsys.readouterr().out
    titles = [line for line in everything.splitlines() if line.startswith("small, ")]
    assert titles == ["small, perfect", "small, informational"]
    assert main(["tiny", "click=inf"]) == 0
    part = capsys.readouterr().out
    assert "informational" in part
    assert "perfect" not in part
    assert all(line in everything for line in part.splitlines())
    assert report([str(published / "tiny.parquet"), "--metric", "test_ndcg_10", "--format", "csv"]) == 0
    distinct = pl.read_parquet(published / "tiny.parquet")["run"].n_unique()
    assert len(capsys.readouterr().out.splitlines()) == 1 + distinct  # the published file is a report
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


def test_rankers_join_the_table(published, tmp_path, capfd):
    """A row shows what was typed; a choice between equal settings is told; the same ranker has the same numbers."""

    def added(*words: str) -> tuple[list[list[str]], str]:
        assert main(["tiny", "click=inf", f"output_dir={tmp_path / 'own'}", "--add", *words]) == 0
        captured = capfd.readouterr()
        assert "perfect" not in captured.out
        assert f"runs: {tmp_path / 'own'}" in captured.out
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in captured.out.splitlines()]
        assert sum(row[:1] == ["SGD"] for row in rows) in (2, 3), "the published row, and its settings for two aims"
        return [row for row in rows if row and row[0].startswith(words[0].partition("=")[2])], captured.err

    equal = ["ranker=sgd_ranknet", "exploration=epsilon_greedy", "ranker.learning_rate=1e-30,2e-30"]
    rows, told = added(*equal)
    shown = ["sgd_ranknet (added)", "both", "exploration=epsilon_greedy learning_rate=1e-30"]
    assert [row[:3] for row in rows][1:-1] == [shown]
    assert rows[-1] == rows[0], "the added row is repeated last"
    assert "small, informational, offline: all settings are equally good" in told
    rows, told = added("ranker=random")
    assert "[1/1] ranker=random: done" in told, "a job has the name of what it is, not of the protocol"
    assert [row[0] for row in rows] == ["random (baseline)", *["random (added)", "random"], *["random (added)"] * 2]
    assert rows[0][1:3] == rows[1][1:3]
    assert main(["tiny", "click=inf", "--dry-run", "--add", *equal, f"output_dir={tmp_path / 'new'}"]) == 0
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


def test_tables_with_an_own_row_are_written_for_a_paper(published, joined, tmp_path, capfd):
    """What is in a file is what is printed: both intervals, differences and marks of the whole table."""
    assert main([*joined, "--name", "sgd_ranknet=Our & ranker"]) == 0
    printed = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capfd.readouterr().out.splitlines()]
    (ours, *_) = [row for row in printed if row and row[0].startswith("Our & ranker")]
    wanted = [*joined, "--name", "sgd_ranknet=Our & ranker", "--rows", "random", "--out"]
    for form in ("tex", "csv", "md", "json", "parquet", "svg"):
        file = tmp_path / "made" / f"table.{form}"
        assert main([*wanted, str(file)]) == 0, form
        assert f"written: {file}" in capfd.readouterr().out
    files = {file.suffix: file for file in (tmp_path / "made").iterdir()}
    latex, page = files[".tex"].read_text(), files[".md"].read_text()
    line = next(line for line in latex.splitlines() if line.startswith(r"Our \& ranker"))
    assert (
        line.replace(r"$\pm$", "±")
        .replace(r"\&", "&")
        .replace(r"$^{\dagger}$", "†")
        .replace("{[}", "[")
        .startswith(f"{ours[0]} & {ours[1].split(' ↑')[0].split(' ↓')[0]}")
    )
    assert r"\caption{Tiny: small, perfect. " in latex
    assert "2 of 3 rows are shown; Holm's correction is for all of a column." in latex
    assert ours[0] in page
    for text in (latex, page):
        assert "SGD" not in text.partition("Made with")[0].replace("SGD RankNet", "")
        assert "second table" not in text
    rows = pl.read_csv(files[".csv"])
    assert rows["ranker"].to_list().count("Our & ranker") == 1
    assert rows.columns == pl.read_parquet(files[".parquet"]).columns
    own = rows.filter(click="perfect", ranker="Our & ranker").row(0, named=True)
    mean, half, *_ = re.findall(r"[\d.]+", ours[1])
    wide = re.findall(r"\(([\d.]+)\)", ours[1])
    assert f"{own['test_ndcg_10_mean']:.4f}" == mean
    assert f"{own['test_ndcg_10_half_width']:.4f}" == half
    assert [f"{own['test_ndcg_10_half_width_with_selection']:.4f}"] == (wide or [half])
    assert own["test_ndcg_10_overrides"].startswith("ranker=sgd_ranknet ranker.learning_rate=")
    base = rows.filter(click="perfect", ranker="random").row(0, named=True)
    assert own["test_ndcg_10_difference"] == pytest.approx(own["test_ndcg_10_mean"] - base["test_ndcg_10_mean"])
    assert {"random", "Our & ranker"} == {row["ranker"] for row in pl.read_json(files[".json"]).to_dicts()}
    texts = re.findall(r">([^<>]+)</text>", files[".svg"].read_text())
    assert "Our &amp; ranker" in texts
    assert "test NDCG@10, small, perfect" in texts
    assert "SGD" not in texts


def test_published_tables_are_written_without_a_run(published, tmp_path, capsys):
    assert main(["tiny", "click=inf", "--rows", "sgd", "--out", str(tmp_path / "t.tex")]) == 0
    assert capsys.readouterr().out == f"written: {tmp_path / 't.tex'}\n"
    assert r"\caption{Tiny: small, informational. " in (tmp_path / "t.tex").read_text()
    assert main(["tiny", "click=inf", "--rows", "SGD", "--name", "random=chance", "SGD=gradient"]) == 0
    shown = capsys.readouterr().out
    assert "chance (baseline)" in shown
    assert "gradient" in shown
    for typed, message in (
        (["--out", "t.doc"], "--out must end in .md, .csv, .parquet, .tex, .json, .png, .svg, .pdf, got t.doc"),
        (["--rows", "SDG"], "--rows must name rows, 'random', 'SGD', got SDG: did you mean SGD?"),
        (["--name", "SGD=random"], "--name must give each row another name, got random"),
    ):
        assert main(["tiny", "click=inf", *typed]) == 2
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
    assert main(["tiny", "--repeat", "random", "SDG"]) == 2
    message = "ol2r benchmark: --repeat must name rows, 'random', 'SGD', got SDG: did you mean SGD?"
    assert message in capfd.readouterr().err


def test_a_row_is_repeated_as_far_as_processors_give_it(published, made, tmp_path, monkeypatch, capfd):
    """Sums may round otherwise everywhere; a row with ‡ has means within half of their intervals."""
    rows = pl.read_parquet(published / "tiny.parquet")
    again = ["tiny", "click=inf", "--repeat", "SGD", f"output_dir={made / 'out'}"]  # those runs are finished
    for change, seeds, marked, code, told in (
        (0.0, [1], False, 0, "to the last digit"),
        (1e-13, [1], False, 0, "but for the rounding of sums, below 1e-9"),
        (0.001, [1], False, 1, "0 of"),
        (0.001, [1], True, 0, "others have ‡, and the published means within half of their 95% intervals over seeds"),
        (9.0, [0, 1, 2], True, 1, "0 of"),
    ):
        folder = Path(shutil.copytree(published, tmp_path / f"changed by {change}, marked {marked}"))
        published_in(folder, monkeypatch)
        other = pl.when(pl.col("seed").is_in(seeds)).then(pl.col("test_ndcg_10") + change)
        rows.with_columns(other.otherwise(pl.col("test_ndcg_10"))).write_parquet(folder / "tiny.parquet")
        tried = pl.DataFrame({"overrides": [], "differs": []}, schema={"overrides": str, "differs": bool})
        if marked:
            words = [shlex.join(row.words) for row in results.published("tiny")]
            tried = pl.DataFrame({"overrides": words, "differs": True})
        tried.write_parquet(folder / "processors.parquet")
        assert main(again) == code, change
        shown = capfd.readouterr().out
        assert told in shown, change
        assert ("‡: of the mean, in half intervals" in shown) == marked, change
    assert main(["tiny", "click=inf"]) == 0
    assert re.search(r"SGD.* ± [\d.]+ ‡", capfd.readouterr().out)


def test_a_file_of_another_machine_is_checked(published, tmp_path, capfd):
    """One seed of each row is played again; a file whose numbers, choices or rows differ cannot be merged."""
    theirs = Path(shutil.copytree(published, tmp_path / "theirs"))
    file, choices = theirs / "tiny.parquet", theirs / "tiny_choice.parquet"
    again = ["check", str(file), f"output_dir={tmp_path / 'out'}"]
    assert main(again) == 0
    shown, told = capfd.readouterr()
    assert re.search(r"(\d+) of \1 runs have the numbers of tiny.parquet\ntiny.parquet can be merged: type", shown)
    assert main([*again, "click=inf"]) == 0
    assert "nothing is wrong with this part: to check all of tiny.parquet leave out click=inf" in capfd.readouterr().out
    assert main([*again, "dataset=mq2008"]) == 2
    assert "dataset must be one of the file, small, got mq2008" in capfd.readouterr().err
    seeds = [run.seeds for run in collect([tmp_path / "out" / "benchmark"]).runs]
    assert seeds
    assert {tuple(of_run) for of_run in seeds} == {(0,)}, "nothing chooses, and one seed is played"
    rows, of_choice = pl.read_parquet(file), pl.read_parquet(choices)
    of_first = pl.when(pl.col("seed") == 0).then(pl.col("cumulative_ndcg") + 1e-3).otherwise(pl.col("cumulative_ndcg"))
    last = of_choice.with_columns(
        pl.when(pl.col("settings").str.ends_with("=0.001"))
        .then(99.0)
        .otherwise(pl.col("cumulative_ndcg"))
        .alias("cumulative_ndcg")
    )
    for frame, chosen, message in (
        (rows.with_columns(of_first), of_choice, r"cannot be merged: \d runs with other numbers"),
        (rows.filter(click="perfect"), of_choice, r"rows? missing: small, informational"),
        (rows.filter(pl.col("seed") < 2), of_choice, "small, perfect, random must have folds .* with 3 seeds"),
        (rows, last, "online has ranker.learning_rate=.*, and its choosing runs choose ranker.learning_rate=0.001"),
        (rows, None, "SGD, offline must have choosing runs in tiny_choice.parquet, got none"),
    ):
        frame.write_parquet(file)
        choices.unlink(missing_ok=True)
        if chosen is not None:
            chosen.write_parquet(choices)
        assert main(again) == 1, message
        shown, told = capfd.readouterr()
        assert re.search(message, shown + told), message
        assert "tiny.parquet cannot be merged" in shown
    file.rename(theirs / "other.parquet")
    for typed, message in (
        (["check"], "one FILE is needed: type ol2r benchmark check"),
        (["check", str(theirs / "other.parquet")], "FILE must be called NAME.parquet of tiny"),
        (["check", str(file), "--run"], "check takes a file and a part of it"),
    ):
        assert main(typed) == 2
        assert message in capfd.readouterr().err


def test_messages(tmp_path, monkeypatch, capsys):
    published_in(tmp_path / "nothing", monkeypatch)
    assert main([]) == 0
    assert capsys.readouterr().out.splitlines()[0].split(maxsplit=1) == ["tiny", "two rankers (not published yet)"]
    for typed, message in (
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
    ):
        assert main(typed.split()) == 2, typed
        assert f"ol2r benchmark: {message}" in capsys.readouterr().err, typed


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
