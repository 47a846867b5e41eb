"""A run with files of any content ends, hangs or silences no command that reads all runs: it is called unreadable."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.report.results_file import results_frame
from ol2r_cli.report.run_groups import collect
from ol2r_cli.run.run import Run, find_runs
from tests.fuzzing import BRACKETS, alias_bomb, mutated_json, mutated_table, mutated_yaml
from tests.manifests import accept_changes

LIMIT = 20  # seconds for all commands on one folder
TABLES = ("trace.parquet", "evaluation.parquet", "interactions.parquet")
SMALL = ["dataset.queries={train: 6, validation: 2, test: 2}", "dataset.documents=6", "dataset.features=5", "rounds=6"]


class Hang(BaseException):
    """The commands took longer than LIMIT."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A finished run to be spoilt, and a sound one."""
    root = tmp_path_factory.mktemp("runs")
    words = [*SMALL, "replicas=2", "measures=[ndcg,dcg@5]", "save_interactions=true", f"output_dir={root}"]
    for ranker in "pairrank", "pdgd":
        assert cli.main(["run", *words, f"ranker={ranker}"]) == 0
    first, second = find_runs(root)
    return first, second


@pytest.fixture
def case(bases, tmp_path, capsys) -> Iterator[Callable[[Callable[[Path], object]], None]]:
    """Spoils a copy of the run, and runs the commands on it and the sound run beside it, in limited time."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Hang

    def run(spoil: Callable[[Path], object]) -> None:
        folder = tmp_path / "runs"
        spoilt, sound = folder / f"spoilt-{bases[0].name}", folder / f"sound-{bases[1].name}"
        for source, target in zip(bases, (spoilt, sound), strict=True):
            shutil.copytree(source, target)
        spoil(spoilt)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        try:
            check(folder, spoilt, sound, capsys)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            shutil.rmtree(folder)

    before = signal.signal(signal.SIGALRM, late)
    yield run
    signal.signal(signal.SIGALRM, before)


def check(folder: Path, spoilt: Path, sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command ends with one of its exit codes, and has what it has to say of the sound run."""

    def out(*words: str | Path, codes: tuple[int, ...] = (0,)) -> str:
        capsys.readouterr()
        code = cli.main([*map(str, words)])
        captured = capsys.readouterr()
        assert code in codes, (words, captured.err)
        assert code != 2 or captured.err.count("\n") == 1, captured.err
        return captured.out.encode().decode()

    assert re.search("^finished +sound-", out("status", folder), re.MULTILINE)
    assert f"{sound}" in [run["path"] for run in json.loads(out("status", folder, "--json"))]
    assert "pdgd" in out("report", folder)
    assert "pdgd" in out("status", folder, "ranker=pdgd")
    assert "finished run" in out("verify", folder, codes=(0, 1))
    out("diff", spoilt, sound, codes=(0, 2))
    assert "finished runs" in out("clean", folder)


def spoiling(file: str, mutate: Callable[[bytes, random.Random], bytes], seed: int) -> Callable[[Path], None]:
    """Changes one file of a run; of every second run, the change is accepted, as whoever makes it can do."""

    def spoil(path: Path) -> None:
        dice = random.Random(f"{file} {seed}")
        manifest = json.loads((path / "run.json").read_bytes())
        manifest["checksum"] = ""
        if dice.random() < 0.5:
            manifest["status"] = dice.choice(["running", "interrupted", "failed"])
        (path / "run.json").write_text(json.dumps(manifest))
        (path / file).write_bytes(mutate((path / file).read_bytes(), dice))
        if file != "run.json" and dice.random() < 0.9:
            accept_changes(path)

    return spoil


MUTATIONS = [  # the file, what changes it, how many cases, and of how many one is tried when time is short
    ("run.json", mutated_json, 600, 15),
    ("config.yaml", mutated_yaml, 600, 15),
    ("summary.json", mutated_json, 120, 12),
    *((name, mutated_table, 40, 10) for name in TABLES),
]
CASES = [
    *(pytest.param(file, mutate, range(0, count, step), id=file) for file, mutate, count, step in MUTATIONS),
    *(
        pytest.param(file, mutate, range(count), id=f"all {file}", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])
        for file, mutate, count, _ in MUTATIONS
    ),
]


