"""The laws of every choice: its YAML file agrees with the constructor, and a run of it resumes to the same files."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import textwrap
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ol2r_cli.config.instantiate import build
from ol2r_cli.contracts.law import Broken, Law, Stopped
from ol2r_cli.contracts.small_world import world
from ol2r_cli.contracts.subject import Subject
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction
from ol2r_cli.run.exit_status import DONE
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.runner import Runner

SHIPPED = "ol2r_cli."  # how the paths of ol2r's own classes begin
_INTERRUPTED_IN = 7  # the round; the last checkpoint is then two rounds old
_SETTINGS: dict[str, Any] = {"rounds": 10, "replicas": 2, "seed": 3, "positions": 5, "evaluate_every": 4}
_SETTINGS |= {"checkpoint_rounds": 5, "save_interactions": True, "block_rounds": [], "exposure": "reciprocal"}
_SETTINGS |= {"beta": 0.5, "force": False}
_RESULTS = (".parquet", ".pt")


@Law
def settings(subject: Subject) -> None:
    """The YAML file has every keyword of the constructor, which reads each (for choices of your own, a note)."""
    for group in subject.groups:
        node = OmegaConf.select(subject.composition.config, group.replace("/", "."))
        for fault in setting_faults(node, group):
            if str(node._target_).startswith(SHIPPED):
                raise Broken(f"{group}={subject.composition.choices.get(group)}", fault)
            subject.notes.append(fault)


def setting_faults(node: DictConfig, group: str) -> Iterator[str]:
    """What the settings of a choice and the constructor of its class do not agree on, a line for each.

    A class of ol2r has to be in the package of its group as well.
    """
    target: Any = resolve_name(node._target_)
    owner = next(parent for parent in inspect.getmro(target) if "__init__" in vars(parent))  # it may be inherited
    torch_alone = owner.__module__.partition(".")[0] in ("torch", "builtins")
    parameters = {} if torch_alone else dict(inspect.signature(target).parameters)
    name, prefix = target.__name__, group.replace("/", ".")
    written = {str(key) for key in node if key != "_target_"}
    for key in sorted(set(parameters) - written):
        yield f"{prefix}.{key} is a keyword of {name} and not in the YAML file: `ol2r list` and run ids leave it out"
    for key in sorted(written - set(parameters)):
        yield f"{prefix}.{key} is in the YAML file and no keyword of {name}"
    for key, one in parameters.items():
        if one.kind is not one.POSITIONAL_OR_KEYWORD:
            yield f"{name} takes {key} in another way than by position and by keyword"
        elif one.default is not one.empty and key in written and str(node._target_).startswith(SHIPPED):
            yield f"{prefix}.{key} has a default in Python, {one.default!r}, besides the one in the YAML file"
    package = SHIPPED + ("measure" if group.startswith("measure/") else prefix)
    if str(node._target_).startswith(SHIPPED) and not f"{target.__module__}.".startswith(f"{package}."):
        yield f"{name} is in {target.__module__}, and must be in {package}"
    if parameters:
        for key in sorted(set(parameters) - _read_names(target.__init__, set(parameters))):
            yield f"{prefix}.{key} is a setting that {name} does not use"


def _read_names(function: Any, otherwise: set[str]) -> set[str]:
    """The names that a function reads; `otherwise` where it has no source file, as in a notebook."""
    try:
        nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except OSError:
        return otherwise
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


class _Interrupted(Runner):
    """A runner that is interrupted, as by Ctrl-C."""

    def _record_details(self, t: int, interaction: Interaction | None) -> None:
        super()._record_details(t, interaction)
        if t == _INTERRUPTED_IN:
            raise KeyboardInterrupt


@Law
def run_and_resume(subject: Subject) -> None:
    """A run writes its files, and one that is interrupted goes on from its checkpoint to the same files."""
    expected = files_of_run(subject, world(), "undisturbed")
    files_of_run(subject, world(), "interrupted", _Interrupted)
    found = files_of_run(subject, world(), "interrupted")
    for name, content in expected.items():
        if found.get(name) != content:
            words = f"a run of {_SETTINGS['rounds']} rounds with seeds 3 4, interrupted in round {_INTERRUPTED_IN}"
            raise Broken(words, f"{name} is not the file of an undisturbed run")


def files_of_run(
    subject: Subject,
    dataset: Dataset,
    folder: str,
    runner: type[Runner] = Runner,
    settings: Mapping[str, Any] = _SETTINGS,
) -> dict[str, bytes]:
    """The files with results, by name, of a run of the subject's choices on a dataset, or what there is if it resumes.

    Stopped if the run fails. ValueError for a bad setting.
    """
    config: DictConfig = subject.config.copy()
    OmegaConf.set_readonly(config, False)
    config.update({**settings, "output_dir": str(subject.folder / folder)})
    config.device.name = "cpu"
    made = {"dataset": SimpleNamespace(load=lambda: dataset)}
    experiment = Experiment(config, subject.composition.choices, lambda node: made.get(str(node._key())) or build(node))
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed), experiment.directory:
        code = runner(experiment, "ol2r check").run()
    if runner is Runner and code != DONE:
        what = (printed.getvalue().strip() or f"exit code {code}").splitlines()[0]
        raise Stopped(f"a run of {settings['rounds']} rounds on {dataset.name}", what)
    files = experiment.directory.path.iterdir()
    return {path.name: path.read_bytes() for path in files if path.suffix in _RESULTS or path.name == "summary.json"}
