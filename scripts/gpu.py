"""On a machine with a GPU: whether it plays the rounds of a CPU, how many it plays in a second, and where time goes.

    python scripts/gpu.py FOLDER [--limit SECONDS] [--only TABLE ..] [--device cpu] [--small]

prints the tables of docs/explanation/performance.md, *On a GPU*, in Markdown. Parts begin in the order of their
importance, each in a process of its own, as many as there are cores: loops are compiled beside each other, and a part
that is measured has the GPU to itself. Each number is written to FOLDER/results.json at once; the same command goes
on from there, and after `--limit` seconds it prints what there is. `--device cpu --small` rehearses everything but
the launches.

Data are those of `ol2r bench`: generated, 136 features, 120 documents a query on average.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.loops.rounds import RoundsLaunch
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.metrics.measurement import Measurement
from ol2r_cli.plugins.gpu import batch, joint
from ol2r_cli.plugins.gpu.batch import BatchJob, play_together, run_batch
from ol2r_cli.run import DONE, runner
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.run.trace import Trace
from ol2r_cli.simulation import Simulation

USERS = "informational", "position_based", "user_browsing"
FAMILIES = (
    *("pdgd", "pairrank", "sgd_ranknet", "epsilon_greedy", "dbgd", "mgd", "coltr", "intervention_aware", "pepairrank"),
    *("nsgd", "nsgd ranker.projection=document_space", "pairrank exploration.shuffle=random"),
)
COMPARED = "query", "clicks", "pairs", "blocks", "certain_top10", "violations"  # columns of the rounds
FAILED = "failed: "  # how a cell begins that is measured again
SIZES = 1, 10, 100, 1000, 10_000  # replicas
LENGTHS = {  # T with 1,000 replicas
    **{"pdgd": 2000, "pairrank": 600, "sgd_ranknet": 2000, "epsilon_greedy": 2000, "dbgd": 1000, "mgd": 1000},
    "pepairrank": 200,
}
SETTINGS = {  # the grid of a ranker: 4 x 4
    "pdgd": ("ranker.learning_rate", (0.01, 0.03, 0.1, 0.3), "ranker.decay", (0.9, 0.99, 0.999, 1.0)),
    "pairrank": ("ranker.l2", (0.001, 0.01, 0.1, 1.0), "exploration.alpha", (0.01, 0.1, 0.3, 1.0)),
}


class Options(NamedTuple):
    """What was typed. `small`: few queries, rounds and replicas, to see that every line can be executed."""

    folder: Path
    device: str
    small: bool


class Part(NamedTuple):
    """A row of a table: `measure(options, *arguments, cell)` gives what stands in each of its cells."""

    table: str
    name: str
    measure: Callable[..., str]
    arguments: tuple[Any, ...]
    cells: tuple[Any, ...]

    def key(self, cell: Any) -> str:
        return f"{self.table}/{self.name}/{cell}"


def parts(options: Options) -> list[Part]:
    """Return all rows, the most important ones first."""
    many = 4 if options.small else 1000
    sizes = (1, 4) if options.small else SIZES
    cases = [
        Part("same", f"{ranker} {user}", same_rounds, (ranker, user), ("",)) for user in USERS for ranker in FAMILIES
    ]
    found = cases[: len(FAMILIES)]
    found += [Part("grid", ranker, same_grid, (ranker,), ("",)) for ranker in SETTINGS]
    found += [Part("speed", ranker, speed_of_core, (ranker,), ("core",)) for ranker in LENGTHS]
    found += [Part("speed", ranker, speed, (ranker, most), sizes) for ranker, most in LENGTHS.items()]
    found += [Part("speed", "pairrank, T = 5,000", speed, ("pairrank", 5000), (many,))]
    found += [Part("time", f"pdgd, {what}", time_of_runs, ("pdgd", what), (many,)) for what in ("run", "runs")]
    found += [Part("speed", "olranknet", speed, ("olranknet", 60), sizes[2:4] or (1,))]
    found += cases[len(FAMILIES) :]
    found += [Part("time", "pairrank, runs", time_of_runs, ("pairrank", "runs"), (many,))]
    return found


# Parts are small functions of their own: a simulation, how all its rounds are played, and what is compared.


@cache
def shared_dataset(small: bool) -> Any:
    """Return the data, once in a process."""
    queries = "{train: 20, validation: 0, test: 20}" if small else "{train: 1000, validation: 0, test: 2000}"
    words = [f"dataset.queries={queries}", *(["dataset.documents=12", "dataset.features=6"] if small else [])]
    return build(compose(words).settings["dataset"], "dataset").load()


def make(small: bool, settings: Mapping[str, Any], group: str) -> Any:
    """Build a part of an experiment; its data are those of all."""
    if group == "dataset":
        return SimpleNamespace(load=lambda: shared_dataset(small))
    return build(settings, group)


def experiment(options: Options, words: str, replicas: int, rounds: int, device: str = "", seed: int = 0) -> Experiment:
    """Return the experiment of these words."""
    sizes = [f"replicas={replicas}", f"rounds={rounds}", f"device={device or options.device}", f"seed={seed}"]
    composition = compose([*words.split(), *sizes, f"output_dir={options.folder / 'runs'}"])
    return Experiment(composition.settings, composition.choices, partial(make, options.small))


def compile_loops(options: Options, words: str, device: str = "") -> None:
    """Play two rounds and evaluate, which hardly disturbs what others measure."""
    made = experiment(options, words, 4, 2, device)
    running = made.simulation()
    play(running, [])
    for evaluator in made.evaluators():
        evaluator(running.ranker, running.ranker.deploy()[None])


@contextmanager
def gpu(options: Options, alone: bool) -> Iterator[None]:
    """Hold the GPU during the block: alone, or together with other parts, which should not take long."""
    with open(options.folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
        wait_for_gpu()


def wait_for_gpu() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def rounds_of(simulations: Sequence[Simulation]) -> list[dict[str, Tensor]]:
    """Play all rounds of simulations together; returns the columns [T, B] and theta of each, on the CPU."""
    columns: list[list[dict[str, Tensor]]] = [[] for _ in simulations]
    while int(simulations[0].round) < simulations[0].context.rounds:
        left = [simulation.rounds_until(lambda t: False) for simulation in simulations]
        for error in play_together(simulations, left):
            if isinstance(error, Exception):
                raise error
        for simulation, found in zip(simulations, columns, strict=True):
            if simulation.measurement.full() or int(simulation.round) == simulation.context.rounds:
                measures = simulation.measurement.measures()[1]
                found.append({name: measures[name].cpu() for name in COMPARED if name in measures})
    rounds = []
    for simulation, found in zip(simulations, columns, strict=True):
        joined = {name: torch.cat([part[name] for part in found]) for name in found[0]}
        rounds.append(joined | {"theta": simulation.ranker.deploy().cpu()})
    return rounds


def difference(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> tuple[int, float]:
    """Return the first round, from 1, in which a column differs, 0 for none, and the largest distance of theta."""
    differs = torch.zeros(len(expected["query"]), dtype=torch.bool)
    for name, values in expected.items():
        if name != "theta":
            same = (found[name] == values) | (found[name].isnan() & values.isnan())
            differs |= ~same.all(1)
    distance = float((found["theta"].double() - expected["theta"].double()).abs().max())
    return (int(differs.int().argmax()) + 1 if differs.any() else 0), distance


def same_rounds(options: Options, ranker: str, user: str, cell: str) -> str:
    """Compare 500 rounds of four replicas with those of a CPU."""
    rounds, words = 20 if options.small else 500, f"ranker={ranker} click={user}"
    (expected,) = rounds_of([experiment(options, words, 4, rounds, "cpu").simulation()])
    compile_loops(options, words)
    with gpu(options, alone=False):
        (found,) = rounds_of([experiment(options, words, 4, rounds).simulation()])
    first, distance = difference(expected, found)
    return f"{f'from round {first}' if first else 'none'}, theta {distance:.0e}"


def same_grid(options: Options, ranker: str, cell: str) -> str:
    """Play 16 settings x 5 seeds as one launch, and compare each with its run alone on a CPU."""
    rounds, seeds = (20, 2) if options.small else (200, 5)
    one, values, other, others = SETTINGS[ranker]
    grid = [f"ranker={ranker} {one}={a} {other}={b}" for a in values for b in others]
    jobs = [(words, 1, rounds, device, seed) for words in grid for seed in range(seeds) for device in ("cpu", "")]
    alone = [rounds_of([experiment(options, *job).simulation()])[0] for job in jobs[::2]]
    play_jointly, sizes = joint.play_jointly, list[int]()

    def counted(launches: Sequence[RoundsLaunch]) -> None:
        sizes.append(len(launches))
        play_jointly(launches)

    compile_loops(options, f"ranker={ranker}")
    joint.play_jointly = counted
    with gpu(options, alone=False):
        together = rounds_of([experiment(options, *job).simulation() for job in jobs[1::2]])
    joint.play_jointly = play_jointly
    differ = [difference(*pair) for pair in zip(alone, together, strict=True)]
    others_than = sum(first > 0 for first, _ in differ)
    return f"{others_than} of {len(alone)} runs, theta {max(far for _, far in differ):.0e}; a launch of {max(sizes)}"


def speed(options: Options, ranker: str, most: int, replicas: int) -> str:
    """Measure the replica-rounds of a GPU in a second, learning alone, and with an evaluation every 100 rounds."""
    rounds = {1: 200, 10: 200, 10_000: max(100, most // 10)}.get(replicas, most)
    words, rounds = f"ranker={ranker}", 100 if options.small else rounds
    compile_loops(options, words)
    rates = []
    for evaluated in (False, True):
        with gpu(options, alone=True):
            made = experiment(options, words, replicas, rounds)
            running, evaluators = made.simulation(), made.evaluators() if evaluated else []
            wait_for_gpu()
            began = time.monotonic()
            play(running, evaluators)
            wait_for_gpu()
            rates.append(rounds * replicas / (time.monotonic() - began))
            del made, running, evaluators
            torch.cuda.empty_cache()
    return " / ".join(f"{rate:,.0f}" for rate in rates)


def speed_of_core(options: Options, ranker: str, cell: str) -> str:
    """Measure the same of one core of a CPU with ten replicas, by CPU seconds."""
    rates = []
    for evaluated in (False, True):
        rounds = 100 if options.small else LENGTHS[ranker]
        compile_loops(options, f"ranker={ranker}", "cpu")
        made = experiment(options, f"ranker={ranker}", 10, rounds, "cpu")
        running, evaluators = made.simulation(), made.evaluators() if evaluated else []
        began = time.process_time()
        play(running, evaluators)
        rates.append(rounds * 10 / (time.process_time() - began))
    return " / ".join(f"{rate:,.0f}" for rate in rates)


def play(running: Simulation, evaluators: Sequence[Evaluator]) -> None:
    """Play all rounds, and evaluate after every hundredth."""
    for t, _ in running.play_until(lambda t: bool(evaluators) and t % 100 == 0):
        if running.measurement.full():
            running.measurement.measures()
        if t % 100 == 0:
            for evaluator in evaluators:
                evaluator(running.ranker, running.ranker.deploy()[None])


class Stopwatch:
    """Seconds of what a process does, each counted for the innermost of the functions that are watched."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.inside, self.since = ["the rest"], time.monotonic()

    def turn(self) -> None:
        """Count the time since the last turn for what is being done."""
        wait_for_gpu()
        now = time.monotonic()
        self.seconds[self.inside[-1]] = self.seconds.get(self.inside[-1], 0.0) + now - self.since
        self.since = now

    def watch(self, owner: Any, function: str, what: str) -> None:
        """Count the time of a function of a class or module."""
        watched = getattr(owner, function)

        @wraps(watched)
        def counted(*arguments: Any, **more: Any) -> Any:
            self.turn()
            self.inside.append(what)
            try:
                return watched(*arguments, **more)
            finally:
                self.turn()
                self.inside.pop()

        setattr(owner, function, counted)


