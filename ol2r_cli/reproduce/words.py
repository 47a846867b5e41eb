"""Words of `ol2r run`, such as `ranker.l2=0.1,0.01`: told by name, the later one deciding, and taken apart."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product

Words = dict[str, str]  # by name


def words(*texts: str | Iterable[str]) -> Words:
    """Words by their name, in the order of their first mention; of several with one name the last one stands."""
    found: Words = {}
    for text in texts:
        for word in shlex.split(text) if isinstance(text, str) else text:
            found[word.partition("=")[0].lstrip("+~")] = word
    return found


@cache
def values(word: str) -> tuple[str, ...]:
    """The words that a word with several values stands for; ValueError where Hydra cannot read it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(word)
        if not override.is_sweep_override():
            return (word,)
        return tuple(f"{word.partition('=')[0]}={value}" for value in override.sweep_string_iterator())
    except HydraException as error:
        raise ValueError(f"an override must be NAME=VALUE, got {word} ({str(error).splitlines()[0]})") from None


def expand(found: Words) -> Iterator[Words]:
    """One set of words for every combination of the values listed."""
    for combination in product(*map(values, found.values())):
        yield dict(zip(found, combination, strict=True))
