"""The values that a setting may have, declared in the annotation of the constructor's keyword.

    def __init__(self, l2: NonNegative, share: Share, batch: Count | None, pairs: Literal["all", "matching"]): ...

`build` (`instantiate.py`) checks them and words the error: "ranker.l2 must be 0 or more, got -1". YAML's whole numbers
are numbers too. A `float` without a range is any finite number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`; None is no limit, and an open end is not included.

    NaN is in no range, and infinity only with `infinite`.
    """

    least: float | None = None
    most: float | None = None
    open_below: bool = False
    open_above: bool = False
    infinite: bool = False

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return False
        if math.isinf(value) and not self.infinite:
            return False
        if self.least is not None and (value < self.least or (self.open_below and value == self.least)):
            return False
        return self.most is None or value < self.most or (value == self.most and not self.open_above)

    def __str__(self) -> str:
        if self.most is None:
            return f"above {self.least:g}" if self.open_below else f"{self.least:g} or more"
        if self.least is None:
            return f"{'below' if self.open_above else 'at most'} {self.most:g}"
        if self.open_below and self.open_above:
            return f"between {self.least:g} and {self.most:g}"
        if self.open_below:
            return f"above {self.least:g} and at most {self.most:g}"
        return f"from {self.least:g} to {'below ' * self.open_above}{self.most:g}"


Positive = Annotated[float, Range(0, open_below=True)]
NonNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
PositiveShare = Annotated[float, Range(0, 1, open_below=True)]
Count = Annotated[int, Range(1)]
WholeNumber = Annotated[int, Range(0)]
Steps = Annotated[int, Range(1, 100_000)]  # gradient steps of a round, whose random numbers are drawn at once