def time_of_runs(options: Options, ranker: str, what: str, many: int) -> str:
    """Say where the time of 1,000 runs of 5,000 rounds goes: as replicas of one run, or as the jobs of a batch."""
    rounds = 20 if options.small else 5000
    watch = Stopwatch()
    for owner, function, name in (
        (joint, "play_jointly", "launches"),
        (Simulation, "advance", "launches"),
        (Measurement, "measures", "measures"),
        (Evaluator, "__call__", "evaluation"),
        (Evaluator, "__init__", "evaluation"),
        (Trace, "record", "tables"),
        (Trace, "flush", "tables"),
        (Trace, "finish", "tables"),
        (RunDirectory, "write_bytes", "files"),
        (runner, "summarise", "summary"),
        (batch, "prepare_run", "set-up"),
    ):
        watch.watch(owner, function, name)
    jobs = []
    for seed in range(many if what == "runs" else 1):
        replicas = 1 if what == "runs" else many
        words = [f"ranker={ranker}", f"rounds={rounds}", f"replicas={replicas}", f"seed={seed}", "force=true"]
        words += [f"device={options.device}", f"output_dir={options.folder / 'runs'}"]
        composition = compose(words)
        output = options.folder / "runs.txt"
        jobs.append(BatchJob(composition.settings, composition.choices, words, "", output, shares_gpu=True))
    codes: list[int | None] = []
    compile_loops(options, f"ranker={ranker}")
    with gpu(options, alone=True):
        watch.seconds, watch.since, began = {}, time.monotonic(), time.process_time()
        run_batch(jobs, lambda number, code: codes.append(code), partial(make, options.small))
        watch.turn()
    if codes != [DONE] * len(jobs):
        raise RuntimeError(f"{len(jobs) - codes.count(DONE)} of {len(jobs)} runs have failed, see {options.folder}")
    cpu, ordered = time.process_time() - began, sorted(watch.seconds.items(), key=lambda entry: -entry[1])
    cells = ", ".join(f"{name} {seconds:.1f}" for name, seconds in ordered)
    return f"{sum(watch.seconds.values()):.0f} s ({cpu:.0f} CPU s): {cells}"


