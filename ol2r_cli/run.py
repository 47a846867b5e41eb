"""`ol2r run`: a Hydra program whose task builds what the configuration names and fills a run directory."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import hydra

from ol2r_cli.compose import RECIPES, check, check_grid, config_dir, own_folders, translate
from ol2r_cli.sweep.options import SEVERAL, Expanded, Options, held_back, own_options

if TYPE_CHECKING:
    from omegaconf import DictConfig

_WITH_VALUE = ("--cfg", "-c", "--package", "-p", "--config-dir", "-cd", "--config-name", "-cn", "--config-path", "-cp")

_WIDTH = 120  # characters of a line of the help

DONE, FAILED, BAD, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes


class JobFailed(Exception):
    """How a job that a launcher runs in another process says its exit code."""


class _Session:
    """What this process knows of its jobs: where to complain, and the exit codes, which Hydra keeps to itself."""

    def __init__(self) -> None:
        self.terminal, self.codes = sys.stderr, list[int]()

    def exit_code(self) -> int:
        """Of one run its own; of a sweep 3 when any of several jobs failed."""
        if INTERRUPTED in self.codes:
            return INTERRUPTED
        return max(self.codes, default=DONE) if len(self.codes) < 2 else PARTIAL if any(self.codes) else DONE


_session: _Session | None = None  # none in a process that a launcher has started


def job(config: DictConfig) -> None:
    """What Hydra calls, here or in another process: at module level, so that launchers can send it there."""
    if _session is None:
        code = task(config)
        if code:
            raise JobFailed(code)
        return
    with contextlib.redirect_stderr(_session.terminal):  # Hydra's own complaints are captured, a run's are shown
        _session.codes.append(task(config))
    if _session.codes[-1] == INTERRUPTED:
        raise KeyboardInterrupt


def task(config: DictConfig) -> int:
    """One run, as Hydra has composed it: returns its exit code. Never raises but on a second Ctrl-C."""
    return _coded(lambda: _run(config), config)


def execute(config: DictConfig, choices: Mapping[str, str], overrides: list[str]) -> int:
    """Likewise one that has been composed and checked elsewhere, in a process that a launcher has started."""
    from ol2r_cli.experiment import run_experiment

    return _coded(lambda: run_experiment(config, choices, overrides), config)


def _coded(run: Callable[[], int], config: DictConfig) -> int:
    """The exit code of a run, also where it ends with an error."""
    try:
        code = run()
    except ValueError as error:
        print(f"ol2r run: {error}", file=sys.stderr)
        code = BAD
    except BrokenPipeError:  # nobody reads the summary any more; it is on disk
        code = DONE
    except OSError as error:
        place = f"output_dir ({config.output_dir}), data_dir and cache_dir must be folders that can be used"
        print(f"ol2r run: {place}: {error.strerror}: {error.filename}", file=sys.stderr)
        code = BAD
    except Exception:  # a mistake in the program, which must not end a sweep
        traceback.print_exc()
        code = FAILED
    return code


def _run(config: DictConfig) -> int:
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    job = HydraConfig.get()
    choices = {group: choice for group, choice in job.runtime.choices.items() if choice is not None}
    check(config, choices)
    advice = "add -m" if job.mode == RunMode.RUN else "sweep one grid at a time"
    check_grid(job.sweeper.get("params") or (), choices.get("experiment"), job.overrides.task, advice)

    from ol2r_cli.experiment import run_experiment  # imports torch: after all that can be said without it

    # As they were typed: ${..} in an override means something in the configuration, not here.
    overrides: Any = OmegaConf.to_container(job.overrides.task, resolve=False)
    return run_experiment(config, choices, overrides)


def _overrides_first(arguments: list[str]) -> list[str]:
    """Overrides before options, as Hydra's parser wants them: it takes no override behind one and an option."""
    overrides, options = [], list[str]()
    for before, word in pairwise(["", *arguments]):
        if word.startswith("-") or before in _WITH_VALUE or (before in ("--info", "-i") and "=" not in word):
            options.append(word)
        else:
            overrides.append(word)
    return overrides + options


@contextlib.contextmanager
def _narrowed() -> Iterator[None]:
    """Lines of Hydra's help, which has all choices of a group on one, are broken to fit; recipes are no choices."""
    try:
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            yield
    finally:
        for line in shown.getvalue().splitlines():
            if re.match(f"{RECIPES}[:/]", line):  # what Hydra takes for a group
                continue
            print(textwrap.fill(line, _WIDTH, subsequent_indent="  ") if len(line) > _WIDTH else line)


def main(arguments: list[str]) -> int:
    """Run Hydra on the arguments and return the exit code."""
    try:
        options, words = own_options(arguments)
    except ValueError as error:
        print(f"ol2r run: {error}", file=sys.stderr)
        return BAD
    single, _ = own_folders(words)
    if options.dry_run and not any(word.startswith("-") for word in single):
        from ol2r_cli.sweep.command import plain_command

        return plain_command(words)
    return _hydra([*words, *options.for_hydra()], options)


def _hydra(arguments: list[str], options: Options) -> int:
    """What Hydra makes of the command line; it is left again where several runs are asked for, which we do."""
    global _session
    session, expanded = _Session(), None
    _session = session
    captured, program = io.StringIO(), sys.argv
    entry: Any = hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="run")(job)
    helping, words = bool({"--help", "-h"} & set(arguments)), arguments
    if SEVERAL & set(arguments):
        from ol2r_cli.sweep.plugin import register

        words, held = held_back(arguments)
        register(session.terminal, translate(held))
    sys.argv = ["ol2r", *_overrides_first(translate(words))]
    try:
        with contextlib.redirect_stderr(captured), _narrowed() if helping else contextlib.nullcontext():
            entry()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Expanded as left:
        expanded = left
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # `ol2r run --cfg job | head`
            raise BrokenPipeError from None
        if stop.code and not session.codes:
            return _complain(captured.getvalue(), arguments)
    finally:
        sys.argv, _session = program, None
    if expanded is None:
        return session.exit_code()
    from ol2r_cli.sweep.command import command

    return command(expanded.jobs, expanded.composer, options.dry_run, options.keep_going)


def _complain(complaint: str, arguments: list[str]) -> int:
    """Say what Hydra ended with before, or without, a job in this process."""
    if JobFailed.__name__ in complaint:
        print("ol2r run: jobs of the sweep failed: `ol2r status` names them", file=sys.stderr)
        return PARTIAL
    from ol2r_cli.complaint import explain

    print(f"ol2r run: {explain(complaint, arguments)}", file=sys.stderr)
    return BAD
