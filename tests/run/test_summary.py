"""`summary.json` and the text of a finished run, by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest
import torch

from ol2r_cli.columns import Column
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.printed import render, shows_unfairness
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.run.summary import summarise
from ol2r_cli.run.trace import Trace

ROUNDS = 20
MANIFEST = {
    "status": "finished",
    "id": "0123456789",
    "choices": {"dataset": "mslr_web10k", "ranker": "pairrank", "click": "navigational", "fairness": "fairexp"},
    "seeds": [1, 2],
    "seconds": 185.0,
    "rounds_per_second": 1234.5,
    "device": "cpu",
    "threads": 1,
    "progress": {"round": ROUNDS, "rounds": ROUNDS},
    "command": "ol2r run click=nav",
}


def written(directory: RunDirectory, **manifest: Any) -> Run:
    """The run as it has been written."""
    return Run(directory.path, MANIFEST | manifest, files=directory.files)


def text_of(
    run: Run, path: str = "outputs/mslr_web10k/a", more: Mapping[str, Any] | None = None, **manifest: Any
) -> str:
    """The text of a finished run in a directory of this name, with more metrics."""
    shown, summary = Run(path, run.manifest | manifest), summarise(run)
    shown.settings = {"dataset": {"fold": 3}}
    shown.summary_file = summary | {"metrics": summary["metrics"] | (more or {})}
    return render(shown)


@pytest.fixture
def run(tmp_path):
    """Seeds 1 and 2, 20 rounds. Online NDCG is 0 up to round 18, then 0.25, 0.75 for seed 1 and 0.5, 0.5 for seed 2."""
    directory = RunDirectory(tmp_path)
    trace = Trace(directory, [1, 2])
    for t in range(1, ROUNDS + 1):
        online = {19: [0.25, 0.5], 20: [0.75, 0.5]}.get(t, [0.0, 0.0])
        values = {
            "online_ndcg": online,
            "cumulative_ndcg": [t, 3.0 * t],
            "regret": [1, t],
            "clicks": [2, -1],  # clicks do not apply to seed 2
            "unfairness": [-t / 2, t / 2],
            "blocks": [t, 40 - t],
        }
        trace.record(t, {name: torch.tensor(of_seeds) for name, of_seeds in values.items()})
    rounds = [0, 10, 20]
    test = torch.tensor([[0.25, 0.5], [0.5, 0.25], [0.75, 0.75]])
    cosine = torch.tensor([[0.0, 0.0], [0.5, 0.5], [0.5, 1.0]])
    trace.record_evaluation(rounds, "test", {"ndcg_10": test, "cosine": cosine})
    # seed 1 is best at round 10 (and again at 20: the first counts), seed 2 at round 0
    trace.record_evaluation(rounds, "validation", {"ndcg_10": torch.tensor([[0.25, 0.5], [0.5, 0.25], [0.5, 0.25]])})
    trace.flush()
    return written(directory)


def over_two(first: float, second: float) -> dict[str, float]:
    """For two values the standard deviation with n - 1 is their distance over the root of two."""
    return {"mean": (first + second) / 2, "sd": abs(first - second) / math.sqrt(2), "n": 2}


def test_every_metric_has_the_value_computed_by_hand(run):
    summary = summarise(run)
    assert (summary["results_version"], summary["seeds"], summary["rounds"]) == (RESULTS_VERSION, 2, ROUNDS)
    expected = {
        "online_ndcg": over_two(1 / 20, 1 / 20),
        "online_ndcg_last_tenth": over_two(0.5, 0.5),  # rounds 19 and 20
        "cumulative_ndcg": over_two(20, 60),
        "regret": over_two(20, 210),  # 20 times 1; 1 + ... + 20
        "clicks": {"mean": 40.0, "sd": None, "n": 1},
        "unfairness": over_two(10, 10),  # the absolute value: -10 and 10 do not cancel
        "blocks": over_two(19.5, 20.5),  # means of 19, 20 and of 21, 20
        "test_ndcg_10": over_two(0.75, 0.75),
        "test_ndcg_10_untrained": over_two(0.25, 0.5),
        "test_ndcg_10_best": over_two(0.5, 0.5),  # seed 1 at round 10, seed 2 at round 0
        "best_round": over_two(10, 0),
        "validation_ndcg_10": over_two(0.5, 0.25),
        "validation_ndcg_10_untrained": over_two(0.25, 0.5),
        "cosine": over_two(0.5, 1.0),
    }
    assert summary["metrics"] == {name: pytest.approx(values) for name, values in expected.items()}
    by_seed = summary["by_seed"]
    assert by_seed.keys() == {"seed", *expected}
    columns = {"seed": [1, 2], "regret": [20, 210], "clicks": [40, None], "best_round": [10, 0]}
    assert {name: by_seed[name] for name in columns} == columns


def test_what_a_run_lacks_is_left_out(tmp_path):
    directory = RunDirectory(tmp_path)
    empty = {"results_version": RESULTS_VERSION, "seeds": 0, "rounds": 20, "metrics": {}, "by_seed": {"seed": []}}
    assert summarise(written(directory)) == empty
    trace = Trace(directory, [5])
    trace.record_evaluation([0, 1], "test", {"ndcg_10": torch.tensor([[0.5], [0.25]])})
    trace.flush()
    metrics = summarise(written(directory))["metrics"]
    assert set(metrics) == {"test_ndcg_10", "test_ndcg_10_untrained"}, "without a validation split no round is chosen"
    assert metrics["test_ndcg_10"] == {"mean": 0.25, "sd": None, "n": 1}
    trace.record(1, {"online_ndcg": torch.tensor([[0.25], [0.5], [1.0]])})
    trace.flush()
    metrics = summarise(written(directory))["metrics"]
    assert metrics["online_ndcg_last_tenth"]["mean"] == 1.0, "the last tenth of few rounds is the last round"


def test_the_text_has_experiment_results_and_what_to_type(run, tmp_path, monkeypatch):
    """The text contains the experiment, its results and what to type."""
    monkeypatch.chdir(tmp_path)
    text = text_of(run, "outputs/mslr_web10k/a b")
    # of two values t(.975, 1) x sd / sqrt(2), where sd is their distance / sqrt(2)
    t = math.tan(0.475 * math.pi)
    assert text.splitlines() == [
        "finished: run 0123456789; numbers are means over seeds ± half the 95% interval of the mean",
        "  experiment       ranker pairrank, fairness fairexp, click model navigational, dataset mslr_web10k, "
        "fold 3, 20 rounds, 2 seeds (1 to 2)",
        f"  test NDCG@10     0.3750 ± {t * 0.25 / 2:.4f} untrained, 0.7500 ± 0.0000 after 20 rounds; "
        "0.5000 ± 0.0000 at the best round by validation",
        "  online NDCG      0.0500 ± 0.0000 of the lists shown, 0.5000 ± 0.0000 in the last tenth",
        f"  cumulative NDCG  40.00 ± {t * 40 / 2:.2f}",
        "  |unfairness|     10.000 ± 0.000",
        "  time             3m 05s at 1,234 rounds/s (cpu, 1 thread)",
        "  files            outputs/mslr_web10k/a b",
        "  next             ol2r list (other users, rankers and datasets to try)",
        "                   ol2r status (all runs)",
    ]


def next_commands(text: str) -> list[str]:
    """The last two lines of the text of a run, without what the commands show."""
    return [line.removeprefix("  next").strip().partition(" (")[0] for line in text.splitlines()[-2:]]


@pytest.mark.parametrize(
    ("root", "named"), [("outputs", ""), ("my tour", " 'my tour'"), ("final", " final"), ("/data/runs", " /data/runs")]
)
def test_the_next_commands_are_of_the_folder(run, tmp_path, monkeypatch, root, named):
    monkeypatch.chdir(tmp_path)
    assert next_commands(text_of(run, f"{root}/mslr/a")) == ["ol2r list", f"ol2r status{named}"]


@pytest.mark.parametrize(("root", "named"), [("outputs", ""), ("my tour", " 'my tour'")])
def test_from_the_second_run_on_the_next_command_is_a_report(run, tmp_path, monkeypatch, root, named):
    monkeypatch.chdir(tmp_path)
    for name in "a", "b":
        RunDirectory(tmp_path / root / "mslr" / name).write_text("summary.json", "{}")
    assert next_commands(text_of(run, f"{root}/mslr/a")) == [f"ol2r report{named}", f"ol2r status{named}"]


def test_next_commands_begin_with_the_program_as_called(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [".venv/bin/ol2r", "run"])
    assert next_commands(text_of(run)) == [".venv/bin/ol2r list", ".venv/bin/ol2r status"]


def test_on_a_terminal_the_text_is_wrapped_between_words(run, on_terminal):
    text = text_of(run, "outputs/mslr_web10k/a b")
    on_terminal(80)
    wrapped = text_of(run, "outputs/mslr_web10k/a b").splitlines()
    assert max(map(len, wrapped)) <= 80
    assert " ".join(" ".join(wrapped).split()) == " ".join(text.split())


def test_an_absolute_value_is_printed_between_bars(run):
    """Of unfairness, and of what a measure of the user declares."""
    gap = asdict(Column("unfairness_too", "gap", summary="size"))
    choices = {"dataset": "mq2008", "ranker": "pdgd", "click": "perfect"}
    more = {"unfairness_too": over_two(4, 4)}
    text = text_of(run, "outputs/mq2008/a", more, choices=choices, columns={"trace": [gap]})
    assert "  |unfairness|     10.000 " in text
    assert "  |gap|            4.0000 " in text


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        *((word, False) for word in ("rounds=20", "dataset.seed=1")),
        *((word, True) for word in ("dataset.group_ratio=.9", "measures=[unfairness]", "beta=2", "exposure=log")),
    ],
)
def test_unfairness_is_shown_to_those_who_chose_about_it(run, word, shown):
    choices = {"dataset": "synthetic", "ranker": "pdgd", "click": "perfect", "fairness": "none"}
    assert ("unfairness" in text_of(run, choices=choices, command=f"ol2r run {word}")) is shown


@pytest.mark.parametrize("choice", [{"fairness": "fairco"}, {"dataset": "mq2008"}], ids=str)
def test_unfairness_is_shown_with_a_fairness_or_data_with_groups(choice):
    usual = {"dataset": "synthetic", "ranker": "pdgd", "click": "perfect", "fairness": "none"}
    assert shows_unfairness(usual | choice, [])


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"startup_seconds": 61.0}, "(cpu, 1 thread), 1m 01s to start\n"),  # what took long before
        ({"note": "first try"}, "\n  note             first try\n"),
    ],
)
def test_the_text_has_what_is_unusual_of_the_run(run, more, line):
    assert line in text_of(run, **more)


@pytest.mark.parametrize("found", ["found", "nowhere"])
def test_the_next_command_names_folders_that_have_to_be_typed(run, tmp_path, monkeypatch, found):
    """Those with own choices that are not found by themselves; where these are not there, it names none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "found").mkdir()
    monkeypatch.setenv("OL2R_CHOICES", str(tmp_path / found))
    typed = f"--config-dir '{tmp_path / 'my choices'}'"
    text = text_of(run, command=f"ol2r run ranker=mine --config-dir {tmp_path / 'found'} {typed}")
    assert next_commands(text)[0] == (f"ol2r list {typed}" if found == "found" else "ol2r list")


def test_the_text_leaves_out_what_is_unknown(tmp_path):
    directory = RunDirectory(tmp_path)
    trace = Trace(directory, [4])
    trace.record(1, {"online_ndcg": torch.tensor([0.5])})
    trace.flush()
    text = text_of(written(directory, seeds=[4], rounds_per_second=None, threads=2, status="interrupted"))
    assert text.startswith("interrupted: run 0123456789\n")
    assert "seed 4" in text
    assert "3m 05s (cpu, 2 threads)" in text
    assert not {"±", "test NDCG"} & {*text.split(), *text.split("  ")}


def test_an_exploration_that_was_typed_is_told(run):
    """It is another ranker than the one with the exploration that comes along."""
    choices = run.manifest["choices"] | {"exploration": "none"}
    told = ", exploration none, "
    assert told in text_of(run, choices=choices, command="ol2r run exploration=none")
    assert told not in text_of(run, choices=choices, command="ol2r run")
