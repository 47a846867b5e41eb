"""The laws of every group, and `check`, which holds choices to them and reports what they break."""

from __future__ import annotations

import re
import shutil
import textwrap
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ol2r_cli.config.composer import Composer, Composition, check_grid
from ol2r_cli.config.overrides import split_launcher, split_search_path
from ol2r_cli.device import restored, set_torch
from ol2r_cli.metrics.measurement import NonFiniteScores
from ol2r_cli.plugins.check import role_laws
from ol2r_cli.plugins.check.data_laws import DATASET_LAWS, INTENT_LAWS, MEASURE_LAWS, plays
from ol2r_cli.plugins.check.small_world import Broken, Law, NotApplicable, Stopped, Subject
from ol2r_cli.run.own_code import is_refusal, place_of
from ol2r_cli.text.formatting import error_line, plural

KEPT, BROKEN, LEFT_OUT = "✓", "✗", "–"
# The laws of a group, in the order in which they are checked: the first ones say most.
_OF_ROLES = (role_laws.settings, *role_laws.ROLE_LAWS, role_laws.run_and_resume)
_OF_MEASURES = (role_laws.settings, *MEASURE_LAWS, role_laws.repeatable, role_laws.state_in_buffers)
LAWS: dict[str, tuple[Law, ...]] = {
    "ranker": (*_OF_ROLES, role_laws.learns),
    **dict.fromkeys(("exploration", "fairness", "click"), _OF_ROLES),
    "dataset": (role_laws.settings, *DATASET_LAWS),
    "intent": (role_laws.settings, *INTENT_LAWS),
    "measure": (*_OF_MEASURES, role_laws.run_and_resume),
}
FIXED = ("rounds", "seed", "replicas", "positions")  # settings of a run of which the laws have their own

# Called with the name of a law before it is checked, and again with a sign of what came of it and its statement, or the
# reason why it is left out.
Watching = Callable[..., object]
_WIDTH = 110  # characters of a line of a violation


def law_name(law: Law) -> str:
    """Return the name of a law in reports: that of its function, with blanks."""
    return getattr(law, "__name__", "").replace("_", " ")


