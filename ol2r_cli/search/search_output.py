"""What a search prints: a line for every trial, and at the end the best settings and the command to type next."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import optuna
from optuna.trial import TrialState

from ol2r_cli.columns import main_cutoff
from ol2r_cli.formatting import duration
from ol2r_cli.search.study import ActiveTrial, Study
from ol2r_cli.search.trial import read_metrics

FRESH_REPLICAS = 10  # of the run that is proposed at the end
_IMPORTANCE_TRIALS = 8  # with fewer different values, importances are left out
_WIDTH = 100  # characters of the line about the trial in progress


class SearchProgress:
    """Prints a line on stdout when a trial ends and, if `live`, updates a line on stderr during a trial."""

    def __init__(self, study: Study, max_trials: int, live: bool):
        self.study, self.max_trials, self.live = study, max_trials, live
        self.terminal = sys.stderr  # kept, because stderr is redirected during a run
        self._began = 0.0

    def begin(self, active: ActiveTrial) -> None:
        """A trial begins."""
        self._began = time.monotonic()
        self._show(active)

    def evaluated(self, active: ActiveTrial, round: int, value: float) -> None:
        """A trial has this validation NDCG after a round."""
        self._show(active, f"  round {round} {value:.4f}")

    def _show(self, active: ActiveTrial, curve: str = "") -> None:
        if self.live:
            line = f"trial {active.number}/{self.max_trials}  {' '.join(active.drawn)}{curve}"
            print(f"\r\033[K{line[:_WIDTH]}", end="", file=self.terminal, flush=True)

    def end(self, active: ActiveTrial, outcome: str) -> None:
        """A trial ends; `outcome` is its value, or in a few words the reason why it has none."""
        if self.live:
            print("\r\033[K", end="", file=self.terminal, flush=True)
        best = self.study.best()
        best_so_far = f"  best {best.value:.4f}" if best is not None else ""
        number = f"{active.number:>{len(str(self.max_trials))}}/{self.max_trials}"
        seconds = duration(time.monotonic() - self._began)
        print(f"trial {number}  {outcome}  {' '.join(active.drawn)}  {seconds}{best_so_far}", flush=True)


def render_result(study: Study, metric: str) -> str:
    """The best settings, their test NDCG (shown here for the first time), and the command for fresh seeds."""
    names = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
    counts = ", ".join(f"{n} {name}" for state, name in names.items() if (n := len(study.trials(state))))
    head = f"{len(study.trials())} trials" + (f" ({counts})" if counts else "")
    best = study.best()
    if best is None:
        return f"{head}: none has a value"
    settings, path = study.overrides(best), Path(best.user_attrs["path"])
    finished = len(study.trials(TrialState.COMPLETE))
    lines = {
        "settings": shlex.join(settings),
        metric: f"{best.value:.4f}, the best of {finished}: with fresh seeds expect less",
        **_test_ndcg(path),
        "importance": _importances(study),
        "run": str(path),
        "fresh seeds": f"ol2r run {shlex.join(with_fresh_seeds(study.space.fixed, settings))}",
    }
    return "\n".join([head, *(f"  {name:<18} {line}" for name, line in lines.items() if line)])


def with_fresh_seeds(fixed: Sequence[str], settings: Sequence[str]) -> list[str]:
    """The overrides of a run of these settings with ten seeds that no trial had."""
    values = dict(word.partition("=")[::2] for word in fixed)
    used = int(values.get("seed", 0)) + int(values.get("replicas", 1))
    others = [word for word in fixed if word.partition("=")[0] not in ("seed", "replicas")]
    return [*others, *settings, f"seed={-(-used // 100) * 100}", f"replicas={FRESH_REPLICAS}"]


def _test_ndcg(path: Path) -> dict[str, str]:
    cutoff = main_cutoff(metrics := read_metrics(path))
    ndcg = metrics.get(f"test_ndcg_{cutoff}")
    if ndcg is None:
        return {}
    spread = "" if ndcg["sd"] is None else f" ± {ndcg['sd']:.4f} (standard deviation over {ndcg['n']} seeds)"
    return {f"test NDCG@{cutoff}": f"{ndcg['mean']:.4f}{spread}"}


def _importances(study: Study) -> str:
    """The share of the variance between trials that each setting explains (PED-ANOVA); empty with few trials."""
    values = {trial.value for trial in study.trials(TrialState.COMPLETE)}
    if len(study.space.ranges) < 2 or len(values) < _IMPORTANCE_TRIALS:
        return ""
    shares = optuna.importance.get_param_importances(study.optuna_study)
    return ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
