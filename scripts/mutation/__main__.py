"""Measures what the tests protect: makes small changes to the code, one at a time, and counts how many a test notices.

    make mutation                                             # all areas, two workers
    .venv/bin/python scripts/mutation --only rankers       # one area
    .venv/bin/python scripts/mutation --table              # only the table of what has been done so far

Everything is written to --out; an interrupted campaign goes on with the same command, as long as code and tests stay.
A larger --budget asks again about those that survived.

1. A copy of the repository per worker; nothing is ever changed in the repository itself.
2. Coverage: each test file runs once, unchanged, in a process of its own: which test executes which line, and how long
   it takes. A test that fails here, and again without coverage, is asked nothing.
3. Mutants: per area, candidates are sorted by a hash of function, line and change, so that code which moves to another
   file keeps its mutants; the first are taken, at most one per line.
4. Each mutant runs in a process forked from one that has torch and pytest imported, with tests that execute its line,
   cheapest first, spread over test files and functions, up to --budget seconds of expected time.
5. Control: tests that noticed something run again, unchanged; one that fails is asked nothing from then on, and what
   it noticed is tried again by the next call.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from line_index import Index
from mutants import Mutant, draw
from pytest_runs import pool, run

# Area: the files to break, and the tests to ask first; of lines that no test is seen to execute only these are asked.
AREAS = {
    "rankers": {"code": ["ol2r_cli/ranker/**"], "tests": ["tests/ranker/**", "tests/test_contracts.py"]},
    "explorations": {"code": ["ol2r_cli/exploration/**"], "tests": ["tests/exploration/**", "tests/test_contracts.py"]},
    "learning": {"code": ["ol2r_cli/learning/**"], "tests": ["tests/learning/**", "tests/ranker/**"]},
    "fairness": {
        "code": ["ol2r_cli/fairness/**", "ol2r_cli/metrics/exposure.py"],
        "tests": ["tests/fairness/**", "tests/metrics/test_exposure.py"],
    },
    "metrics": {
        "code": [f"ol2r_cli/metrics/{name}.py" for name in ("ranking", "measurement", "evaluation")],
        "tests": ["tests/metrics/**"],
    },
    "run files": {
        "code": ["ol2r_cli/run/**"],
        "tests": ["tests/run/**", "tests/test_resume.py", "tests/test_extend.py"],
    },
    "configuration": {"code": ["ol2r_cli/config/**"], "tests": ["tests/config/**", "tests/test_simulation.py"]},
    "sweeps": {
        "code": ["ol2r_cli/sweep/**", "ol2r_cli/launcher/[pj]*.py", "ol2r_cli/commands/run.py"],
        "tests": ["tests/sweep/**", "tests/launcher/**", "tests/commands/test_run.py", "tests/test_cli.py"],
    },
}

PRELOADED = ["torch", "numpy", "scipy.optimize", "hydra", "omegaconf", "polars", "hypothesis", "jaxtyping", "beartype"]
NOT_COPIED = {".git", ".venv", "outputs", "dist", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis"}


def refresh(root: Path, tree: Path) -> None:
    """Make a copy equal to the repository; files that are equal keep their times, hence what is compiled of them."""
    wanted: set[Path] = set()
    for folder, folders, files in os.walk(root):
        folders[:] = set(folders) - NOT_COPIED
        for source in (Path(folder, name) for name in files):
            target = tree / source.relative_to(root)
            wanted.add(target)
            if not target.is_file() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    for path in tree.rglob("*"):
        if path.is_file() and path not in wanted and path.suffix != ".pyc":
            path.unlink()


def fingerprint(root: Path) -> str:
    """Of code, configs and tests."""
    told = hashlib.sha1()
    for path in sorted(path for top in ("ol2r_cli", "configs", "tests") for path in (root / top).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            told.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return told.hexdigest()[:12]


def measure(tree: Path, task: tuple[str, float]) -> dict[str, Any]:
    """Run a test file under coverage; what fails runs again without."""
    file, patience = task
    told = run(tree, [file, "-m", "not slow and not gpu and not slurm"], 30 * patience + 60, patience=patience)
    failed = sorted({id for id in told["failed"] if "::" in id})
    return told | {"failed": run(tree, [file], 600, only=failed)["failed"] if failed else []}


@contextmanager
def broken(tree: Path, mutant: Mutant) -> Iterator[None]:
    """A copy with the change made, and nothing compiled of the file."""
    file, text = tree / mutant.file, mutant.made(tree)
    original, times = file.read_bytes(), file.stat()
    compiled = {path: path.read_bytes() for path in file.parent.glob(f"__pycache__/{file.stem}.*.pyc")}
    for path in compiled:
        path.unlink()
    file.write_bytes(text)
    try:
        yield
    finally:
        file.write_bytes(original)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        for path, code in compiled.items():
            path.write_bytes(code)


def attempt(tree: Path, task: tuple[Mutant, list[str], float, float]) -> dict[str, Any]:
    """What becomes of a mutant."""
    mutant, ids, expected, budget = task
    files = list(dict.fromkeys(id.partition("::")[0] for id in ids))
    told = asdict(mutant) | {"asked": len(ids), "files": files, "budget": budget}
    told |= {"status": "no tests", "seconds": 0, "by": ""}
    if not ids:
        return told
    for file in files:  # each in a process of its own, as in step 2
        with broken(tree, mutant):
            ran = run(tree, [file, "-x"], max(60, 6 * expected), only=ids)
        told["seconds"] = round(told["seconds"] + ran["seconds"], 1)
        told["status"] = {0: "survived", None: "timeout", 5: "no tests", 70: "error"}.get(ran["code"], "killed")
        if told["status"] != "survived":
            by = [*ran["failed"], f"exit code {ran['code']}"][0] if told["status"] == "killed" else ""
            return told | {"by": by, "output": ran["output"] if not by else ""}
    return told


def control(tree: Path, ids: list[str]) -> set[str]:
    """Which of these tests of one file fail in a copy that is not broken."""
    ran = run(tree, [ids[0].partition("::")[0]], 1800, only=ids)
    return set(ran["failed"]) if "tests" in ran else set(ids)


def campaign(given: argparse.Namespace, mutants: list[Mutant], areas: dict[str, Any], code: str) -> None:
    """Ask the tests about every mutant that has no result yet, then see that the tests that noticed are sound."""
    trees = [given.out / f"copy-{number}" for number in range(1, given.workers + 1)]
    for tree in trees:
        refresh(given.root, tree)
    for name in PRELOADED:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)
    folder, store = given.out / f"coverage-{code}", given.out / "results.jsonl"
    folder.mkdir(exist_ok=True)
    files = sorted(str(path.relative_to(given.root)) for path in (given.root / "tests").rglob("test_*.py"))
    stored = {file: folder / (file.replace("/", "+") + ".json") for file in files}
    missing = [(file, given.patience) for file in files if not stored[file].exists()]
    for number, ((file, _), told) in enumerate(pool(trees, measure, missing), 1):
        stored[file].write_text(json.dumps(told))
        counts = (
            f"{len(told.get('tests', []))} ran, {len(told.get('left', []))} left, failed: {told['failed'] or 'none'}"
        )
        trouble = "" if "lines" in told else f", NOT MEASURED: exit code {told['code']}, {told['output'][-300:]}"
        print(f"coverage {number}/{len(missing)} {told['seconds']} s {file}: {counts}{trouble}", flush=True)
    done, unsound = results(store, code)
    index = Index({file: json.loads(path.read_text()) for file, path in stored.items()}, unsound)
    done = {id for id, told in done.items() if told["status"] != "survived" or told["budget"] >= given.budget}
    chosen = {m: index.choose(m, areas[m.area]["tests"], given.budget) for m in mutants if m.id not in done}
    tasks = [(mutant, *those, given.budget) for mutant, those in chosen.items()]
    with store.open("a") as log:
        for number, ((mutant, *_), told) in enumerate(pool(trees, attempt, tasks), 1):
            print(json.dumps(told | {"code": code}), file=log, flush=True)
            progress = f"{number}/{len(tasks)} {told['status']} {told['seconds']} s, {told['asked']} tests"
            print(f"{progress}: {mutant.file}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
        noticed: dict[str, set[str]] = defaultdict(set)  # test file -> tests
        for told in results(store, code)[0].values():
            if "::" in told["by"]:
                noticed[told["by"].partition("::")[0]].add(told["by"])
        unsound = {id for _, failed in pool(trees, control, [sorted(ids) for ids in noticed.values()]) for id in failed}
        print(json.dumps({"unsound": sorted(unsound), "code": code}), file=log)
    print(f"control: tests that noticed something, but fail without any change: {sorted(unsound) or 'none'}")


def results(store: Path, code: str) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """The last result of every mutant of this code, and the tests that turned out to be unsound."""
    every = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    unsound = {id for told in every if told["code"] == code for id in told.get("unsound", [])}
    done = {told["id"]: told for told in every if told["code"] == code and "id" in told}
    return {id: told for id, told in done.items() if told["by"] not in unsound}, unsound


def table(done: list[dict[str, Any]], equivalent: list[dict[str, str]], areas: dict[str, Any]) -> str:
    """Markdown: what became of the mutants, by area."""
    same = {
        (entry["line"], entry["replacement"], entry[place]) for entry in equivalent for place in ("file", "function")
    }
    counts: dict[str, Counter[str]] = {area: Counter() for area in areas}
    for told in done:
        alike = same & {(told["before"], told["after"], told[place]) for place in ("file", "function")}
        counts[told["area"]]["equivalent" if alike and told["status"] == "survived" else told["status"]] += 1
    counts["all"] = sum(counts.values(), Counter())
    columns = ["killed", "timeout", "survived", "equivalent", "no tests", "error"]
    lines = [f"| area | mutants | {' | '.join(columns)} | share killed |", "|---|" + "---:|" * (len(columns) + 2)]
    for area, count in counts.items():
        share = (count["killed"] + count["timeout"]) / max(count.total() - count["equivalent"], 1)
        lines.append(f"| {area} | {count.total()} | {' | '.join(str(count[c]) for c in columns)} | {share:.1%} |")
    return "\n".join(lines)


def main() -> int:
    """Exit code 0 when all is done, however much the tests notice; 2 for a wrong option."""
    first, rest = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=Path, default=root, help="the repository (default: the one of this script)")
    parser.add_argument("--out", type=Path, help="folder of copies and results (default: outputs/mutation there)")
    parser.add_argument("--areas", type=Path, help='JSON file instead of AREAS: {AREA: {"code": [..], "tests": [..]}}')
    parser.add_argument("--only", metavar="AREA", help="only this area")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another sample (default: 1)")
    parser.add_argument("--mutants", type=int, default=35, help="mutants per area (default: 35)")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--budget", type=float, default=90, help="seconds of tests per mutant (default: 90)")
    parser.add_argument("--patience", type=float, default=15, help="coverage: seconds per test function (default: 15)")
    told = "JSON list of mutants that change nothing, judged by hand: {file, function, line, replacement, reason}"
    parser.add_argument("--equivalent", type=Path, help=told)
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--table", action="store_true", help="only the table of what has been done so far")
    given = parser.parse_args()
    given.root = given.root.resolve()
    given.out = (given.out or given.root / "outputs" / "mutation").resolve()
    areas = json.loads(given.areas.read_text()) if given.areas else AREAS
    if given.only and given.only not in areas:
        parser.error(f"--only must be one of {', '.join(areas)}, got {given.only}")
    areas = {area: globs for area, globs in areas.items() if given.only in (None, area)}
    mutants = draw(given.root, areas, given.seed, given.mutants)
    if given.list:
        for mutant in mutants:
            print(f"{mutant.id} {mutant.area}: {mutant.file}:{mutant.line}: {mutant.before}  ->  {mutant.after}")
        return 0
    given.out.mkdir(parents=True, exist_ok=True)
    code = fingerprint(given.root)
    if not given.table:
        campaign(given, mutants, areas, code)
    done, _ = results(given.out / "results.jsonl", code)
    equivalent = json.loads(given.equivalent.read_text()) if given.equivalent else []
    print(table([done[mutant.id] for mutant in mutants if mutant.id in done], equivalent, areas))
    return 0


if __name__ == "__main__":
    sys.exit(main())