# What runs the parts: a process for each, which sends the cells of its row one by one.


def work(options: Options, part: Part, cells: Sequence[Any], results: Connection) -> None:
    """Measure the cells of a part in a process of its own."""
    torch.set_num_threads(1)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each of 1,000 runs has three files open
    if options.device == "cpu":
        batch.JOINT = {"cpu"}
    for cell in cells:
        with torch.inference_mode():
            try:
                found = part.measure(options, *part.arguments, cell)
            except Exception as error:
                found = f"{FAILED}{type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"
        results.send((part.key(cell), found))


def measure(options: Options, todo: list[tuple[Part, list[Any]]], deadline: float, save: Callable[..., None]) -> bool:
    """Measure parts, as many at a time as there are cores, until the deadline; returns whether all were measured."""
    context = multiprocessing.get_context("spawn")
    running: dict[Connection, tuple[Any, Part]] = {}
    while (todo or running) and time.monotonic() < deadline:
        while todo and len(running) < (os.cpu_count() or 1):
            part, cells = todo.pop(0)
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(options, part, cells, sending))
            process.start()
            sending.close()
            running[receiving] = process, part
        for receiving in wait(list(running), timeout=max(0.0, min(1.0, deadline - time.monotonic()))):
            assert isinstance(receiving, Connection)
            try:
                save(*receiving.recv())
            except EOFError:
                process, part = running.pop(receiving)
                process.join()
                if process.exitcode:
                    print(f"{part.table} {part.name}: ended with {process.exitcode}", file=sys.stderr, flush=True)
    for process, _ in running.values():
        process.kill()
    return not (todo or running)


