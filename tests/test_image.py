"""What a reviewer installs: requirements.lock has what pyproject.toml asks for, and the image what its steps need."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
IN_THE_LOCK = re.compile(
    r"^(?P<pin>[a-z0-9].*?) \\\n(?P<hashes>(?:    --hash=.*\n)+)    # via (?P<via>.*)$", re.MULTILINE
)
TORCH = "torch"  # its build is chosen for each machine


def pins(python: str) -> dict[str, Version]:
    """The versions of the lock by name, on Linux with this Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    found = [Requirement(entry["pin"]) for entry in IN_THE_LOCK.finditer(LOCK)]
    here = [pin for pin in found if pin.marker is None or pin.marker.evaluate(environment)]
    assert len({pin.name for pin in here}) == len(here), "one version of each"
    return {pin.name: Version(str(pin.specifier).removeprefix("==")) for pin in here}


def asked() -> list[Requirement]:
    """What ol2r and its development tools depend on."""
    return [Requirement(text) for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_a_version_of_all_that_pyproject_allows(python):
    """After a change of dependencies, `make lock` makes it true again."""
    locked = pins(python)
    constraints = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    wrong = [
        f"{wanted}, locked {locked.get(wanted.name)}"
        for wanted in asked() + [each for each in constraints if each.name in locked]
        if wanted.name != TORCH and (wanted.name not in locked or locked[wanted.name] not in wanted.specifier)
    ]
    assert wrong == []


def test_the_lock_has_nothing_that_nobody_asks_for():
    via = {Requirement(entry["pin"]).name: set(entry["via"].split(", ")) for entry in IN_THE_LOCK.finditer(LOCK)}
    project = f"{PROJECT['name']} (pyproject.toml)"
    assert {name for name, whom in via.items() if project in whom} == {each.name for each in asked()} - {TORCH}
    assert {whom for each in via.values() for whom in each} <= {*via, project, "-c constraints.txt"}
    assert [name for name in via if re.match(r"torch|triton|nvidia|cuda", name)] == [], "gigabytes, of torch's build"


def test_each_file_of_the_lock_has_a_hash_and_no_address():
    entries = list(IN_THE_LOCK.finditer(LOCK))
    left = IN_THE_LOCK.sub("", LOCK).split("\n")
    assert [line for line in left if line and not line.startswith("#")] == []
    hashes = [line.strip(" \\") for entry in entries for line in entry["hashes"].splitlines()]
    assert [each for each in hashes if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each)] == []
    assert "://" not in LOCK


def instructions(name: str) -> list[str]:
    """The commands of the instructions of the Dockerfile that have this name."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    return [line.partition(" ")[2] for line in lines.splitlines() if line.startswith(f"{name} ")]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_the_image_sets_up_with_targets_and_files_that_are_there():
    steps = [shlex.split(step) for line in instructions("RUN") for step in line.split(" && ")]
    targets = [step[1:] for step in [*steps, *map(json.loads, instructions("CMD"))] if step[0] == "make"]
    assert targets == [["setup-locked"], ["run"]]
    for words in targets:
        done = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    (torch,) = (step for step in steps if "--torch-backend" in step)
    assert torch[-3:] == ["--constraint", "constraints.txt", TORCH]
    assert (ROOT / "constraints.txt").exists()


def test_the_image_leaves_out_what_git_does():
    """A virtual environment of the host would hide that of the image."""
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert [line.removeprefix("**/") for line in ignored] == (ROOT / ".gitignore").read_text().splitlines()


def test_the_development_container_is_the_image():
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    folder = ROOT / ".devcontainer"
    assert (folder / settings["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / settings["build"]["context"]).resolve() == ROOT
    (working,) = instructions("WORKDIR")
    assert f"{working}/.venv .venv " in settings["postCreateCommand"]
