"""The law of settings: a YAML file and the constructor of its class say the same."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ol2r_cli.contracts.law import Broken, law
from ol2r_cli.contracts.subject import Subject

SHIPPED = "ol2r_cli."  # how the paths of ol2r's own classes begin


@law("a keyword has a default in Python and is not in the YAML file", "a keyword that the constructor does not read")
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
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except OSError:
        return otherwise
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
