"""Compiled loops alone, against plain numpy; tests/test_single_rounds.py plays whole rounds. Compiling is no part of
the time of a run. Machine code on disk is that of the present loops: numba itself looks at a function's own file
only."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.metrics import evaluation_loops
from ol2r_cli.tensor.streams import Streams

pytest.importorskip("numba")

from numba.core.caching import NullCache

from ol2r_cli import loops, source
from ol2r_cli.loops import Clock, clock, orders
from ol2r_cli.loops import compile as compiling
from ol2r_cli.loops.lanes import barrier, lane, lanes
from tests.launch import ended, execute
from tests.reference.philox import philox4x32
from tests.worlds import TINY

ROOT = Path(__file__).parents[2]


def test_random_numbers_are_those_of_philox():
    seeds = [0, 7, 2**32 - 1, 2**32 + 5, 2**62 + 9]
    index = torch.tensor([[0, 7, 1, 2, 3], [4, 4, 9, 6, 1_000_003]] + 3 * [[5, 4, 3, 2, 1]])
    for round in 0, 255, 2**31:
        streams = Streams(torch.tensor(seeds))
        for name, count in ("a", 1), ("b", 11), ("a", 30):
            drawn = streams.at("click", round).uniform(count, name)
            for seed, numbers in zip(seeds, drawn.tolist(), strict=True):
                assert numbers == [philox_number(seed, f"click/{name}", round, place) for place in range(count)]
        at_index = streams.uniform_at("b", round, index)
        for seed, places, numbers in zip(seeds, index.tolist(), at_index.tolist(), strict=True):
            assert numbers == [philox_number(seed, "b", round, place) for place in places]


def philox_number(seed: int, stream: str, round: int, index: int) -> float:
    """The number of a stream at an index, by plain integers."""
    block = philox4x32((index // 4, round, crc32(stream.encode()), 0), (seed & 0xFFFFFFFF, seed >> 32))
    return (block[index % 4] + 0.5) / 2**32


@given(st.integers(1, 80), st.integers(1, 90), st.integers(0, 2**31))
def test_the_best_documents_come_first(documents, places, seed):
    keys = np.random.default_rng(seed).permutation(documents) - documents / 2
    order = np.full(min(places, documents), -1)
    orders.descending(keys, order)
    assert order.tolist() == np.argsort(-keys)[: len(order)].tolist()


@given(st.integers(0, 2**31), st.booleans(), st.sampled_from([0, 0.1, 1, 100, np.inf]))
def test_the_top_labels_are_those_of_sorted_keys(seed, tied, slack):
    """Of equal scores the larger tail is first, of equal negative scores the smaller one, as in float64 keys. Scores
    that are off by up to the slack change nothing."""
    rng = np.random.default_rng(seed)
    shape = snapshots, replicas, queries, documents = 2, 2, 3, 40
    weights = rng.integers(-50, 50, (snapshots, replicas, 4)) / 8  # without rounding errors in sums of products
    table = rng.integers(-1 if tied else -50, 2 if tied else 50, (queries, documents, 4)).astype(np.float32)
    scores = np.einsum("sbf,qdf->sbqd", weights, table)
    given_scores = (scores + rng.uniform(-min(slack, 1e3), min(slack, 1e3), shape) * 0.999).astype(np.float32)
    labels = rng.integers(0, 4, (queries, documents))
    ties = rng.permuted(np.broadcast_to(np.arange(documents), (replicas, queries, documents)), axis=2)
    length, places = rng.integers(1, documents + 1, queries), 5
    given_slack = np.full((snapshots, replicas), float(slack))
    given = given_scores, given_slack, weights, table, ties << 2 | labels, 2, length, places
    top = evaluation_loops.top_labels(*given)
    for s, b, q in np.ndindex(snapshots, replicas, queries):

        def key(d, s=s, b=b, q=q):
            score = np.float32(scores[s, b, q, d])
            tail = ties[b, q, d] * 4 + labels[q, d]
            return -score, (tail if score < 0 else -tail)

        order = sorted(range(length[q]), key=key)[:places]
        expected = [int(labels[q, d]) for d in order] + [0] * (places - len(order))
        assert top[s, b, q].tolist() == expected


@pytest.fixture
def kept_in(monkeypatch):
    """What has the machine code of loops that are made from now on kept in a folder; "": it is compiled anew."""
    return lambda folder: monkeypatch.setattr(compiling, "FOLDER", str(folder))


def test_loops_work_where_their_machine_code_cannot_be_kept(monkeypatch, kept_in):
    njit = compiling.numba.njit

    def without_cache(*functions, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*functions, **options)

    monkeypatch.setattr(compiling.numba, "njit", without_cache)
    kept_in(compiling._folder())

    @compiling.compiled
    def twice(x):
        return 2 * x

    assert twice(3) == 6


def test_loops_of_a_file_that_was_changed_meanwhile_are_not_kept(ol2r_source):
    """Their machine code would be in the folder of the sources that this process has hashed."""
    text = "from ol2r_cli.loops.compile import compiled\n\n@compiled\ndef value():\n    return 1\n"
    for name in "as_hashed", "edited":
        (ol2r_source / f"{name}.py").write_text(text)
    source.IN_MEMORY.update(source.hashes())
    (ol2r_source / "edited.py").write_text(text.replace("1", "2"))
    is_kept = {}
    for name in "as_hashed", "edited":
        spec = importlib.util.spec_from_file_location(f"ol2r_cli.loops.{name}", ol2r_source / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        is_kept[name] = not _is_nowhere(module.value)
    assert is_kept == {"as_hashed": bool(compiling.FOLDER), "edited": False}


def _is_nowhere(loop: Any) -> bool:
    return all(isinstance(each._cache, NullCache) for each in (loop.called_by_python, loop.inner))


@pytest.mark.parametrize(
    ("name", "value", "is_decisive"),
    [
        *[("OPT", 0, True), ("BOUNDSCHECK", 2, True), ("CPU_NAME", "generic", True), ("LOOP_VECTORIZE", 0, True)],
        *[("DEBUG_CACHE", 1, False), ("NUMBA_NUM_THREADS", 1, False)],
    ],
)
def test_settings_of_numba_that_change_machine_code_have_folders(monkeypatch, name, value, is_decisive):
    before = compiling._folder()
    monkeypatch.setattr(compiling.numba.config, name, value)
    assert (compiling._folder() != before) == (is_decisive and bool(compiling.FOLDER))


@pytest.mark.parametrize("count", range(40))
def test_keys_are_sorted_and_equal_ones_stay_in_order(count):
    keys = np.random.default_rng(count).integers(0, 8, count).astype(float)
    order = np.full(count, -1)
    orders.ascending(keys, order)
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()


def test_the_clock_stands_still_from_first_stop_to_last_start(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: now[0], process_time=lambda: 10 * now[0]))
    clock, seen = Clock(), []
    for moment, what in ((1, None), (2, clock.stop), (3, clock.stop), (5, clock.start), (9, clock.start), (10, None)):
        now[0] = moment
        if what:
            what()
        seen.append((*clock.read(), clock.compiling))
    assert seen == [(1, 10, 0), (2, 20, 1), (2, 20, 2), (2, 20, 1), (2, 20, 0), (3, 30, 0)]


def test_the_clock_of_runs_stands_still_while_numba_compiles():
    numba = compiling.numba
    assert loops.random_numbers, "compiled loops have been imported"
    began, clock_began = time.monotonic(), clock.read()[0]
    assert numba.njit(lambda numbers: numbers.sum() + 1)(np.ones(3)) == 4
    assert clock.read()[0] - clock_began < (time.monotonic() - began) / 2


@pytest.mark.slow
def test_a_run_that_compiles_all_of_its_loops_does_not_count_it(tmp_path):
    words = ["ranker=random", "click=perfect", "rounds=20", "device=cpu", "output_dir=out", "measures=[ndcg]"]
    data = ["dataset.queries={train: 5, validation: 0, test: 2}", "dataset.documents=6"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    command = [sys.executable, "-m", "ol2r_cli", "run", *words, *data]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (manifest,) = (json.loads(path.read_text()) for path in tmp_path.glob("out/*/*/run.json"))
    assert manifest["seconds"] < manifest["startup_seconds"]  # it would have both
    assert manifest["cpu_seconds"] < manifest["startup_seconds"] / 4  # of wall clock, which a busy machine lengthens


@pytest.mark.parametrize(
    "words",
    [
        f"ol2r_cli run {shlex.join(TINY)} ranker=random click=perfect rounds=20 measures=[ndcg] output_dir=OUT",
        # The golden traces play all loops.
        pytest.param("pytest -q -p no:cacheprovider tests/test_golden.py", marks=pytest.mark.slow),
    ],
    ids=["a run", "every loop"],
)
def test_loops_read_and_write_within_their_arrays(words, tmp_path):
    command = [sys.executable, "-m", *shlex.split(words.replace("OUT", str(tmp_path)))]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


CALLER = """
import numba
from ol2r_cli.loops.callee import value
from ol2r_cli.loops.compile import compiled

