"""From a configuration to objects: the dataset, the roles, the simulation and the directory of one run."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.columns import EVALUATION_COLUMNS, INTENT, TRACE_COLUMNS, RunColumns
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.config.ranges import Count, NonNegative, Range, WholeNumber, check_settings
from ol2r_cli.dataset.table import Dataset, DatasetSource, loaded
from ol2r_cli.device import MOST_REPLICAS, SINGLE_ROUNDS, BreakEven, Device, automatic, break_even
from ol2r_cli.intent.schedules import DrawnIntents
from ol2r_cli.interfaces import (
    ClickModel,
    Exploration,
    Fairness,
    Forgetting,
    IntentSchedule,
    Measure,
    Ranker,
    RunContext,
)
from ol2r_cli.metrics.evaluation import Evaluator, IntentEvaluator, is_evaluated
from ol2r_cli.metrics.exposure import exposure_of
from ol2r_cli.metrics.measurement import check_columns
from ol2r_cli.plugins import RunPart, run_parts
from ol2r_cli.run.identity import HASHED_ALWAYS, added_values, identity, run_path
from ol2r_cli.run.own_code import explained, own_code
from ol2r_cli.run.run import Run, Table
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.simulation import Roles, RoundSettings, Simulation, check_needs, judged_by_intents
from ol2r_cli.tensor.memory import MemoryLimit, NotEnoughMemory, available_memory
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Streams

_ROLES: dict[str, type[Any]] = {"click": ClickModel, "ranker": Ranker, "exploration": Exploration, "fairness": Fairness}
Make = Callable[[Mapping[str, Any], str], Any]  # from the settings of a group and its name to an object
LARGEST_SEED = 2**63 - 1  # seeds are whole numbers of 64 bits
_MANY = 100  # replicas; beyond, their memory is estimated before any of it is allocated


@dataclass(frozen=True)
class RunSettings:
    """The settings of configs/run.yaml, where each is described, with the values that it may have.

    `exposure` and `beta` have further conditions, which `metrics/exposure.py` checks.
    """

    seed: WholeNumber
    replicas: Annotated[int, Range(1, MOST_REPLICAS)]
    rounds: Count
    positions: Annotated[int, Range(1, 100_000)]
    update_every: Count
    delay: WholeNumber
    evaluate_every: Count
    evaluate_rounds: Literal["even", "log"]
    evaluate_on: Sequence[Literal["validation", "test"]]
    no_relevant: Literal["zero", "skip"]
    exposure: str | Sequence[float]
    beta: str | float | Sequence[float]
    measures: Sequence[str]
    note: str
    output_dir: str
    data_dir: str
    cache_dir: str
    checkpoint_every: NonNegative
    checkpoint_rounds: Count | None
    keep_checkpoint: bool
    force: bool


class Experiment:
    """A checked configuration with its roles, its dataset and its run directory.

    `settings` and `choices` are those of a `Composition`. `make` builds the object that the settings of a group name; a
    sweep passes a function that does equal work once. `code` is that of `own_code` where the source is known
    to another process only. `replicas_of_batch` is the number of replicas of a batch that a sweep plays on a GPU, 0 for
    a run that is not in one: `device.name=auto` takes the GPU for it. ValueError for a bad setting, and for a class
    whose source is not available.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        choices: Mapping[str, str],
        make: Make = build,
        code: Mapping[str, str] | None = None,
        replicas_of_batch: int = 0,
    ):
        self.began, self.replicas_of_batch = time.monotonic(), replicas_of_batch
        self.settings, self.choices = dict(settings), choices
        _check_run(self.settings)
        self._make_roles(make)
        self.parts = self._prepared_parts()
        self.device, self.reason_of_device = self._device(make)
        check_columns(self.measures)
        self.dtype = self.device.dtype or self.roles["ranker"].dtype
        source: DatasetSource = _made(DatasetSource, "dataset", self.settings["dataset"], make)
        self.intent: IntentSchedule = _made(IntentSchedule, "intent", self.settings["intent"], make)
        self.device.prepare()  # after the import of own classes, which can set modes of torch
        self.dataset: Dataset = loaded(source)
        if self.intent.changes:
            self.dataset = judged_by_intents(self.dataset, self.intent, self.roles)
        self.seeds = [self.settings["seed"] + replica for replica in range(self.settings["replicas"])]
        for part, prepared in self.parts:
            if part.check is not None:
                part.check(self, prepared)
        self.code = own_code(self.settings) if code is None else code
        self._leave_gpu_for_single_rounds(make)
        hashes = {group: role.hashes() for group, role in self.roles.items()}
        self.inputs = {f"{group}.{name}": hash for group in hashes for name, hash in hashes[group].items()}
        self.id = identity(self._decisive(hashes), self.dataset.fingerprint, self.code)
        path = run_path(self.settings["output_dir"], choices, self.id)
        files = [file for part, _ in self.parts for file in part.files]
        files += [table.file for table in self.tables]
        self.directory = RunDirectory(path, root=path.parents[1], others=files)

    def _decisive(self, hashes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """Return the settings that the id is of, with the hashes of the files that roles read in place of paths."""
        of_parts = {part.setting: part.decisive(prepared) for part, prepared in self.parts if part.decisive}
        of_roles = {group: {**self.settings[group], **hashes[group]} for group in self.roles}
        device = {**self.settings["device"], "dtype": str(self.dtype).removeprefix("torch.")}
        return {**HASHED_ALWAYS, **self.settings, **of_roles, "device": device, **of_parts}

    def _make_roles(self, make: Make) -> None:
        self.roles = {group: _made(kind, group, self.settings[group], make) for group, kind in _ROLES.items()}
        nodes = self.settings["measure"].items()
        self.measures = {name: _made(Measure, f"measure.{name}", node, make) for name, node in nodes}

    def _prepared_parts(self) -> list[tuple[RunPart, Any]]:
        """Return what settings add to the run; ValueError for one whose plug-in is not installed."""
        parts, prepared = {part.setting: part for part in run_parts()}, []
        for setting, absent in {**HASHED_ALWAYS, **added_values()}.items():
            value = self.settings.get(setting, absent)
            if value == absent and type(value) is type(absent):  # 0 is not false, and is said to be wrong
                continue
            if setting not in parts:
                raise ValueError(f"{setting} needs a plug-in that is not installed: leave it out")
            prepared.append((parts[setting], parts[setting].prepare(self)))
        return prepared

    @property
    def tables(self) -> list[Table]:
        """The tables to which parts of the run add rows in rounds."""
        return [part.table() for part, _ in self.parts if part.table is not None]

    @property
    def plays_single_rounds(self) -> bool:
        """Whether a part of the run records what happens in a round, which is known of single rounds alone."""
        return any(part.record is not None for part, _ in self.parts)

    def _device(self, make: Make) -> tuple[Device, str]:
        """Return the device, and why `auto` has taken it; a sweep makes one for all jobs of the same device."""
        node, reason = dict(self.settings["device"]), ""
        if node.get("name") == "auto":
            name, reason = automatic(self.break_even, self.settings["replicas"], self.settings["rounds"])
            if self.replicas_of_batch:
                name, reason = "cuda", f"device: cuda, with {self.replicas_of_batch:,} replicas in one batch"
            node = {**node, "name": name}
        return _made(Device, "device", node, make), reason

    @property
    def break_even(self) -> BreakEven | None:
        """From where on a GPU is faster than a core; None: that was not measured."""
        return break_even(self.roles["ranker"], self.plays_together)

    def _leave_gpu_for_single_rounds(self, make: Make) -> None:
        """Take the CPU in place of the GPU that `auto` has taken for rounds which are played one by one after all."""
        is_automatic = self.settings["device"].get("name") == "auto" and not self.replicas_of_batch
        if is_automatic and self.device.torch.type == "cuda" and self.roles["ranker"].linear and not self.plays_on_gpu:
            node = {**self.settings["device"], "name": "cpu"}
            self.device, self.reason_of_device = _made(Device, "device", node, make), SINGLE_ROUNDS
            self.device.prepare()

    @cached_property
    def plays_on_gpu(self) -> bool:
        """Whether one launch plays many rounds, so that a GPU is of use. Roles are set up for one replica on a CPU."""
        if not self.plays_together:
            return False
        trial = self.renewed(1, rounds=1)
        trial.device = Device("cpu", "auto", 1)
        try:
            return trial.simulation().together is not None
        except Exception:  # the run itself says what is wrong
            return False

    @property
    def plays_together(self) -> bool:
        """Whether one launch plays many rounds, as far as is known before the roles are set up."""
        ranker = self.roles["ranker"]
        single = self.plays_single_rounds or self.settings["delay"]
        needs_order = any(measure.needs_order for measure in self.measures.values())
        if single or needs_order or not ranker.linear or ranker.forgetting != Forgetting():
            return False
        return all("stages" in vars(type(role)) for role in self.roles.values())

    def recorded_choices(self) -> dict[str, str]:
        """Return the choices of the dataset, the roles and their parts (`ranker/model`), as the manifest records
        them."""
        groups = ("dataset", *self.roles)
        parts = [group for group in self.choices if "/" in group and group.partition("/")[0] in groups]
        if self.intent.changes:
            parts.append("intent")
        return {group: self.choices[group] for group in (*groups, *sorted(parts))}

    @property
    def needs_gpu(self) -> bool:
        """Whether the launcher of a sweep has to give it a GPU; `cuda:N` has named one."""
        return self.device.torch == torch.device("cuda")

    def stored(self) -> Run | None:
        """Return the run as it is on disk, all of its files compared; None if it was not begun, and with
        `force=true`."""
        return None if self.settings["force"] else Run.read(self.directory.path, thorough=True)

    def finished(self) -> bool:
        """Return whether this run is finished, is as it was then, and does not have to be run again."""
        run = self.stored()
        return run is not None and run.state == "finished"

    def is_evaluated(self, round: int) -> bool:
        """Return whether a round from 1 on is one of the regular evaluations; round 0 and the last one always are."""
        return is_evaluated(round, self.settings["evaluate_every"], self.settings["evaluate_rounds"])

    def setup_error(self) -> str:
        """Return why the roles do not fit each other or the data: they are set up for one round of one replica.

        A ranker that needs the labels is not set up, because it learns from them when it is.
        """
        try:
            check_needs(self.roles)
            if not self.roles["ranker"].needs_labels:
                self.renewed(1, rounds=1).simulation()
            if self.roles["ranker"].generalises and self.settings["no_relevant"] == "skip":
                self.evaluators()  # they refuse a split of which nothing would be left
        except Exception as error:  # of a user's role, or of torch: the other jobs of a sweep must still be checked
            return explained(error)
        return ""

    def simulation(self) -> Simulation:
        """Return the roles on the training queries, ready for round 1.

        ValueError if they do not fit together, NotEnoughMemory if they need more than there is.
        """
        settings, limit = self.settings, MemoryLimit(available_memory(self.device.torch))
        try:
            if len(self.seeds) > _MANY and not self.roles["ranker"].needs_labels:
                one, two = self._allocated(1), self._allocated(2)
                limit.check(one + (len(self.seeds) - 1) * (two - one))
            with limit:
                return self._simulation()
        except (MemoryError, torch.OutOfMemoryError) as error:
            sizes = ", ".join(f"{name}={settings[name]}" for name in ("rounds", "replicas", "positions"))
            raise NotEnoughMemory(
                f"{sizes} need more memory than there is ({error or 'out of memory'}): make one of them smaller"
            ) from None

    def _allocated(self, replicas: int) -> int:
        """Return the bytes that the set-up of so many replicas allocates."""
        trial = self.renewed(replicas, self.settings["rounds"])
        with MemoryLimit(available_memory(self.device.torch)) as limit:
            trial._simulation()
        return limit.allocated

    def renewed(self, replicas: int, rounds: int) -> Experiment:
        """Return a copy of so many rounds, with the first replicas and with roles that have not been set up."""
        other = copy.copy(self)
        other.settings = {**self.settings, "rounds": rounds}
        other.seeds = self.seeds[:replicas]
        other._make_roles(build)
        return other

    def _simulation(self) -> Simulation:
        settings = self.settings
        round_settings = RoundSettings(
            rounds=settings["rounds"],
            positions=settings["positions"],
            dtype=self.dtype,
            no_relevant=settings["no_relevant"],
            exposure=exposure_of(
                self.dataset,
                build(settings["click"], "click"),
                settings["positions"],
                settings["exposure"],
                settings["beta"],
                needed=self.roles["fairness"].reranks,
            ),
            update_every=settings["update_every"],
            delay=settings["delay"],
            single=self.plays_single_rounds,
            code=" ".join(self.code.values()),
        )
        return Simulation(
            self.dataset,
            Roles(**self.roles),
            round_settings,
            seeds=torch.tensor(self.seeds, device=self.device.torch),
            measures=self.measures,
            intent=self.intent,
            start=self._start(),
        )

    def warnings(self) -> list[str]:
        """Return what a reader of the results should know, a line each: of dataset, intents, and roles that are set
        up."""
        lines = self.intent.warnings(self.settings["rounds"])
        for source in (self.dataset, *self.roles.values()):
            lines += source.warnings
        return [*lines, *filter(None, [loops.slow_compilation()])]

    def evaluators(self) -> list[Evaluator]:
        """Return one for each split in `evaluate_on` that the dataset has."""
        seeds = torch.tensor(self.seeds, device=self.device.torch)
        splits = [name for name in self.settings["evaluate_on"] if len(self.dataset.splits.get(name, ()))]

        def of_split(split: str, dataset: Dataset) -> Evaluator:
            counts, compiled = self.settings["no_relevant"], self.device.torch.type == "cpu"
            return Evaluator(dataset, split, seeds, counts, self.dtype, self.measures, compiled)

        if not self.intent.changes:
            return [of_split(split, self.dataset) for split in splits]
        drawn = DrawnIntents(self.intent, Streams(seeds))
        return [
            IntentEvaluator(self.dataset, partial(of_split, split), lambda round: drawn.shares(round, 1))
            for split in splits
        ]

    def columns(self) -> RunColumns:
        """Return the columns of the tables of this run."""
        trace, evaluation = [*TRACE_COLUMNS.values()], [*EVALUATION_COLUMNS.values()]
        if self.intent.changes:
            trace.append(INTENT)
        for measure in self.measures.values():
            trace += measure.trace
            evaluation += measure.evaluation
        return RunColumns(
            {column.name: column for column in trace},
            {column.name: column for column in evaluation},
        )

    def _start(self) -> Callable[[RunContext], Float[Tensor, "B P"]] | None:
        """Return what gives the parameters from which replicas begin; None where the ranker has its own."""
        for part, prepared in self.parts:
            if part.start is not None:
                return partial(part.start, prepared, dataset=self.dataset, seeds=self.seeds)
        return None


def _check_run(settings: Mapping[str, Any]) -> None:
    """Raise ValueError where settings of a run are outside their range, or do not go together."""
    names = [field.name for field in fields(RunSettings) if field.name in settings]
    check_settings(RunSettings, {name: settings[name] for name in names}, "")
    rounds, replicas, seed = settings["rounds"], settings["replicas"], settings["seed"]
    largest = LARGEST_SEED - replicas + 1
    if seed > largest:
        raise ValueError(f"seed must be from 0 to {largest} with replicas={replicas}, got {seed}")
    evaluated = settings["evaluate_on"]
    if len({*evaluated}) < len(evaluated):
        raise ValueError(f"evaluate_on must have each split once, got {as_typed(evaluated)}")
    every, delay = settings["update_every"], settings["delay"]
    first = every * (delay // every + 1)  # the first round after which something is learned
    if first > rounds:
        must = f"update_every and delay must let the ranker learn within {rounds:,} rounds"
        raise ValueError(f"{must}, got {every} and {delay}: type rounds={first} or more")


def _made(kind: type[Any], group: str, settings: Mapping[str, Any], make: Make) -> Any:
    """Return what is made for a group; ValueError if the class that its settings name is none for this group."""
    made = make(settings, group)
    if isinstance(made, kind):
        return made
    expected = f"a class that is {kind.__module__}.{kind.__name__}"
    if kind is DatasetSource:
        expected = "a class with a method `load`"
    raise ValueError(f"{group}._target_ must be {expected}, got {type(made).__module__}.{type(made).__name__}")
