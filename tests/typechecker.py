"""What checks the annotations of the package while testing: beartype, with ints welcome where floats are.

Checks take longer than most functions. So a function is checked in its first calls of every test, in which all its
callers and all its shapes come up, and its checks are built when it is called.
"""

import dataclasses
import functools
import inspect
import warnings
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPepDeprecationWarning

MOST = 20  # calls of a function that are checked in a test
calls: Counter[CodeType] = Counter()  # in this test
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_shaped = jaxtyping.jaxtyped


def checked(target: Any) -> Any:
    """`target` with its annotations checked. That OmegaConf is built on the old `typing` names is not our affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BeartypeDecorHintPepDeprecationWarning)
        return _check(target)


def jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """In place of the decorator of the same name, which jaxtyping's import hook writes above functions and classes."""

    def decorate(target: Any) -> Any:
        if target.__module__.endswith("_loops"):  # numba compiles what it finds in these files
            return target
        if inspect.isclass(target):
            if dataclasses.is_dataclass(target) and "__init__" in vars(target):
                target.__init__ = decorate(target.__init__)
            return target
        checking = None

        @functools.wraps(target)
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal checking
            calls[target.__code__] += 1
            if calls[target.__code__] > MOST:
                return target(*args, **kwargs)
            checking = checking or _shaped(target, typechecker=typechecker)
            return checking(*args, **kwargs)

        return called

    return decorate


jaxtyping.jaxtyped = jaxtyped