@compiled
def call():
    return value()

@numba.njit(cache=True)
def own():
    return 7

print(call(), own())
"""
CALLEE = "from ol2r_cli.loops.compile import compiled\n\n@compiled\ndef value():\n    return {value}\n"
MAKER = f"""
import math
import sys

import torch

from ol2r_cli.loops.compile import compiled, made_by
from ol2r_cli.loops.launch import launch

def calling(loop):
    @made_by("calling", loop)
    def call(b, space, found):
        {"; ".join(30 * ["found[b] = math.sin(found[b])"])}
        loop(b, space, found)

    @made_by("calling twice", loop)
    def call_twice(b, space, found):  # so that the compiler does not put so long a loop into its caller
        call(b, space, found)
        call(b, space, found)

    return call_twice

@compiled
def one(b, space, found):
    found[b] += 1

@compiled
def two(b, space, found):
    found[b] += 2

for loop in sys.argv[1:]:
    found = torch.zeros(1)
    launch(calling(globals()[loop]), 1, 1, found)
    print(int(found))
"""


def output(root: Path, cache: Path, *words: str) -> list[str]:
    """What a program prints that finds ol2r in a folder and keeps machine code in another."""
    paths = {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=root, env=os.environ | paths, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def printed(script: Path, module: str, kept: Path, *words: str) -> list[str]:
    """What a script prints in a process of its own, as a module of this name, which keeps machine code in a folder."""
    file = script.with_suffix(".output")
    assert ended(execute, script, module, kept, [*words], file) == 0
    return file.read_text().split()


def test_a_changed_callee_is_compiled_into_its_callers(tmp_path):
    shutil.copytree(ROOT / "ol2r_cli" / "loops", tmp_path / "ol2r_cli" / "loops", ignore=lambda *_: ["__pycache__"])
    (tmp_path / "ol2r_cli" / "plugins").mkdir()
    shutil.copy(ROOT / "ol2r_cli" / "plugins" / "__init__.py", tmp_path / "ol2r_cli" / "plugins")
    shutil.copy(ROOT / "ol2r_cli" / "source.py", tmp_path / "ol2r_cli")
    (tmp_path / "ol2r_cli" / "__init__.py").touch()
    (tmp_path / "ol2r_cli" / "loops" / "caller.py").write_text(CALLER)
    for value, cache in ((1, "kept"), (2, "kept"), (2, "empty"), (1, "kept")):
        (tmp_path / "ol2r_cli" / "loops" / "callee.py").write_text(CALLEE.format(value=value))
        found = output(tmp_path, tmp_path / cache, "-c", "import ol2r_cli.loops.caller")
        assert found == [str(value), "7"], f"{found[0]} in place of {value} with the cache {cache}"
    assert list((tmp_path / "kept").glob("*/caller.own-*.nbi")), "own functions are where numba keeps them"
    assert len(list((tmp_path / "kept").glob("*/ol2r-*"))) == 2, "a folder for each version"


def test_loops_compiled_by_other_processes_are_told_apart(tmp_path):
    """Loops that processes have compiled by themselves are told apart in one.

    The function that makes them is one, and so are their arguments and, in a fresh process, numba's number.
    """
    (tmp_path / "maker.py").write_text(MAKER)
    for words in (["one"], ["two"], ["one", "two"]):
        found = printed(tmp_path / "maker.py", "ol2r_cli.loops.maker", tmp_path / "kept", *words)
        assert found == [{"one": "1", "two": "2"}[word] for word in words]
    assert len(list((tmp_path / "kept").glob("*/launch.for_each_replica.*.nbi"))) == 2, "of both loops"


OWN_LOOP = """
from ol2r_cli.loops.compile import compiled, made_by

