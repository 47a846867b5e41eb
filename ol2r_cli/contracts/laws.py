"""The laws of every group, and `check`, which holds choices to them and reports what they break."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import ol2r_cli
from ol2r_cli.config.composer import Composer, Composition, check_grid
from ol2r_cli.config.overrides import split_launcher, split_search_path
from ol2r_cli.contracts import role_laws
from ol2r_cli.contracts.data_laws import DATASET_LAWS, INTENT_LAWS, plays
from ol2r_cli.contracts.law import BROKEN, KEPT, LEFT_OUT, Broken, CheckReport, Law, NotApplicable, Stopped, Violation
from ol2r_cli.contracts.measure_laws import MEASURE_LAWS
from ol2r_cli.contracts.subject import Subject, is_refusal
from ol2r_cli.device import restored, set_torch
from ol2r_cli.formatting import error_line
from ol2r_cli.metrics.measurement import NonFiniteScores

# The laws of a group, in the order in which they are checked: the first ones say most.
_OF_ROLES = (role_laws.settings, *role_laws.ROLE_LAWS, role_laws.run_and_resume)
LAWS: dict[str, tuple[Law, ...]] = {
    "ranker": (*_OF_ROLES, role_laws.learns),
    "exploration": _OF_ROLES,
    "fairness": _OF_ROLES,
    "click": _OF_ROLES,
    "dataset": (role_laws.settings, *DATASET_LAWS),
    "intent": (role_laws.settings, *INTENT_LAWS),
    "measure": (
        *(role_laws.settings, *MEASURE_LAWS, role_laws.repeatable),
        *(role_laws.state_in_buffers, role_laws.run_and_resume),
    ),
}
_RUNS = (role_laws.run_and_resume, plays)  # what breaks other laws may stop them
FIXED = ("rounds", "seed", "replicas", "positions")  # settings of a run of which the laws have their own

# Called with a law before it is checked, and again with what came of it: `KEPT`, `BROKEN` or `LEFT_OUT`, and why.
Watching = Callable[..., object]
_PACKAGE = Path(ol2r_cli.__file__).parent
# Files of Python itself, and of packages between a law and the code of a choice.
_PACKAGES = "torch|numpy|hydra|omegaconf|jaxtyping|beartype|scipy|sklearn"
_BETWEEN = re.compile(rf"^<|/lib/python[\d.]+/(?!\w+-packages/)|-packages/({_PACKAGES})/")


def check(overrides: Sequence[str], watching: Watching = lambda *_: None) -> CheckReport:
    """Hold the choices of `overrides` to the laws. Among them may be settings and `--config-dir DIR`.

    ValueError for a bad setting, for choices that do not go together, and if no group is named that has laws.
    """
    job, _ = split_launcher(split_search_path(overrides)[0])
    composer = Composer(overrides)
    groups = named_groups(job)
    job = _with_measures(job)
    composition = composer(job)
    check_grid(composition, job, "check its choices one by one")
    names = [word.lstrip("+~").partition("=")[0] for word in job]
    notes = [f"{name} has no effect: the laws have their own" for name in names if name in FIXED]
    return check_composition(composition, groups, " ".join(job), notes=notes, watching=watching)


def _with_measures(job: Sequence[str]) -> list[str]:
    """Return overrides with a list of measures in place of `measure=NAME`, of measures that are checked."""
    named = [word.partition("=")[2] for word in job if word.startswith("measure=")]
    others = [word for word in job if not word.startswith("measure=")]
    return [*others, f"measures=[{','.join(dict.fromkeys(['ndcg', *named]))}]"] if named else others


def named_groups(job: Iterable[str]) -> tuple[str, ...]:
    """Return the groups that overrides name by a choice or a setting: `ranker`, `ranker/model`, `measure/err`.

    ValueError if none of them has laws.
    """
    named = [re.sub(r"^measure=", "measure/", word).lstrip("+~") for word in job]
    names = [word if word.startswith("measure/") else re.split("[=@.]", word)[0] for word in named]
    groups = tuple(name for name in dict.fromkeys(names) if name.partition("/")[0] in LAWS)
    if not groups:
        listed = ", ".join(f"{group}=NAME" for group in LAWS if group != "ranker")
        raise ValueError(f"a choice must be named: type `ol2r check ranker=NAME`, or {listed}")
    return groups


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
    with restored(), torch.inference_mode(), TemporaryDirectory(prefix="ol2r-check-") as folder:
        set_torch(composition.config.device.threads)
        subject = Subject(composition, groups, Path(folder))
        subject.notes += notes
        _check_words(subject, laws)
        checking = _Checking(subject)
        for law in laws:
            watching(law)
            watching(law, *checking.hold(law))
        outcome = tuple(checking.passed), tuple(checking.violations), checking.left_out
        return CheckReport(name, *outcome, tuple(dict.fromkeys(subject.notes)), tuple(subject.warnings))


def _check_words(subject: Subject, laws: Sequence[Law]) -> None:
    """Raise ValueError if a role or the dataset refuses what was typed. Other errors are left to the laws."""
    try:
        if any(law in role_laws.ROLE_LAWS for law in laws):
            subject.simulation()
        if any(law in DATASET_LAWS for law in laws):
            _ = subject.dataset
    except NotApplicable as refused:
        raise ValueError(str(refused)) from None
    except ValueError as error:
        if is_refusal(error):
            raise
    except Exception:
        return


class _Checking:
    """Collects what comes of holding a subject to one law after the other."""

    def __init__(self, subject: Subject):
        self.subject = subject
        self.passed: list[str] = []
        self.violations: list[Violation] = []
        self.left_out: dict[str, str] = {}
        self._reported: set[str] = set()

    def hold(self, law: Law) -> tuple[str, str]:
        """Hold the subject to a law; returns the sign of what came of it, and the reason in a few words."""
        try:
            law(self.subject)
        except NotApplicable as reason:
            return self._leave_out(law, str(reason))
        except Exception as error:
            violation, key = self._violation(law, error)
            if key in self._reported or (law in _RUNS and self.violations and key != law.name):
                return self._leave_out(law, "stops in the same way")
            self._reported.add(key)
            self.violations.append(violation)
            return BROKEN, violation.difference
        self.passed.append(law.name)
        return KEPT, ""

    def _violation(self, law: Law, error: Exception) -> tuple[Violation, str]:
        """Return the violation, and what is the same for all laws that stop in this way."""
        if isinstance(error, Broken):
            key = error.input if isinstance(error, Stopped) else law.name
            return Violation(law.name, error.input, error.difference), key
        situation = self.subject.situation()
        if isinstance(error, NonFiniteScores):
            return Violation(role_laws.scores.name, situation, str(error)), role_laws.scores.name
        what, lines = f"{error_line(error)} ({_place(error)})", "".join(traceback.format_exception(error))
        return Violation("raises", f"the law `{law.name}`: {situation}", what, lines), what

    def _leave_out(self, law: Law, reason: str) -> tuple[str, str]:
        self.left_out[law.name] = reason
        return LEFT_OUT, reason


def _place(error: BaseException) -> str:
    """File, line and function in which an exception was raised: in the code of the choice, if that was on the way."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not _BETWEEN.search(frame.filename)]
    own = [frame for frame in outside if not Path(frame.filename).is_relative_to(_PACKAGE)]
    roles = [frame for frame in outside if not Path(frame.filename).is_relative_to(_PACKAGE / "contracts")]
    frame = (own or roles or frames)[-1]
    file = Path(frame.filename)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{shown}:{frame.lineno}, in {frame.name}"
