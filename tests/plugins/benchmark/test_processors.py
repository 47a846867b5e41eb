"""The mark ‡: which rows were tried on other processors, and that what was found is what they give."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli.plugins.benchmark import results
from ol2r_cli.plugins.benchmark.recipe import Condition, recipe_names
from ol2r_cli.plugins.benchmark.results import Row, published_dir
from ol2r_cli.report.finished_run import FinishedRun
from scripts import processors
from scripts.processors import AVX2, HERE, LEAST, compared, missing, published_settings
from tests.plugins.benchmark.small import BENCHMARK, rows_of, use, write

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "processors.py"
Key = tuple[str, str, str, str, str]
ROW = ["benchmark", "table", "click", "competitor", "aim"]
PUBLISHED = [name for name in recipe_names("benchmark") if (published_dir() / f"{name}.parquet").is_file()]


@pytest.fixture(scope="module")
def tried() -> pl.DataFrame:
    return pl.read_parquet(published_dir() / results.PROCESSORS_FILE)


@pytest.fixture(scope="module")
def rows() -> dict[Key, tuple[FinishedRun, Row]]:
    """The run of the first fold of each published row."""
    return {
        (name, *row.condition[:4]): (min(row.group.runs, key=lambda run: run.fold or 0), row)
        for name in PUBLISHED
        for row in rows_of(name)
    }


def test_every_published_row_was_tried(tried, rows):
    """With its settings, on the processor with the fewest instructions: at least one seed of the first fold."""
    least = tried.filter(processor=LEAST).unique(ROW, keep="first")
    found = {tuple(line[:5]): line[5:] for line in least.select(*ROW, "fold", "overrides").iter_rows()}
    expected = {key: (run.fold, shlex.join(row.words)) for key, (run, row) in rows.items()}
    assert found == {row: played for row, played in expected.items() if row in found}
    assert all(is_costly(rows[row][0]) for row in expected.keys() - found.keys())


def test_seeds_and_rounds_are_those_of_the_protocol(tried, rows):
    """Half a second pays for the seeds. Of networks, and of what takes more than a second, at least 500 rounds."""
    least = tried.filter(processor=LEAST).group_by(ROW).agg(pl.col("seed").sort(), pl.col("rounds").unique())
    for *row, seeds, rounds in least.iter_rows():
        run, _ = rows[tuple(row)]
        seconds = run.cpu_seconds / len(run.seeds)
        assert seeds == list(range(len(seeds))), row
        assert len(seeds) <= (1 if is_network(run) or seconds > 0.5 else 10), row
        assert rounds == [run.settings["rounds"]] or (rounds == [500] and is_costly(run)), row


def is_network(run: FinishedRun) -> bool:
    return run.choices.get("ranker/model", "linear") != "linear"


def is_costly(run: FinishedRun) -> bool:
    return is_network(run) or run.cpu_seconds / len(run.seeds) > processors.MOST_SECONDS


def test_the_protocol_counts_what_was_played(tried, rows):
    """Rows with their selections by page, of how many all rounds or the first were played, and how many differ."""
    text = (published_dir() / "protocol.md").read_text()
    least = tried.filter(processor=LEAST).unique([*ROW, "rounds"]).select(*ROW, "rounds").iter_rows()
    whole = {tuple(row) for *row, rounds in least if rounds == rows[tuple(row)][0].settings["rounds"]}
    first = set(tried.filter(processor=LEAST).select(ROW).iter_rows()) - whole
    differs = set(tried.filter("differs").select(ROW).iter_rows())
    columns = rows, whole, first, differs
    counts = {name: tuple(str(sum(row[0] == name for row in some)) for some in columns) for name in PUBLISHED}
    printed = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert {name: tuple(numbers) for name, *numbers in printed} == counts


def test_what_is_marked_differs_beyond_the_rounding_of_sums(tried):
    """Cumulative NDCG is a sum over rounds, which nearly always tells another list; here no sum differs by less."""
    same, others = (tried.filter(pl.col("differs") == differs) for differs in (False, True))
    assert same.select(pl.max("test_ndcg_10_difference", "cumulative_ndcg_difference")).max_horizontal().item() < 1e-9
    assert others["cumulative_ndcg_difference"].max() > 1
    assert {LEAST, AVX2, HERE} == set(tried["processor"])


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The settings of a small benchmark, and the values that another processor is to give."""
    write(use(tmp_path / "recipes", monkeypatch), "tiny", **BENCHMARK)
    row = next(row for row in rows_of("linear") if row.competitor == "random lists" and row.group.runs[0].fold is None)
    words = ["dataset=synthetic", "click=perfect", "rounds=5000", "ranker=random"]
    tiny_row = replace(row, condition=Condition("small", "perfect", "random"), words=words)
    monkeypatch.setattr(results, "published", lambda name: [tiny_row])
    (setting,) = published_settings(["tiny"])
    return setting