@compiled
def clicks(grade):
    return grade > {least}
"""
PLAYS = """
import importlib, sys
from pathlib import Path
from ol2r_cli.loops.launch import for_each_replica
import numpy as np
import own
from ol2r_cli.loops.workspace import Workspace

def played():
    found, grades = np.zeros(3), np.array([0.0, 1.0, 2.0])
    for_each_replica(own.write)(3, Workspace(np.zeros(0), np.zeros(2, np.int64)), (grades, found))
    return int(found.sum())

print(played())
if len(sys.argv) > 1:
    Path(own.__file__).write_text(Path(own.__file__).read_text().replace("> 0", "> 1"))
    importlib.reload(own)
    print(played())
"""


def test_a_loop_that_contains_one_of_others_is_compiled_anew(tmp_path):
    """After an edit in another process, after a reload in this one, and in another folder with a module of that name:
    what is on disk may be of another code."""
    write = "\n@compiled\ndef write(b, space, grades, found):\n    found[b] = clicks(grades[b])\n"
    for folder, least, words, expected in (
        ("one", 0, [], ["2"]),
        ("one", 1, [], ["1"]),
        ("other", 0, ["reload"], ["2", "1"]),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "own.py").write_text(OWN_LOOP.format(least=least) + write)
        os.utime(tmp_path / folder / "own.py", (1, 1))  # numba compares times, and a copy keeps its own
        shutil.rmtree(tmp_path / folder / "__pycache__", ignore_errors=True)  # as does Python, by times and sizes
        (tmp_path / folder / "plays.py").write_text(PLAYS)
        assert printed(tmp_path / folder / "plays.py", "__main__", tmp_path / "kept", *words) == expected, folder
    assert not list((tmp_path / "kept").rglob("*own*.nbi"))


DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "one byte changed": lambda content: content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
    "something else": lambda content: b"not of numba" * 9,
}


def successor_of_another_process() -> Any:
    """A loop of ol2r as another process has it."""

    def successor(x):
        return x + 1

    successor.__module__ = "ol2r_cli.loops.successor"
    return compiling.compiled(successor)


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_damaged_machine_code_is_compiled_and_written_again(tmp_path, kept_in, kind):
    """An index or machine code that is cut off, emptied or garbled, and what cannot be written."""
    kept_in(tmp_path)
    assert successor_of_another_process()(1) == 2
    (file,) = tmp_path.rglob(f"*.{kind}")
    whole = file.read_bytes()
    for name, damage in DAMAGES.items():
        file.write_bytes(damage(whole))
        for has_it in False, True:
            loop = successor_of_another_process()
            assert loop(1) == 2, name
            assert bool(loop.called_by_python.stats.cache_hits) == has_it, name
    file.unlink()
    file.mkdir()
    assert successor_of_another_process()(1) == 2


EARLIER = """
import sys
from importlib.machinery import SourceFileLoader

