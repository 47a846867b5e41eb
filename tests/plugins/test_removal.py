"""Every plug-in can be deleted: a copy without its files works, and says nothing of it but that it is not there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from ol2r_cli.plugins import Plugin, installed, plugins
from ol2r_cli.text.program import core_commands
from tests.conftest import plugins_of

ROOT = Path(__file__).parents[2]
COPIED = ("ol2r_cli", "configs")
COMMANDS = """
from importlib import import_module
from pathlib import Path

import ol2r_cli
from ol2r_cli import cli
from ol2r_cli.plugins import installed

here = Path(ol2r_cli.__file__).parents[1]
assert here == Path.cwd(), here
left_out = tuple(f"ol2r_cli.plugins.{name}." for name in installed().left_out)
for path in sorted(here.glob("ol2r_cli/**/*.py")):
    module = ".".join(path.relative_to(here).with_suffix("").parts).removesuffix(".__init__")
    if path.stem != "__main__" and not module.startswith(left_out) and module not in OUTSIDE:
        import_module(module)
for words in (
    "--help",
    "list",
    "list ranker",
    "list ranker RANKER",
    "data info dataset=synthetic",
    "run ranker=random rounds=20 output_dir=out",
    "run -m ranker=random,pdgd rounds=20 output_dir=out",
    "status out",
    "report out --baseline random --out report.csv",
    "report --help",
):
    try:
        code = cli.main(words.split())
    except SystemExit as end:
        code = end.code or 0
    assert code == 0, words
"""


def without(files: Iterable[str], folder: Path) -> None:
    """Copy the package and the YAML files into a folder, but for files and folders, patterns below the repository."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    own = [name for name in files if name.startswith(COPIED)]
    for path in [path for pattern in own for path in folder.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def depending_on(name: str) -> set[str]:
    """A plug-in, and those that need it."""
    found = {name}
    while more := {each.name for each in plugins() if found & {*each.needs}} - found:
        found |= more
    return found


def used(folder: Path, outside: Collection[str] = (), ranker: str = "pairrank") -> str:
    """Import all modules of a copy but those that are outside, use ten commands, and return what they say."""
    done = run(folder, COMMANDS.replace("OUTSIDE", repr(outside)).replace("RANKER", ranker))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(folder), "COLUMNS": "120", "NUMBA_CACHE_DIR": str(folder.with_name("machine_code"))}
    environment = {**os.environ, **own}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


def test_all_plugins_can_be_used_here():
    assert installed().left_out == {}
    assert {path.parent.name for path in (ROOT / "ol2r_cli" / "plugins").glob("*/plugin.py")} == set(
        installed().plugins
    )


def test_what_belongs_to_a_plugin_is_there():
    """Patterns of files that are renamed would leave them behind. Its folder and its tests have its name."""
    missing = [f"{plugin.name}: {name}" for plugin in plugins() for name in plugin.files if not [*ROOT.glob(name)]]
    assert missing == []
    assert [
        plugin.name for plugin in plugins() if not [*(ROOT / "tests/plugins" / plugin.name).glob("test_*.py")]
    ] == []


@pytest.mark.parametrize("plugin", plugins(), ids=lambda plugin: plugin.name)
def test_choices_that_need_a_plugin_belong_to_it(plugin: Plugin):
    """By a class of it, or by a launcher of it that they bring."""
    found = [path for name in plugin.files for path in ROOT.glob(name)]
    own = {file for path in found for file in (path.rglob("*.yaml") if path.is_dir() else [path])}
    launchers = [path.stem for path in own if path.parent.name == "launcher"]
    needs = [rf"_target_: ol2r_cli\.plugins\.{plugin.name}\.", *(rf"^  - {name}$" for name in launchers)]
    text = {path: path.read_text() for path in ROOT.glob("configs/**/*.yaml") if path not in own}
    assert [path for path in text if any(re.search(need, text[path], re.MULTILINE) for need in needs)] == []


def test_tests_are_left_out_that_use_a_deleted_plugin():
    """Of the core, by what they import, also by way of other files of tests; those of a plug-in go with it."""
    assert plugins_of(ROOT / "tests/commands/test_foreign_runs.py") == {"page", "figures"}
    assert plugins_of(ROOT / "tests/report/test_comparison.py") == {"figures"}, "by tests/report/runs.py"
    assert plugins_of(ROOT / "tests/test_core.py") == set()


@pytest.mark.slow
@pytest.mark.parametrize("plugin", plugins(), ids=lambda plugin: plugin.name)
def test_a_copy_without_it_works(plugin: Plugin, copy: Path):
    without([f"ol2r_cli/plugins/{plugin.name}", *plugin.files], copy)
    gone = depending_on(plugin.name)
    outside = [
        file.removesuffix(".py").replace("/", ".")
        for other in plugins()
        if other.name in gone
        for file in other.files
        if file.endswith(".py") and file.startswith("ol2r_cli/")
    ]
    said = used(copy, outside)
    commands = [command.name for other in plugins() if other.name in gone for command in other.commands]
    assert [name for name in commands if re.search(rf"\bol2r {name}\b|^  {name} ", said, re.MULTILINE)] == []
    for name in {name.split()[0] for name in commands} - {*core_commands()}:
        answer = run(copy, f"from ol2r_cli import cli; raise SystemExit(cli.main([{name!r}]))")
        assert answer.returncode == 2
        assert re.fullmatch(rf"ol2r: no command '{name}'.*\n", answer.stderr)
