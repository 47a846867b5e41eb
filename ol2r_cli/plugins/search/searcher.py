"""Playing the trials of a study: each is a job of a sweep, which begins when the study is asked for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.plugins.search.study import ActiveTrial, Study
from ol2r_cli.run.run import Run
from ol2r_cli.sweep.plan import Ending, Plan, SweepJob
from ol2r_cli.sweep.scheduler import Scheduler, StatusDisplay
from ol2r_cli.text.formatting import duration, wrapped


class Searcher:
    """Plays trials of `study`, `at_a_time`, until `max_trials` have begun; none begins after the moment `until`.

    Prints a line on stdout when a trial has ended; a terminal shows those that are played, with their validation NDCG.
    until: by `time.monotonic`, in seconds.
    """

    def __init__(self, study: Study, max_trials: int, at_a_time: int, until: float):
        self.study, self.max_trials, self.at_a_time, self.until = study, max_trials, at_a_time, until
        overrides = split_search_path(study.space.fixed)[0]
        self.fixed = [word for word in overrides if not word.startswith("output_dir=")]
        self.plan = Plan([], study.space.composer, shared=[*self.fixed, study.output_dir])
        self.active: dict[int, ActiveTrial] = {}  # by the number of its job
        combinations = study.space.combinations()
        most = min(max_trials, len(combinations)) if combinations else max_trials
        expected = most - sum(trial.state.is_finished() for trial in study.trials())
        self.display = StatusDisplay(self.plan.sweep_jobs, sys.stderr, expected, split="validation")

    def run(self, checked: Plan) -> bool:
        """Play all trials by the launcher of a plan, whose jobs are like them; False when a signal stopped that."""
        assert checked.launcher is not None
        checked.share(checked.sweep_jobs, least=1)
        return not Scheduler(self.jobs(), checked.launcher, self.display, self.ended).run()

    def jobs(self) -> Iterator[SweepJob | None]:
        """Yield the next trial as a job; None while `at_a_time` are played. The end of one is told by `ended`."""
        while time.monotonic() < self.until:
            if len(self.active) == self.at_a_time:
                yield None
                continue
            active = self.study.ask(self.max_trials)
            if active is None:
                return
            sweep_job = self.plan.add([*self.fixed, *active.drawn, self.study.output_dir])
            self.active[sweep_job.number] = active
            if sweep_job.ending == Ending.BAD:
                self.ended(sweep_job)
            else:
                self.plan.share_gpus([sweep_job])
                yield sweep_job

    def ended(self, sweep_job: SweepJob) -> None:
        """Tell the study how a trial has ended, and show it; one that was interrupted goes on with the next search."""
        active = self.active.pop(sweep_job.number)
        if sweep_job.ending == Ending.STOPPED:
            self.display.ended(sweep_job)
            return
        value, reason = None, sweep_job.reason
        if sweep_job.succeeded:
            assert sweep_job.directory is not None
            metric = self.study.plan["metric"]
            value = Run.read_finished(sweep_job.directory).summary.get(metric, {}).get("mean")
            reason = f"its summary has no {metric}"
        if value is None:
            self.study.tell(active.trial, reason=reason)
            text = f"failed: {reason}"
        else:
            self.study.tell(active.trial, value, path=str(sweep_job.directory))
            text = f"{value:.4f} (done before)" if sweep_job.ending == Ending.SKIPPED else f"{value:.4f}"
        number = f"{active.number:>{len(str(self.max_trials))}}/{self.max_trials}"
        best = self.study.best()
        words = [f"trial {number}", text, " ".join(active.drawn), duration(sweep_job.seconds)]
        line = wrapped("  ".join([*words, *([f"best {best.value:.4f}"] if best else [])]), 4)
        if self.display.live is not None and sys.stdout.isatty():  # above the table of trials that are played
            self.display.say(line)
        else:
            print(line, flush=True)
