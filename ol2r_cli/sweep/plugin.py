"""What Hydra sees of our sweeps: a sweeper and a launcher, registered without a `hydra_plugins` folder.

Hydra 1.3 wants the class path of a plugin to begin with `hydra_plugins.`, and looks it up in a table of what it has
found there. `register` writes these two into the table; their module stays this one, so that they can be pickled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from ol2r_cli.settings import nearest
from ol2r_cli.sweep.board import Terminal
from ol2r_cli.sweep.compositions import Composer
from ol2r_cli.sweep.options import Expanded

Plugins.instance()  # first: it executes Hydra's own plugins once more, and a sweeper based on the earlier class breaks

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # noqa: E402


class GridSweeper(BasicSweeper):
    """The product of all values listed, but `paired` settings advance together.

    With Hydra's own launchers (`hydra/launcher=joblib`) it is the basic sweeper with pairs.
    """

    held: Sequence[str] = ()  # words that Hydra has not seen: see `held_back`

    def __init__(self, max_batch_size: int | None, params: Mapping[str, str] | None, paired: Sequence[Sequence[str]]):
        super().__init__(max_batch_size, dict(params or {}))
        self.paired = paired

    def sweep(self, arguments: list[str]) -> Any:
        """Ends in `Expanded` where the launcher is ours."""
        if not isinstance(self.launcher, SweepLauncher):
            return super().sweep([*arguments, *self.held])
        assert self.hydra_context is not None
        assert self.config is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        jobs = self._expand(parser.parse_overrides([*self._parse_config(), *arguments, *self.held]))
        raise Expanded(jobs, Composer.of(self.hydra_context, self.config))

    def split_arguments(  # type: ignore[override]  # the basic one is static
        self, overrides: list[Override], max_batch_size: int | None
    ) -> list[list[list[str]]]:
        """The jobs in batches, as the basic sweeper wants them."""
        jobs = self._expand(overrides)
        size = max_batch_size or len(jobs)
        return [jobs[first : first + size] for first in range(0, len(jobs), size)]

    def _expand(self, overrides: list[Override]) -> list[list[str]]:
        try:
            return expand(overrides, self.paired)
        except ValueError as error:
            raise CompactHydraException(str(error)) from None  # which Hydra tells without a traceback


class SweepLauncher(Launcher):
    """For other sweepers (`hydra/sweeper=..`): their jobs run where the group `launcher` says."""

    terminal: Terminal | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.composer = Composer.of(hydra_context, config)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """One batch. KeyboardInterrupt when it was stopped; a bad one is Hydra's error, before anything has run."""
        from ol2r_cli.run import JobFailed
        from ol2r_cli.sweep.entry import run_sweep

        try:
            result = run_sweep(job_overrides, self.composer, terminal=self.terminal)
        except ValueError as error:
            raise CompactHydraException(str(error)) from None
        if result.code == 130:
            raise KeyboardInterrupt
        returns = []
        for cell in result.cells:
            done = JobReturn(overrides=list(cell.words))
            done.status = JobStatus.COMPLETED if cell.well else JobStatus.FAILED
            done._return_value = None if cell.well else JobFailed(f"{cell.name}: {cell.reason}")
            returns.append(done)
        return returns


def expand(overrides: Sequence[Override], paired: Iterable[Sequence[str]] = ()) -> list[list[str]]:
    """The words of every job: the product of all values listed, in which the settings of each of `paired` are one.

    The last one named changes fastest. ValueError where values that go together are not equally many.
    """
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            values[key] = [f"{key}={override.get_value_element_as_str()}"]
        elif override.is_discrete_sweep():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            raise ValueError(
                f"{override.input_line} must list its values, as in {key}=1,2,3: `ol2r search` tries ranges"
            )
    groups = [[key] for key in values]
    for names in paired:
        groups = _joined(groups, names, values)
    axes = [
        [dict(zip(group, row, strict=True)) for row in zip(*map(values.__getitem__, group), strict=True)]
        for group in groups
    ]
    cells = [{key: word for part in parts for key, word in part.items()} for parts in itertools.product(*axes)]
    return [[cell[key] for key in values] for cell in cells]


def _joined(groups: list[list[str]], names: Sequence[str], values: dict[str, list[str]]) -> list[list[str]]:
    """`groups` with one more, at the place of the first of its settings."""
    swept = [key for key in values if len(values[key]) > 1]
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) < 2:
        raise ValueError(f"--paired must be two or more settings, as in --paired ranker,exploration, got {names}")
    for name in names:
        if name not in values:
            raise ValueError(f"--paired {','.join(names)}: there is no {name}=.. in this sweep{nearest(name, swept)}")
        if any(name in group for group in groups if len(group) > 1):
            raise ValueError(f"--paired may name {name} once: type --paired with all that go together")
    lengths = [len(values[name]) for name in names]
    if len(set(lengths)) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in zip(names, lengths, strict=True))
        raise ValueError(f"--paired {','.join(names)} must have equally many values: {told}")
    first = next(name for name in values if name in names)
    kept = [group for group in groups if group == [first] or not set(group) & set(names)]
    return [[name for name in values if name in names] if group == [first] else group for group in kept]


def register(terminal: Terminal, held: Sequence[str] = ()) -> None:
    """Make the two known to Hydra. `terminal` is where a launcher shows how its jobs fare; `held` goes to every job."""
    SweepLauncher.terminal, GridSweeper.held = terminal, held
    plugins = Plugins.instance()
    for plugin in (GridSweeper, SweepLauncher):
        plugins.register(plugin)
        plugins.class_name_to_class[f"hydra_plugins.ol2r.{plugin.__name__}"] = plugin
