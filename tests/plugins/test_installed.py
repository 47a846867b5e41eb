"""Which plug-ins there are: those of others by an entry point, and what is said of one that cannot be used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = """
from ol2r_cli.plugins import Command, Plugin, Source

PLUGIN = Plugin(
    name="greetings",
    about="greetings",
    needs={needs!r},
    meant={{"salute": "ol2r hello"}},
    commands=[Command(name="hello", about="greets", module="greetings.hello"{more})],
)
"""
COMMAND = '''"""`ol2r hello`: greets."""

import argparse

from ol2r_cli.commands.command import argument, command


@command(argument("--loud", action="store_true", help="in capitals"))
def main(given: argparse.Namespace) -> None:
    print("HELLO" if given.loud else "hello")
'''


@pytest.fixture
def ol2r(tmp_path: Path):
    """Run `ol2r` where a package with a plug-in is installed, as pip leaves it."""
    site, package = tmp_path / "site", tmp_path / "site" / "greetings"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "hello.py").write_text(COMMAND)
    metadata = site / "greetings-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[ol2r.plugins]\ngreetings = greetings.plugin:PLUGIN\n")

    def run(plugin: str, *words: str) -> tuple[int, str, str]:
        (package / "plugin.py").write_text(plugin)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}
        command = [sys.executable, "-m", "ol2r_cli", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    return run


PART = """
import polars as pl

from ol2r_cli.plugins import Plugin, RunPart


def finish(runner, least):
    seeds, queries = runner.experiment.seeds, len(runner.experiment.dataset.splits["train"])
    rows = pl.DataFrame({"seed": seeds, "queries": [queries] * len(seeds)})
    runner.directory.write_parquet("tally.parquet", rows.filter(pl.col("queries") >= least))


PLUGIN = Plugin(
    name="greetings",
    about="how many queries were asked",
    run_parts=[
        RunPart(
            setting="tally",
            line="tally: 0  # queries of a seed from which on it is counted; 0: no tally",
            files=["tally.parquet"],
            prepare=lambda experiment: experiment.settings["tally"],
            finish=finish,
        )
    ],
)
"""


def plugin(needs: tuple[str, ...] = (), more: str = "") -> str:
    return PLUGIN.format(needs=needs, more=more)


def test_a_plugin_of_others_adds_a_command(ol2r):
    assert re.search(r"^  hello       greets$", ol2r(plugin(), "--help")[1], re.MULTILINE)
    assert ol2r(plugin(), "hello", "--loud") == (0, "HELLO\n", "")
    assert ol2r(plugin(), "hello", "--quiet")[2] == "ol2r hello: there is no option --quiet: see `ol2r hello --help`\n"
    assert ol2r(plugin(), "salute")[2] == "ol2r: no command 'salute': type ol2r hello\n"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("PLUGIN = None", "TypeError: it must name a Plugin, got NoneType"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (plugin(needs=("figures", "nothing")), "it needs the plug-in nothing"),
    ],
    ids=["cannot be imported", "no plug-in", "fails", "needs another"],
)
def test_a_plugin_that_cannot_be_used_ends_no_command(ol2r, broken, reason):
    """It is not in the help."""
    code, told, errors = ol2r(broken, "--help")
    assert (code, "hello" in told, errors) == (0, False, "")
    told = f"ol2r: no command 'greetings': its plug-in cannot be used ({reason})\n"
    assert ol2r(broken, "greetings") == (2, "", told)


def test_a_plugin_that_cannot_be_used_has_no_commands_and_a_note(ol2r):
    assert ol2r("import nowhere", "hello")[0] == 2
    code, told, errors = ol2r("import nowhere", "doctor")
    assert code == 0, errors
    assert "note: the plug-in greetings is left out: ModuleNotFoundError: No module named 'nowhere'" in told


def test_a_plugin_does_not_replace_a_command_of_the_core(ol2r):
    code, told, _ = ol2r(plugin().replace('name="hello"', 'name="list"'), "list", "ranker", "pairrank")
    assert code == 0
    assert "ranker=pairrank" in told


def test_packages_of_a_command_are_named_where_they_are_missing(ol2r):
    words = plugin(more=', packages={"nowhere": "greetings"}')
    assert ol2r(words, "hello") == (2, "", "ol2r hello: needs nowhere: type pip install 'ol2r[greetings]'\n")


def test_a_plugin_adds_a_setting_and_a_table_to_runs(ol2r, tmp_path):
    """A run without it is as it was: the same id and files."""
    small = ["dataset.queries={train: 12, validation: 4, test: 4}", "rounds=40", "output_dir=out", "ranker=random"]
    assert re.search(r"^ *tally +0 +queries of a seed", ol2r(PART, "list", "run")[1], re.MULTILINE)
    for plugin_there, words in (
        (PART, []),
        ("PLUGIN = None", []),
        (PART, ["tally=2"]),
        (PART, ["tally=2", "++note=x"]),
    ):
        code, _, errors = ol2r(plugin_there, "run", *small, *words)
        assert code == 0, errors
    runs = sorted((tmp_path / "out" / "synthetic").iterdir(), key=lambda path: (path / "tally.parquet").exists())
    assert [(path / "tally.parquet").exists() for path in runs] == [False, True]
    assert pl.read_parquet(runs[1] / "tally.parquet")["queries"].item() == 12
    assert "tally.parquet" in json.loads((runs[1] / "run.json").read_text())["files"]
    assert ol2r(PART, "verify", "out")[0] == 0
    assert "there is no setting or group 'tally'" in ol2r("PLUGIN = None", "run", *small, "tally=2")[2]


@pytest.mark.slow
def test_the_plugin_of_the_template_can_be_installed(tmp_path):
    """Its package is built as pip does it, into a folder of its own."""
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path / "site")])}

    def python(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=paths, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    written = python("-m", "ol2r_cli", "new", "plugin", "sizes")
    assert written.count("written: ol2r-sizes/") == 10
    words = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", "site")
    python("-m", "pip", "install", *words, "./ol2r-sizes")
    assert re.search(r"^plug-ins .*, sizes", python("-m", "ol2r_cli", "doctor"), re.MULTILINE)
    assert "3 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", "ol2r-sizes")
