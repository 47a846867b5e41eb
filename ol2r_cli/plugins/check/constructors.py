"""What the YAML file of a choice and the constructor of its class do not agree on."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from omegaconf import DictConfig

from ol2r_cli.config.ranges import settings_signature

SHIPPED = "ol2r_cli."  # how the paths of ol2r's own classes begin


@dataclass(frozen=True)
class ChosenClass:
    """The class of a choice, its group as in settings (`ranker.model`), the settings of its YAML file, and keywords.

    keywords: of the constructor, by name; none for a class of torch alone, whose constructor is not the choice's.
    """

    target: Any
    prefix: str
    path: str
    written: frozenset[str]
    keywords: Mapping[str, inspect.Parameter]

    @property
    def is_shipped(self) -> bool:
        return self.path.startswith(SHIPPED)

    @property
    def name(self) -> str:
        name: str = self.target.__name__
        return name


def setting_faults(node: DictConfig, group: str) -> Iterator[str]:
    """Yield what the settings of a choice and the constructor of its class do not agree on, a line for each.

    A class of ol2r has to be in the package of its group as well.
    """
    target: Any = resolve_name(node._target_)
    owner: Any = next(parent for parent in inspect.getmro(target) if "__init__" in vars(parent))  # may be inherited
    is_of_torch = owner.__module__.partition(".")[0] in ("torch", "builtins")
    choice = ChosenClass(
        target=target,
        prefix=group.replace("/", "."),
        path=str(node._target_),
        written=frozenset(str(key) for key in node if key != "_target_"),
        keywords={} if is_of_torch else settings_signature(target).parameters,
    )
    yield from _missing(choice)
    yield from _badly_declared(choice)
    yield from _misplaced(choice, group)
    if choice.keywords:
        yield from _unused(choice, owner)


def _missing(choice: ChosenClass) -> Iterator[str]:
    """Yield the names that only the constructor, or only the YAML file, has."""
    prefix, name = choice.prefix, choice.name
    for key in sorted(choice.keywords.keys() - choice.written):
        yield f"{prefix}.{key} is a keyword of {name} and not in the YAML file: `ol2r list` and run ids leave it out"
    for key in sorted(choice.written - choice.keywords.keys()):
        yield f"{prefix}.{key} is in the YAML file and no keyword of {name}"


def _badly_declared(choice: ChosenClass) -> Iterator[str]:
    """Yield what is not passed by keyword, and, of a class of ol2r, defaults beside those of the YAML file."""
    for key, parameter in choice.keywords.items():
        has_default = parameter.default is not parameter.empty
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            yield f"{choice.name} takes {key} in another way than by keyword"
        elif choice.is_shipped and has_default and key in choice.written:
            default = f"{parameter.default!r}, besides the one in the YAML file"
            yield f"{choice.prefix}.{key} has a default in Python, {default}"


def _misplaced(choice: ChosenClass, group: str) -> Iterator[str]:
    """Yield that a class of ol2r is neither in the package of its group nor in a plug-in."""
    package = SHIPPED + ("measure" if group.startswith("measure/") else choice.prefix)
    module = choice.target.__module__
    if choice.is_shipped and not f"{module}.".startswith((f"{package}.", f"{SHIPPED}plugins.")):
        yield f"{choice.name} is in {module}, and must be in {package}"


def _unused(choice: ChosenClass, owner: Any) -> Iterator[str]:
    """Yield the arguments that the constructor does not read; a record of settings is one. Nothing without source."""
    try:
        source = inspect.getsource(choice.target.__init__)
    except OSError:  # as in a notebook
        return
    names = [node for node in ast.walk(ast.parse(textwrap.dedent(source))) if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    arguments = inspect.signature(vars(owner)["__init__"]).parameters
    for key in sorted(arguments.keys() - {"self"} - read):
        yield f"{choice.prefix}.{key} is a setting that {choice.name} does not use"
