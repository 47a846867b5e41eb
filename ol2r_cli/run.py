"""`ol2r run`: a Hydra program whose task builds what the configuration names and fills a run directory."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import sys
from typing import TYPE_CHECKING, Any

import hydra

from ol2r_cli.compose import config_dir, one_line, translate

if TYPE_CHECKING:
    from omegaconf import DictConfig

DONE, FAILED, BAD, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes


class _Outcome:
    """What the jobs of this process returned: Hydra keeps the return values of a sweep to itself."""

    codes: list[int]

    def __init__(self) -> None:
        self.codes = []

    def exit_code(self) -> int:
        """Of one run its own; of a sweep 3 when any of several jobs failed."""
        if INTERRUPTED in self.codes:
            return INTERRUPTED
        return max(self.codes, default=DONE) if len(self.codes) < 2 else PARTIAL if any(self.codes) else DONE


def task(config: DictConfig, outcome: _Outcome | None = None) -> int:
    """One job: run the experiment and return its exit code. Never raises but on a second Ctrl-C."""
    from hydra.core.hydra_config import HydraConfig

    from ol2r_cli.experiment import run_experiment

    job = HydraConfig.get()
    code = run_experiment(config, dict(job.runtime.choices), list(job.overrides.task))
    if outcome is not None:
        outcome.codes.append(code)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
    return code


def main(arguments: list[str]) -> int:
    """Run Hydra on the arguments and return the exit code."""
    outcome, captured, terminal = _Outcome(), io.StringIO(), sys.stderr

    def job(config: DictConfig) -> int:
        with contextlib.redirect_stderr(terminal):  # Hydra's own complaints are captured, a run's are shown
            return task(config, outcome)

    entry: Any = hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="run")(job)
    program, sys.argv = sys.argv, ["ol2r", *translate(arguments)]
    try:
        with contextlib.redirect_stderr(captured):
            entry()
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as stop:
        if stop.code and not outcome.codes:
            print(f"ol2r run: {explain(captured.getvalue(), arguments)}", file=sys.stderr)
            return BAD
        return outcome.exit_code()
    finally:
        sys.argv = program
    return outcome.exit_code()


def explain(complaint: str, arguments: list[str]) -> str:
    """One line out of Hydra's message, with the nearest name where one is misspelt."""
    line = one_line(complaint) or "the configuration could not be composed"
    missing = re.search(r"Could not (?:override|find) '([\w./@]+)'", line)
    if missing:
        near = difflib.get_close_matches(missing[1], _names(), n=1)
        hint = f": did you mean {near[0]}?" if near else ": see `ol2r run --cfg job` for every setting"
        return f"there is no '{missing[1]}'{hint}"
    return line


def _names() -> list[str]:
    """Every group, choice and setting one could have meant."""
    import yaml

    folder = config_dir()
    names = [str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml")]
    names += [path.name for path in folder.iterdir() if path.is_dir()]
    names += list(yaml.safe_load((folder / "run.yaml").read_text()))
    for path in folder.glob("*/*.yaml"):
        names += [f"{path.parent.name}.{key}" for key in yaml.safe_load(path.read_text()) or {}]
    return names
