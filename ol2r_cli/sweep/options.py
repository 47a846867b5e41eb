"""The options of `ol2r run` that are ours, not Hydra's, and how a sweep leaves Hydra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ol2r_cli.sweep.compositions import Composer

SEVERAL = {"-m", "--multirun"}


@dataclass(frozen=True)
class Options:
    """dry_run: tell what would be run. keep_going: run the good jobs although others are bad. paired: settings whose
    values go together, several times."""

    dry_run: bool = False
    keep_going: bool = False
    paired: tuple[tuple[str, ...], ...] = ()

    def for_hydra(self) -> list[str]:
        """What our sweeper needs of them, as an override of its settings."""
        lists = ",".join(f"[{','.join(names)}]" for names in self.paired)
        return [f"hydra.sweeper.paired=[{lists}]"] if self.paired else []


def held_back(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without the settings of groups of which several choices are swept, and these settings.

    Hydra composes a sweep once without the values listed, hence with the default ranker, of which it would say that it
    has no `ranker.learning_rate`. Our sweeper takes them to every job.
    """
    if any(word.startswith(("-", "hydra/sweeper=")) and word not in (*SEVERAL, "--config-dir") for word in arguments):
        return list(arguments), []
    groups = [group for group, _, value in (word.partition("=") for word in arguments) if re.search(r"[,(]", value)]
    prefixes = tuple(f"{group.replace('/', '.')}." for group in groups)
    held = [word for word in arguments if "=" in word and word.lstrip("+~").startswith(prefixes)] if prefixes else []
    return [word for word in arguments if word not in held], held


class Expanded(SystemExit):
    """Leaves Hydra with what it was asked for: the words of every job of a sweep, and what composes them."""

    def __init__(self, jobs: Sequence[Sequence[str]], composer: Composer):
        super().__init__(0)
        self.jobs, self.composer = jobs, composer


def own_options(arguments: Sequence[str]) -> tuple[Options, list[str]]:
    """These options, and the other words; ValueError for one that does not fit the rest."""
    rest, paired, flags = [], [], set[str]()
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if word in ("--dry-run", "--keep-going"):
            flags.add(word)
        elif option == "--paired":
            names = value if equals else next(words, "")
            paired.append(tuple(name for name in names.split(",") if name))
            if len(paired[-1]) < 2:
                raise ValueError(f"--paired must be followed by two or more settings, as in A,B, got '{names}'")
        else:
            rest.append(word)
    alone = not SEVERAL & set(rest)
    for option in [*(["--paired"] if paired else []), *sorted(flags - {"--dry-run"})]:
        if alone:
            raise ValueError(f"{option} is for several runs: add -m")
    return Options("--dry-run" in flags, "--keep-going" in flags, tuple(paired)), rest