def test_a_difference_beyond_rounding_is_found(tiny):
    """That of a sum in its last digit is none; what the published values are not must be played again."""
    play = tiny.play(LEAST, 5000)
    assert missing(tiny, {}, is_sample=False) == [play]
    assert {each.processor for each in missing(tiny, {}, is_sample=True)} == {HERE, LEAST, AVX2}
    with pytest.raises(
        ValueError, match=r"^not yet played: dataset=synthetic click=perfect rounds=5000 ranker=random$"
    ):
        compared([tiny], {})
    same = {seed: tiny.run.values[seed] for seed in range(play.seeds)}
    for change, differs in ((0.0, False), (1e-12, False), (1e-3, True)):
        values = {
            seed: {**of_seed, "cumulative_ndcg": of_seed["cumulative_ndcg"] + change} for seed, of_seed in same.items()
        }
        kept = {play.key: values}
        assert missing(tiny, kept, is_sample=False) == []
        frame = compared([tiny], kept)
        assert frame["differs"].to_list() == [differs] * play.seeds
        assert frame["cumulative_ndcg_difference"].to_list() == pytest.approx([change] * play.seeds, abs=1e-12)
    here = tiny.play(HERE, 5000)
    frame = compared([tiny], {play.key: same, here.key: values})
    assert dict(frame.group_by("processor").agg(pl.col("differs").any()).iter_rows()) == {LEAST: False, HERE: True}


@pytest.mark.parametrize(
    ("names", "data", "kept"),
    [
        (None, None, []),
        (["a"], None, ["bx", "by"]),
        (None, ["x"], ["ay", "by"]),
        (["a"], ["x"], ["ay", "bx", "by"]),
    ],
)
def test_what_is_not_played_anew_keeps_its_lines(tmp_path, names, data, kept):
    lines = [{"benchmark": name, "table": of, "fold": 1} for name in "ab" for of in "xy"]
    pl.DataFrame(lines).write_parquet(tmp_path / "table.parquet")
    new = pl.DataFrame({"benchmark": ["new"], "table": ["new"], "fold": [None]})  # generated data have no folds
    frame = processors.with_others(new, tmp_path / "table.parquet", names, data)
    assert [f"{name}{of}" for name, of, _ in frame.rows()] == [*kept, "newnew"]


def test_only_settings_of_some_data_are_played():
    settings = published_settings(["linear"], ["OHSUMED"])
    assert {row.condition.data for setting in settings for _, row in setting.rows} == {"OHSUMED"}


def test_the_first_rounds_are_compared_with_what_is_played_here(tiny, monkeypatch):
    """Of networks, and of what is costly; not where all rounds of it were played."""
    first, (_, whole) = ([tiny.play(processor, rounds) for processor in (HERE, LEAST)] for rounds in (500, 5000))
    one, other = {0: {"cumulative_ndcg": 1.0, "test_ndcg_10": 0.5}}, {0: {"cumulative_ndcg": 2.0, "test_ndcg_10": 0.5}}
    monkeypatch.setattr(processors, "MOST_SECONDS", 0.0)
    assert missing(tiny, {}, is_sample=False) == first[::-1]
    assert missing(tiny, {whole.key: one}, is_sample=False) == []
    assert compared([tiny], {first[1].key: one}).is_empty()
    for values, differs in ((one, False), (other, True)):
        frame = compared([tiny], {first[0].key: one, first[1].key: values})
        assert frame.select("processor", "rounds", "differs").rows() == [(LEAST, 500, differs)]
    monkeypatch.undo()
    tiny.run.choices["ranker/model"] = "mlp"
    assert [(play.processor, play.rounds, play.seeds) for play in missing(tiny, {}, is_sample=False)] == [
        (LEAST, 500, 1),
        (HERE, 500, 1),
    ]


def test_processors_need_their_variables(tmp_path):
    """Otherwise a play would be of the processor at hand under another name."""
    names = runpy.run_path(str(SCRIPT), run_name="processors")
    with pytest.raises(SystemExit, match="x86-64 needs ATEN_CPU_CAPABILITY=default "):
        names["play_all"](LEAST, [], [], tmp_path)


@pytest.mark.slow
def test_rows_are_played_again_as_the_table_says(tried, tmp_path):
    """Cheap rows of generated data in a process with the fewest instructions; PDGD is among those that differ."""
    settings = [each for each in published_settings(["linear"]) if each.run.choices["dataset"] == "synthetic"]
    pdgd = [each for each in settings if each.run.choices["ranker"] == "pdgd"]
    chosen = [*pdgd, *settings[:6]]
    plays = [setting.play(LEAST, setting.rounds) for setting in chosen]
    code = f"""
import json, runpy, sys
names = runpy.run_path({str(SCRIPT)!r}, run_name="processors")
composer, plays = names["Composer"](), json.loads(sys.stdin.read())
for words in plays:
    values = names["played"](names["Play"]("", "", 0, 0, tuple(words)), composer, ["cache_dir={tmp_path}"])
    print(json.dumps(values))
"""
    environment = os.environ | processors.PROCESSORS[LEAST] | {"PYTHONPATH": str(ROOT)}
    text = json.dumps([play.words for play in plays])
    ended = subprocess.run(
        [sys.executable, "-c", code], input=text, env=environment, capture_output=True, text=True, check=True
    )
    kept = {}
    for play, line in zip(plays, ended.stdout.splitlines(), strict=True):
        kept[play.key] = {int(seed): values for seed, values in json.loads(line).items()}
    again = compared(chosen, kept)
    assert again.filter("differs")["competitor"].unique().to_list() == ["PDGD"]
    both = again.join(tried, on=[*ROW, "processor", "seed", "rounds"], suffix="_before")
    assert len(both) == len(again)
    assert both.filter(pl.col("differs") != pl.col("differs_before")).is_empty()