@dataclass(frozen=True)
class Violation:
    """A broken law: its name, the input (seed, round, labels), and what differs there.

    The law is `raises` where the code of the choice raised an exception; `traceback` has its traceback.
    """

    law: str
    input: str
    difference: str
    traceback: str = field(default="", repr=False)

    def __str__(self) -> str:
        width = min(_WIDTH, shutil.get_terminal_size((_WIDTH, 1)).columns)
        lines = [
            textwrap.fill(f"  {label:>7}{text}", width, subsequent_indent=" " * 9, break_on_hyphens=False)
            for label, text in (("on: ", self.input), ("what: ", self.difference))
        ]
        return "\n".join([f"{BROKEN} {self.law}", *lines])


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What came of the property checks of components. `repr` and `str` are the text that `ol2r check` prints.

    subject: the overrides that were checked. passed: names of the checks that passed. violations: those that failed,
    one for each place. left_out: names of the checks that say nothing here, or could not be made, with the reason.
    notes: what is no violation and worth knowing. warnings: what is likely to be a mistake, and violates no property.
    """

    subject: str
    passed: tuple[str, ...]
    violations: tuple[Violation, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether no check failed."""
        return not self.violations

    def explanations(self) -> str:
        """Return the violations, the warnings, the notes and the last line."""
        failed = f"{len(self.violations) or 'none'} failed"
        unchecked = f", {len(self.left_out)} not checked" if self.left_out else ""
        lines = [f"{violation}\n" for violation in self.violations]
        lines += [f"warning: {warning}" for warning in self.warnings] + [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, f"{self.subject}: {plural(len(self.passed), 'check')} passed, {failed}{unchecked}"])

    def __str__(self) -> str:
        kept = [f"{KEPT} {name}" for name in self.passed]
        left_out = [f"{LEFT_OUT} {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([*kept, *left_out, *([""] if kept or left_out else []), self.explanations()])

    __repr__ = __str__


def check(overrides: Sequence[str], watching: Watching = lambda *_: None) -> CheckReport:
    """Hold the choices of `overrides` to the laws. Among them may be settings and `--config-dir DIR`.

    ValueError for a bad setting, for choices that do not go together, and if no group is named that has laws.
    """
    job, _ = split_launcher(split_search_path(overrides)[0])
    composer = Composer(overrides)
    names = [named_group(word) for word in job]
    groups = [name for name in dict.fromkeys(names) if name.partition("/")[0] in LAWS]
    if not groups:
        known = ", ".join(f"{group}=NAME" for group in LAWS if group != "ranker")
        raise ValueError(f"a choice must be named: type `ol2r check ranker=NAME`, or {known}")
    job = with_measures_listed(job)
    composition = composer(job)
    check_grid(composition, job, "check its choices one by one")
    notes = [f"{name} has no effect: the checks have their own" for name in names if name in FIXED]
    return check_composition(composition, groups, " ".join(job), notes=notes, watching=watching)


def named_group(word: str) -> str:
    """Return the group or setting of an override: ranker of ranker=pdgd and ranker.l2=1, measure/err of measure=err."""
    word = re.sub(r"^measure=", "measure/", word).lstrip("+~")
    return word if word.startswith("measure/") else re.split("[=@.]", word)[0]


def with_measures_listed(job: Sequence[str]) -> list[str]:
    """Return the overrides with measures=[ndcg,NAME,..] in place of measure=NAME."""
    measures = [word.removeprefix("measure=") for word in job if word.startswith("measure=")]
    if not measures:
        return list(job)
    listed = ",".join(dict.fromkeys(["ndcg", *measures]))
    return [*(word for word in job if not word.startswith("measure=")), f"measures=[{listed}]"]


def check_composition(
    composition: Composition,
    groups: Sequence[str],
    name: str,
    *,
    laws: Sequence[Law] | None = None,
    notes: Sequence[str] = (),
    watching: Watching = lambda *_: None,
) -> CheckReport:
    """Hold a configuration to the laws of some groups (`ranker`, `ranker/model`, ..), or to `laws` if they are given.

    `name` is what the report calls the configuration. ValueError if the choices do not go together, or a setting is
    bad. Files are written to a temporary folder. The state of torch is that of a run in the meantime.
    """
    if laws is None:
        laws = list(dict.fromkeys(law for group in groups for law in LAWS[group.partition("/")[0]]))
    passed: list[str] = []
    violations: list[Violation] = []
    left_out: dict[str, str] = {}
    reported: set[str] = set()
    with restored(), torch.inference_mode(), TemporaryDirectory(prefix="ol2r-check-") as folder:
        set_torch(composition.config.device.threads)
        subject = Subject(composition, groups, Path(folder))
        subject.notes += notes
        _check_words(subject, laws)
        for law in laws:
            named = law_name(law)
            watching(named)
            try:
                law(subject)
                sign, text = KEPT, " ".join((law.__doc__ or "").split())
                passed.append(named)
            except NotApplicable as error:
                if not str(error):
                    continue
                sign, text = LEFT_OUT, str(error)
            except Exception as error:
                violation, key = _violation(named, error, subject)
                sign, text = BROKEN, " ".join((law.__doc__ or "").split())
                # What breaks other laws may stop the runs of these two.
                stopped = law in (role_laws.run_and_resume, plays) and violations and key != named
                if key in reported or stopped:
                    sign, text = LEFT_OUT, "stops in the same way"
                else:
                    reported.add(key)
                    violations.append(violation)
            if sign == LEFT_OUT:
                left_out[named] = text
            watching(named, sign, text)
    notes, warnings = tuple(dict.fromkeys(subject.notes)), tuple(subject.warnings)
    return CheckReport(name, tuple(passed), tuple(violations), left_out, notes, warnings)


def _check_words(subject: Subject, laws: Sequence[Law]) -> None:
    """Raise ValueError if a role or the dataset refuses what was typed. Other errors are left to the laws."""
    try:
        if any(law in role_laws.ROLE_LAWS for law in laws):
            subject.simulation()
        if any(law in DATASET_LAWS for law in laws):
            _ = subject.dataset
    except NotApplicable as refused:
        raise ValueError(str(refused)) from None
    except Exception as error:
        if isinstance(error, ValueError) and is_refusal(error):
            raise


def _violation(law: str, error: Exception, subject: Subject) -> tuple[Violation, str]:
    """Return the violation, and what is the same for all laws that stop in this way."""
    if isinstance(error, Broken):
        return Violation(law, error.input, error.difference), error.input if isinstance(error, Stopped) else law
    situation = subject.situation()
    if isinstance(error, NonFiniteScores):
        scores = law_name(role_laws.scores)
        return Violation(scores, situation, str(error)), scores
    what = f"{error_line(error)} ({place_of(error, Path(__file__).parent)})"
    lines = "".join(traceback.format_exception(error))
    return Violation("raises", f"the check `{law}`: {situation}", what, lines), what
