"""Workflows of GitHub: they are pinned, test what is promised, need the address to publish, and do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from ol2r_cli import __version__
from scripts import versions

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PUBLISHING = ["pages", "publish"]
STARTED_BY = True  # YAML reads the key `on` as this
HERE = "needs.address.outputs.is_here == 'true'"
SERVER, NAME = "https://github.com", "learners/ol2r"


def step(workflow: str, job: str, **having: str) -> dict[str, Any]:
    """The one step of a job with these values."""
    steps = WORKFLOWS[workflow]["jobs"][job]["steps"]
    (found,) = (step for step in steps if having.items() <= step.items())
    return found


def played(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a step does on a machine of GitHub, whose shell ends at the first command that fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_"))}
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=kept | {"RUNNER_TEMP": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_of_others_are_pinned_to_a_commit(name):
    text = (FOLDER / f"{name}.yml").read_text()
    assert re.findall(r"uses: (?!\./|\S+@[0-9a-f]{40}  # v\d)(.*)", text) == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_only_unless_a_job_says_more(name):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    more = {job: given["permissions"] for job, given in WORKFLOWS[name]["jobs"].items() if "permissions" in given}
    expected = {"publish": {"publish": {"id-token": "write"}}, "pages": {"publish": {"contents": "write"}}}
    assert more == expected.get(name, {})


def test_every_python_that_is_promised_is_tested():
    tested = WORKFLOWS["ci"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if text.startswith("Programming Language ::")]
    assert tested == [version for version in named if "." in version]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    assert f"Python {tested[0]} to {tested[-1]}" in (ROOT / "docs/how-to/install.md").read_text()


def lower_bounds(*extras: str) -> dict[str, str]:
    """The lower bound of each package of some extras."""
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    required = [Requirement(line) for line in lines]
    return {each.name: str(spec) for each in required for spec in each.specifier if spec.operator == ">="}


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_the_lower_bounds_of_every_extra_are_tested(extra):
    """As those of the two extras of which the lowest versions are installed."""
    installing = next(
        step for step in WORKFLOWS["ci"]["jobs"]["lowest"]["steps"] if "--editable" in step.get("run", "")
    )
    assert "--resolution lowest-direct" in installing["run"]
    assert installing["run"].endswith(" '.[dev,xgboost]'")
    assert lower_bounds(extra).items() <= lower_bounds("dev", "xgboost").items()


@pytest.mark.parametrize("name", PUBLISHING)
def test_every_job_waits_for_the_address(name):
    jobs = dict(WORKFLOWS[name]["jobs"])
    assert jobs.pop("address") == {"uses": "./.github/workflows/address.yml"}
    for job in jobs.values():
        assert "address" in job["needs"]
        assert job["if"].split(" && ")[0] == HERE
        assert "||" not in job["if"]


@pytest.mark.parametrize(
    ("address", "repository", "is_here"),
    [
        ("", NAME, "false"),
        (f"{SERVER}/{NAME}", NAME, "true"),
        (f"{SERVER}/{NAME}", "somebody/ol2r", "false"),
        ("", "", "false"),
    ],
)
def test_only_the_repository_whose_address_is_set_publishes(tmp_path, address, repository, is_here):
    settings = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(
        re.sub(r'^repository = ".*"', f'repository = "{address}"', settings, flags=re.MULTILINE)
    )
    script = step("address", "compare", id="compare")["run"]
    output = tmp_path / "output"
    done = played(script, tmp_path, GITHUB_OUTPUT=str(output), GITHUB_SERVER_URL=SERVER, GITHUB_REPOSITORY=repository)
    assert done.returncode == 0, done.stderr
    assert output.read_text() == f"is_here={is_here}\n"


def test_a_package_is_uploaded_for_a_tag_without_a_password():
    workflow = WORKFLOWS["publish"]
    assert workflow[STARTED_BY] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}
    assert workflow["jobs"]["publish"]["if"] == f"{HERE} && github.ref_type == 'tag'"
    assert workflow["jobs"]["publish"]["environment"] == "pypi"
    assert "secrets." not in (FOLDER / "publish.yml").read_text()


@pytest.mark.parametrize(
    ("tag", "heading", "message"),
    [
        (f"v{__version__}", f"## {__version__} (2026-11-28)", ""),
        ("v9.9.9", f"## {__version__} (2026-11-28)", f"must be v{__version__}, got v9.9.9"),
        (f"v{__version__}", "## [Unreleased]", f"must have a heading '## {__version__} (DATE)'"),
    ],
)
def test_a_tag_is_the_version_and_stands_in_changelog(tmp_path, tag, heading, message):
    pytest.importorskip("hatchling")
    (tmp_path / "ol2r_cli").mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "ol2r_cli/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    script = step("publish", "build", name="The tag is the version, and CHANGELOG has it")["run"]
    done = played(script, tmp_path, GITHUB_REF_NAME=tag)
    assert (done.returncode == 0, message in done.stdout) == (message == "", True), done.stderr


def test_each_version_of_the_site_stays_on_its_branch(tmp_path):
    """What the step pushes is one commit with the sites of all pushes, the last of a version."""
    environment = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*words: str, folder: Path = tmp_path / "clone") -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    git("init", "--quiet", "--bare", "origin", folder=tmp_path)
    git("clone", "--quiet", "origin", "clone", folder=tmp_path)
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "versions.py", clone / "scripts")
    git("add", "--all")
    git("commit", "--quiet", "--message=sources")
    script = step("pages", "publish", name="Put the site among those of other versions")["run"]
    for number, (kind, name) in enumerate([("branch", "main"), ("tag", "v0.3.0"), ("branch", "main")]):
        site = clone / "dist" / "site"
        shutil.rmtree(site, ignore_errors=True)
        site.mkdir(parents=True)
        (site / "index.html").write_text(f"push {number}")
        done = played(script, clone, GITHUB_REF_TYPE=kind, GITHUB_REF_NAME=name, **environment)
        assert done.returncode == 0, done.stderr
    git("fetch", "--quiet", "origin", "gh-pages")
    files = git("ls-tree", "-r", "--name-only", "FETCH_HEAD").split()
    assert files == [".nojekyll", "0.3.0/index.html", "dev/index.html", "index.html", "versions.html"]
    assert git("show", "FETCH_HEAD:dev/index.html") == "push 2"
    assert git("show", "FETCH_HEAD:0.3.0/index.html") == "push 1"
    assert "url=0.3.0/index.html" in git("show", "FETCH_HEAD:index.html")
    assert git("rev-list", "--count", "FETCH_HEAD").strip() == "1"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("dev", "dev"),
        ("dev 0.2.0 0.10.0 other", "0.10.0 0.2.0 dev"),
        ("1.0.0rc1 0.9.0 dev", "0.9.0 1.0.0rc1 dev"),
        ("1.0.0rc1 dev", "1.0.0rc1 dev"),
    ],
)
def test_the_newest_release_comes_first(names, expected):
    assert versions.in_order(names.split()) == expected.split()


@pytest.mark.parametrize("given", ["v0.3.0", "main", "../0.3.0"])
def test_what_is_no_version_is_refused(tmp_path, capsys, given):
    with pytest.raises(SystemExit):
        versions.main([str(tmp_path), str(tmp_path / "pages"), given])
    assert f"the version must be dev or as in 0.3.0, got {given}" in capsys.readouterr().err


def test_long_tests_are_skipped_when_their_time_is_over():
    long = "tests/test_simulation.py::test_replicas_of_a_batch_equal_single_runs"
    short = "tests/test_workflows.py::test_every_python_that_is_promised_is_tested"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", long, short]
    environment = os.environ | {"OL2R_LONG_TESTS_UNTIL": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "2 passed, 3 skipped" in done.stdout, done.stdout + done.stderr
