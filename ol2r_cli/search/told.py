"""What a search tells: a line for every trial that ends, and at the end the best settings and what to type next."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.results.manifest import duration
from ol2r_cli.search.trial import metrics

if TYPE_CHECKING:
    from ol2r_cli.search.study import Held, Study

FRESH_REPLICAS = 10  # of the run that is proposed in the end


class Told:
    """A line on stdout when a trial ends; on a terminal, besides, one on stderr for the trial that is going on."""

    def __init__(self, study: Study, most: int, live: bool):
        self.study, self.most, self.live = study, most, live
        self.terminal = sys.stderr  # while a run goes, its own lines are caught

    def begins(self, held: Held) -> None:
        self._clock, self._curve = time.monotonic(), ""
        self._show(held)

    def reached(self, held: Held, round: int, value: float) -> None:
        """The trial has a validation NDCG@10 after a round."""
        self._curve = f"  round {round} {value:.4f}"
        self._show(held)

    def _show(self, held: Held) -> None:
        if self.live:
            line = f"trial {held.place}/{self.most}  {' '.join(held.drawn)}{self._curve}"
            print(f"\r\033[K{line[:100]}", end="", file=self.terminal, flush=True)

    def ended(self, held: Held, outcome: str) -> None:
        """`outcome`: a value, or in a few words why there is none."""
        if self.live:
            print("\r\033[K", end="", file=self.terminal, flush=True)
        best = self.study.best()
        so_far = f"  best {best.value:.4f}" if best is not None else ""
        place, took = f"{held.place:>{len(str(self.most))}}/{self.most}", duration(time.monotonic() - self._clock)
        print(f"trial {place}  {outcome}  {' '.join(held.drawn)}  {took}{so_far}", flush=True)


def closing(study: Study, metric: str) -> str:
    """The best settings, their test NDCG@10 (for the first time), and the line that runs them with fresh seeds."""
    from optuna.trial import TrialState

    trials, best = study.trials(), study.best()
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    counts = zip(states, ("finished", "pruned", "failed"), strict=True)
    told = ", ".join(f"{n} {name}" for state, name in counts if (n := sum(t.state == state for t in trials)))
    head = f"{len(trials)} trials{f' ({told})' if told else ''}"
    if best is None:
        return f"{head}: none has a value"
    words, path = study.words(best), Path(best.user_attrs["path"])
    lines = {
        "settings": shlex.join(words),
        metric: f"{best.value:.4f}, the best of {len(study.trials(TrialState.COMPLETE))}: with fresh seeds expect less",
        "test NDCG@10": _test(path),
        "importance": _importance(study),
        "run": str(path),
        "fresh seeds": f"ol2r run {shlex.join(fresh(study.space.fixed, words))}",
    }
    return "\n".join([head, *(f"  {name:<18} {line}" for name, line in lines.items() if line)])


def fresh(fixed: Sequence[str], drawn: Sequence[str]) -> list[str]:
    """The overrides of a run of these settings with ten seeds that no trial had."""
    given = dict(word.partition("=")[::2] for word in fixed)
    used = int(given.get("seed", 0)) + int(given.get("replicas", 1))
    kept = [word for word in fixed if word.partition("=")[0] not in ("seed", "replicas")]
    return [*kept, *drawn, f"seed={-(-used // 100) * 100}", f"replicas={FRESH_REPLICAS}"]


def _test(path: Path) -> str:
    found = metrics(path).get("test_ndcg_10")
    if found is None:
        return ""
    spread = "" if found["sd"] is None else f" ± {found['sd']:.4f} (standard deviation over {found['n']} seeds)"
    return f"{found['mean']:.4f}{spread}"


def _importance(study: Study) -> str:
    """How much of the differences between trials each setting explains (PED-ANOVA); nothing with few trials."""
    import optuna

    values = {trial.value for trial in study.trials(optuna.trial.TrialState.COMPLETE)}
    if len(study.space.ranges) < 2 or len(values) < 8:
        return ""
    shares = optuna.importance.get_param_importances(study.study)
    return ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