code_of = SourceFileLoader.get_code

def get_code(self, name):
    if name not in ("numba.core.codegen", "numba.core.typed_passes"):
        return code_of(self, name)
    return compile(self.get_data(self.path).replace(b"_reload_init", b"_reload_of_others"), self.path, "exec")

SourceFileLoader.get_code = get_code
"""
SMALL_LOOPS = """
import numpy as np
from ol2r_cli import loops
numbers, order = np.zeros(9), np.zeros(9, np.int64)
loops.random_numbers.uniform(7, 1, 2, numbers[:8])
loops.orders.ascending(numbers, order)
print(*numbers, *order, loops.slow_compilation())
"""


def test_a_numba_without_an_internal_compiles_as_it_does(tmp_path):
    """As versions before 0.63, which lack it: the numbers are the same."""
    assert loops.parts.lacking() == []
    expected = output(ROOT, tmp_path / "usual", "-c", SMALL_LOOPS)
    found = output(ROOT, tmp_path / "earlier", "-c", EARLIER + SMALL_LOOPS)
    said = ["numba", compiling.numba.__version__, "lacks", "CPUCodeLibrary._reload_init,"]
    assert (len(expected), found[: 18 + len(said)]) == (18, [*expected, *said])


@pytest.mark.slow
def test_a_run_with_such_a_numba_says_so_once(tmp_path):
    words = ["run", *TINY, "ranker=sgd_ranknet", "click=perfect", "rounds=20", "output_dir=out", "--json"]
    run = f"{EARLIER}from ol2r_cli import cli; sys.exit(cli.main({words}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("lacks CPUCodeLibrary._reload_init")) == (0, 1), done.stderr


@pytest.fixture
def not_kept(kept_in):
    kept_in("")


def test_a_loop_that_only_loops_call_is_no_machine_code(not_kept):
    """It is that of its caller alone, which is compiled once."""

    @compiling.compiled
    def next_to(x):
        return x + 1.0

    @compiling.compiled
    def twice_the_next(x):
        return 2 * next_to(x)

    assert twice_the_next(3.0) == 8.0

    def addresses(dispatcher):
        compiled_to = dispatcher.overloads.values()
        return [each.library.get_pointer_to_function(each.fndesc.llvm_func_name) for each in compiled_to]

    assert addresses(next_to.inner) == [0]
    assert all(addresses(twice_the_next.called_by_python))
    assert next_to(1.0) == 2.0


def test_a_part_is_compiled_once_for_all_constants(not_kept):
    @compiling.compiled
    def power(x, exponent):
        return x**exponent

    @compiling.compiled
    def sum_of_powers(x):
        return power(x, 2) + power(x, 3)

    assert sum_of_powers(2.0) == 4 + 8
    assert len(power.inner.overloads) == 1


def test_calls_of_lanes_are_constants_on_a_cpu(not_kept):
    @compiling.compiled
    def first_and_number_of_lanes():
        barrier()
        return lane() + 10 * lanes()

    assert first_and_number_of_lanes() == 10
    assert not any(loop.inner.overloads for loop in (barrier, lane, lanes))
