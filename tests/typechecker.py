"""What checks the annotations of the package while testing: beartype, with ints welcome where floats are."""

import warnings
from typing import Any

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPepDeprecationWarning

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(target: Any) -> Any:
    """`target` with its annotations checked. That OmegaConf is built on the old `typing` names is not our affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BeartypeDecorHintPepDeprecationWarning)
        return _check(target)
