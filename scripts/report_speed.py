"""Measures how long `ol2r report` takes to read a thousand runs.

    python scripts/report_speed.py [RUNS]

makes RUNS finished runs (10 rankers, 5 click models, 5 folds and enough values of a setting; ten seeds each, with all
metrics) in a temporary folder, and prints the processor time of each step of a report, best of three.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from omegaconf import OmegaConf

from ol2r_cli.report import load
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import METRICS
from ol2r_cli.report.result_tables import groups_table
from ol2r_cli.report.run_groups import collect, group_runs
from ol2r_cli.report.text_table import markdown
from ol2r_cli.run.identity import RESULTS_VERSION

CONFIGS = Path(__file__).parents[1] / "configs"
SEEDS = list(range(10))
NAMES = [
    f"{split}_ndcg_{k}{end}" for split in ("test", "validation") for k in (1, 3, 5, 10) for end in ("", "_untrained")
]
NAMES += ["online_ndcg", "cumulative_ndcg", "clicks", "pairs", "regret", "blocks", "block_size_1", "certain_top10"]


def make(root: Path, runs: int) -> None:
    """Write runs like those of a sweep, with the configuration of PairRank on MQ2008."""
    config = {part: OmegaConf.load(CONFIGS / part / f"{choice}.yaml") for part, choice in [
        ("dataset", "mq2008"), ("click", "perfect"), ("ranker", "pairrank"), ("exploration", "confidence"),
        ("fairness", "none"), ("device", "auto")]}  # fmt: skip
    for number in range(runs):
        ranker, click, fold, value = number % 10, number // 10 % 5, number // 50 % 5, number // 250
        config["ranker"].l2 = 0.1 * (1 + value)
        config["dataset"].fold = 1 + fold
        rest = {"seed": 0, "replicas": len(SEEDS), "rounds": 5000, "positions": 10, "evaluate_every": 100}
        choices = {
            "dataset": "mq2008",
            "click": f"click{click}",
            "ranker": f"ranker{ranker}",
            "exploration": "confidence",
        }
        folder = root / f"{number:010x}"
        folder.mkdir()
        (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create({**config, **rest})))
        about = {"id": f"{number:010x}", "choices": choices, "seeds": SEEDS, "status": "finished"}
        about |= {"results_version": RESULTS_VERSION, "progress": {"round": 5000, "rounds": 5000}}
        about |= {"command": f"ol2r run ranker=ranker{ranker}", "dataset": {"name": "mq2008", "fingerprint": f"{fold}"}}
        (folder / "run.json").write_text(json.dumps(about))
        values = {
            name: [0.4 + ((seed * 7 + number + place) % 13) / 100 for seed in SEEDS] for place, name in enumerate(NAMES)
        }
        metrics = {name: {"mean": sum(own) / 10, "sd": 0.04, "n": 10} for name, own in values.items()}
        (folder / "summary.json").write_text(json.dumps({"metrics": metrics, "by_seed": {"seed": SEEDS} | values}))


def _timed(step: str, call: Callable[[], object]) -> None:
    taken = []
    for _ in range(3):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    print(f"| {step} | {min(taken):.2f} |")


def main(runs: int) -> None:
    """Make the runs and print the table of docs/performance.md."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make(root, runs)
        print(f"{runs:,} runs\n\n| | seconds |\n|---|---|")
        runs = collect([root]).runs
        labels = Labels(group_runs(runs))
        _timed("reading the runs", lambda: collect([root]))
        _timed("grouping and naming them", lambda: Labels(group_runs(runs)))
        _timed("the table", lambda: markdown(groups_table(group_runs(runs), labels)))
        _timed("a comparison with a baseline", lambda: compare(
            group_runs(runs), labels, METRICS, "ranker=ranker0 ranker.l2=0.1"))  # fmt: skip
        _timed("`load()`, all of it", lambda: load(root))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