@pytest.mark.parametrize(("file", "mutate", "seeds"), CASES)
def test_a_file_with_odd_content(file, mutate, seeds, case):
    for seed in seeds:
        case(spoiling(file, mutate, seed))


SPECIAL: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a link to /dev/zero": lambda file: file.symlink_to("/dev/zero"),
    "a link to itself": lambda file: file.symlink_to(file),
    "a folder": Path.mkdir,
    "brackets": lambda file: file.write_text("[" * BRACKETS),
    "braces": lambda file: file.write_text('{"a":' * BRACKETS),
    "dashes": lambda file: file.write_text("- " * BRACKETS),
    "an alias bomb": lambda file: file.write_bytes(alias_bomb()),
    "a bomb of merged aliases": lambda file: file.write_bytes(alias_bomb(merged=True)),
    "a terabyte": lambda file: (file.touch(), os.truncate(file, 2**40)),
}


@pytest.mark.parametrize("file", ["run.json", "config.yaml", "summary.json", "trace.parquet", ".lock"])
def test_a_file_that_is_none_or_too_much(file: str, case):
    """Also in a run that says it is running, whose lock is read, and in one without hashes."""

    def spoil(path: Path) -> None:
        manifest = json.loads((path / "run.json").read_bytes())
        changes = {"status": "running" if file == ".lock" else "finished", "files": {}, "checksum": None}
        (path / "run.json").write_text(json.dumps(manifest | changes))
        (path / file).unlink(missing_ok=True)
        SPECIAL[what](path / file)

    for what in SPECIAL:
        if (file, what) != ("trace.parquet", "a terabyte"):  # tables are read as a whole, however large
            case(spoil)


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(bases, tmp_path, capsys):
    shutil.copytree(bases[0], tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "run.json").read_bytes())
    for change, reason in (
        ({"seconds": "x", "git": []}, "run.json has no valid seconds, git"),
        ({"note": "\ud800"}, "surrogates not allowed"),
        ({"seconds": float("nan")}, "nan"),
        ({"seeds": []}, "no valid seeds"),
        ({"files": {"ranker.pt": {"bytes": 1}}}, "no valid files"),
        ({"more": json.loads("[" * 50 + "]" * 50)}, "more than 40 levels"),
    ):
        (tmp_path / "run" / "run.json").write_text(json.dumps(manifest | change))
        state = Run.read(tmp_path / "run")
        assert (state.state, state.manifest) == ("unreadable", {})
        assert reason in state.error
        assert cli.main(["status", str(tmp_path)]) == 0
        assert reason in capsys.readouterr().out


def test_published_results_with_odd_content_are_refused_in_one_line(bases, tmp_path, capsys):
    """120 of them; as many as can be read are shown."""
    sound = results_frame(collect([path.parent for path in bases]).runs)
    sound.write_parquet(tmp_path / "sound.parquet")
    content, codes = (tmp_path / "sound.parquet").read_bytes(), []
    for seed in range(120):
        (tmp_path / "odd.parquet").write_bytes(mutated_table(content, random.Random(seed)))
        for words in (["report", tmp_path / "odd.parquet"], ["report", tmp_path]):
            codes.append(cli.main([*map(str, words)]))
            captured = capsys.readouterr()
            assert codes[-1] in (0, 2)
            assert codes[-1] == 0 or captured.err.count("\n") == 1, (seed, captured.err)
    assert {*codes} == {0, 2}


def test_a_ranker_of_another_form_is_damaged(bases, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(bases[0], run)
    content = torch.load(run / "ranker.pt", weights_only=True)
    (tmp_path / "file.txt").write_text("0 qid:1 1:0.5 2:1 3:0 4:0 5:1\n")
    weights = content["deployed"]
    for form, deployed in {
        "sparse": weights.to_sparse(),
        "complex": weights.to(torch.complex64),
        "other width": weights[:, :-1].clone(),
        "fewer seeds": weights[:1].clone(),
        "integers": weights.long(),
        "flat": weights.flatten(),
        "a list": weights.tolist(),
    }.items():
        torch.save({**content, "deployed": deployed}, run / "ranker.pt")
        accept_changes(run)
        capsys.readouterr()
        assert cli.main(["score", str(run), str(tmp_path / "file.txt")]) == 2, form
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert f"{run}/ranker.pt is damaged (" in error, form
