"""What a setting is searched over: `ranker.l2=log(1e-4,10)` is an interval, `ranker=pairrank,pdgd` a few options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.trial import Trial

FORMS = "float(LOW,HIGH), log(LOW,HIGH), int(LOW,HIGH), logint(LOW,HIGH) or choice(A,B,..)"
DIGITS = 3  # significant digits of a number that is drawn, so that a person can type it


@dataclass(frozen=True)
class Interval:
    """Numbers from `low` to `high`, both included; `log`: evenly in the logarithm; `whole`: whole numbers only."""

    name: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    @property
    def corners(self) -> tuple[str, ...]:
        """Values, as they are typed, that must be allowed for all between them to be."""
        return self.typed(self.low), self.typed(self.high)

    @property
    def values(self) -> tuple[int, ...] | None:
        """All values there are; None for real numbers."""
        return tuple(range(int(self.low), int(self.high) + 1)) if self.whole else None

    def suggest(self, trial: Trial) -> str:
        """A value that Optuna draws, as it is typed."""
        if self.whole:
            return self.typed(trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log))
        return self.typed(trial.suggest_float(self.name, self.low, self.high, log=self.log))

    def typed(self, value: float) -> str:
        """A number of three significant digits, or a whole number, as it is typed: 0.00345."""
        if self.whole:
            return str(int(value))
        rounded = min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)
        return repr(rounded).removesuffix(".0")


@dataclass(frozen=True)
class Options:
    """Any of these, each as it is typed."""

    name: str
    values: tuple[str, ...]

    @property
    def corners(self) -> tuple[str, ...]:
        return self.values

    def suggest(self, trial: Trial) -> str:
        """One that Optuna draws."""
        return str(trial.suggest_categorical(self.name, self.values))

    def typed(self, value: str) -> str:
        return value


Range = Interval | Options


def read_range(word: str) -> Range | None:
    """The range in `SETTING=RANGE`, None in an ordinary override; ValueError when it is not one that can be drawn from.

    A list by commas, as in a sweep, is a choice.
    """
    name, equals, value = word.partition("=")
    found = re.fullmatch(r"([\w.-]+)\((.*)", value, re.DOTALL)
    if not equals:
        return None
    if found is None:
        parts = _parts(value)
        return _options(word, name, parts) if len(parts) > 1 else None
    form, parts = found[1], _parts(found[2].removesuffix(")"))
    if form == "choice" and value.endswith(")"):
        return _options(word, name, parts)
    if form not in ("float", "log", "int", "logint") or not value.endswith(")"):
        raise ValueError(f"{name} must be {FORMS}, got {value}")
    return _interval(name, form, parts, value)


def _interval(name: str, form: str, parts: list[str], given: str) -> Interval:
    log, whole = form.startswith("log"), form.endswith("int")
    try:
        low, high = (int(part) if whole else float(part) for part in parts)
    except ValueError:
        kind = "whole numbers" if whole else "numbers"
        raise ValueError(f"{name} must be {form}(LOW,HIGH) of two {kind}, got {given}") from None
    if not -1e300 < low < high < 1e300:
        raise ValueError(f"{name} must be {form}(LOW,HIGH) with LOW below HIGH, got {given}")
    if log and low <= 0:
        raise ValueError(f"{name} must be {form}(LOW,HIGH) with LOW above 0, got {given}")
    return Interval(name, low, high, log, whole)


def _options(word: str, name: str, parts: list[str]) -> Options:
    if not all(parts) or len(set(parts)) != len(parts) or len(parts) < 2:
        raise ValueError(f"{name} must be choice(A,B,..) of two or more different values, got {word.partition('=')[2]}")
    return Options(name, tuple(parts))


def _parts(text: str) -> list[str]:
    """What commas separate, but for those within brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        quote = "" if sign == quote else quote or (sign if sign in "'\"" else "")
        depth += 0 if quote else (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]