def show(all_parts: Sequence[Part], results: Mapping[str, str]) -> None:
    """Print the tables, as far as there are results."""
    for table, heading in (
        ("speed", "replica-rounds per second: learning alone / with an evaluation every 100 rounds"),
        ("time", "1,000 runs of 5,000 rounds: seconds"),
        ("grid", "a grid of 16 settings and five seeds in one launch: runs that differ from those alone on a CPU"),
        ("same", "500 rounds of four replicas: first that differs from a CPU, and distance of theta"),
    ):
        rows: dict[str, dict[Any, str]] = {}
        for part in all_parts:
            if part.table == table:
                cells = {cell: results[part.key(cell)] for cell in part.cells if part.key(cell) in results}
                rows.setdefault(part.name, {}).update(cells)
        columns = list(dict.fromkeys(cell for part in all_parts if part.table == table for cell in part.cells))
        if not any(rows.values()):
            continue
        titles = [f"{column:,}" if isinstance(column, int) else column or "result" for column in columns]
        print(f"\n{heading}\n\n| | {' | '.join(titles)} |\n|---{'|---' * len(titles)}|")
        for name, cells in rows.items():
            print(f"| `{name}` | {' | '.join(cells.get(column, '') for column in columns)} |")


def main() -> int:
    """Measure what is not measured yet, and print all tables; 1 if something is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="for results and runs")
    parser.add_argument("--limit", type=float, default=570, help="seconds after which it ends (default: 570)")
    parser.add_argument("--only", nargs="+", default=(), metavar="TABLE", help="of same, grid, speed, time")
    parser.add_argument("--device", default="cuda", help="cpu: a rehearsal, in which CPU is compared with CPU")
    parser.add_argument("--small", action="store_true", help="few queries, rounds and replicas")
    given = parser.parse_args()
    options, deadline = Options(given.folder, given.device, given.small), time.monotonic() + given.limit
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "results.json"
    results: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}

    def save(key: str, found: str) -> None:
        results[key] = found
        temporary = file.with_suffix(".partial")
        temporary.write_text(json.dumps(results, indent=1))
        temporary.replace(file)
        print(f"{given.limit - deadline + time.monotonic():4.0f} s  {key}: {found}", file=sys.stderr, flush=True)

    wanted = [part for part in parts(options) if not given.only or part.table in given.only]

    def is_missing(part: Part, cell: Any) -> bool:
        return results.get(part.key(cell), FAILED).startswith(FAILED)

    todo = [(part, [cell for cell in part.cells if is_missing(part, cell)]) for part in wanted]
    is_done = measure(options, [(part, cells) for part, cells in todo if cells], deadline, save)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{name}, torch {torch.__version__}, {os.cpu_count()} cores")
    show(wanted, results)
    is_done = is_done and not any(is_missing(part, cell) for part in wanted for cell in part.cells)
    if not is_done:
        print("\nnot all was measured: type the same command again", file=sys.stderr)
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())
