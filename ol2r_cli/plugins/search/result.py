"""What a search prints at its end: the best settings, and the run that shows how good they are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from ol2r_cli.columns import main_cutoff
from ol2r_cli.metrics.intervals import LEVEL, with_interval
from ol2r_cli.plugins.search.study import Study
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import wrapped
from ol2r_cli.text.program import as_called

FRESH_REPLICAS = 10  # of the run that is proposed at the end
_IMPORTANCE_TRIALS = 8  # with fewer different values, importances are left out
_INDENT = 21  # columns before what is said about the best trial


def render_result(study: Study, metric: str) -> str:
    """Return the best settings, their test NDCG (shown here for the first time), and the command for fresh seeds."""
    head = f"{len(study.trials())} trials{_counts(study)}"
    best = study.best()
    if best is None:
        return f"{head}: none has a value"
    settings = study.space.overrides(best.params)
    path = Path(best.user_attrs["path"])
    finished = study.trials(TrialState.COMPLETE)
    expected = "less" if study.direction == "maximize" else "more"
    lines = {
        "settings": shlex.join(settings),
        metric: f"{best.value:.4f}, the best of {len(finished)}: with fresh seeds expect {expected}",
        **_test_ndcg(path),
        **_importance(study, finished),
        "run": str(path),
    }
    texts = [head, *(wrapped(f"  {name:<18} {line}", _INDENT) for name, line in lines.items())]
    composed = study.space.composed().settings
    fresh = with_fresh_seeds(study.space.fixed, settings, composed["seed"] + composed["replicas"])
    command = as_called(f"ol2r run {shlex.join(fresh)}")
    return "\n".join([*texts, f"  fresh seeds        {command}"])  # in one line, whatever the width, to be copied


def _counts(study: Study) -> str:
    """Return how many trials ended in which way, such as ` (6 finished, 2 failed)`; earlier versions pruned some."""
    names = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
    counts = {name: len(study.trials(state)) for state, name in names.items()}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f" ({told})" if told else ""


def _test_ndcg(path: Path) -> dict[str, str]:
    """Return the line about test NDCG, with the interval over seeds; empty for a run without it."""
    metrics = Run.read_finished(path).summary
    cutoff = main_cutoff(metrics)
    ndcg = metrics.get(f"test_ndcg_{cutoff}")
    if ndcg is None:
        return {}
    units = "" if ndcg["sd"] is None else f" (half the {LEVEL:.0%} interval over {ndcg['n']} seeds)"
    return {f"test NDCG@{cutoff}": with_interval(ndcg, 4) + units}


def _importance(study: Study, finished: Sequence[FrozenTrial]) -> dict[str, str]:
    """Return the share of the variance between trials that each setting explains (PED-ANOVA); empty for few trials."""
    if len(study.space.ranges) < 2 or len({trial.value for trial in finished}) < _IMPORTANCE_TRIALS:
        return {}
    shares = optuna.importance.get_param_importances(study.optuna_study)
    return {"importance": ", ".join(f"{name} {share:.2f}" for name, share in shares.items())}


def with_fresh_seeds(fixed: Sequence[str], settings: Sequence[str], used: int) -> list[str]:
    """Return the overrides of a run of these settings with ten seeds that no trial had: theirs are below `used`."""
    others = [word for word in fixed if word.partition("=")[0] not in ("seed", "replicas")]
    return [*others, *settings, f"seed={-(-used // 100) * 100}", f"replicas={FRESH_REPLICAS}"]
