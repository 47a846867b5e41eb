"""What is built can be installed anywhere and brings its configurations along."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from ol2r_cli import __version__
from ol2r_cli.config.catalogue import ROLES

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def call(*words: str | Path, cwd: Path) -> str:
    """Run a command as from a shell in another folder; its output."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Environment:
    """A virtual environment in which the dependencies are there, but not ol2r."""

    def __init__(self, folder: Path):
        venv.create(folder, symlinks=True)
        self.python, self.ol2r = folder / "bin" / "python", folder / "bin" / "ol2r"
        self.packages = Path(
            call(self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
        )
        (self.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))

    def install(self, *what: str | Path) -> None:
        call(sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-index", "--no-deps",
             "--ignore-installed", "--no-build-isolation", *what, cwd=ROOT)  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """An sdist of the checkout, a wheel of the checkout, and a wheel of the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    sdist = next(folder.glob("*.tar.gz"))
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    call(*pip, "-w", folder / "again", sdist, cwd=folder)
    (wheel,), (again,) = folder.glob("*.whl"), (folder / "again").glob("*.whl")
    return {"sdist": sdist, "wheel": wheel, "wheel of sdist": again}


def shipped() -> set[str]:
    """Every file of the package, of its configurations and of the published results."""
    folders = ("ol2r_cli", "configs", "docs/benchmark")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def test_wheels_have_the_package_and_its_configurations(built):
    """Wheels have the package with its configurations and nothing else; an sdist has what they are made of."""
    expected = {name.replace("docs/benchmark/", "published/") for name in shipped()}
    for kind in ("wheel", "wheel of sdist"):
        names = {name for name in ZipFile(built[kind]).namelist() if ".dist-info/" not in name}
        assert names == {name if name.startswith("ol2r_cli/") else f"ol2r_cli/{name}" for name in expected}, kind
        assert "ol2r_cli/configs/run.yaml" in names, kind
    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert shipped() | {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith(("tests/", "outputs/", ".venv/"))]


def test_an_sdist_is_built_with_the_address_that_is_set_in_it(built, tmp_path):
    """Its wheel has the addresses and the long description that it has, too."""
    with tarfile.open(built["sdist"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    (source / "PKG-INFO").unlink()  # what an sdist was built with stays
    settings = source / "pyproject.toml"
    address = "https://github.com/learners/ol2r"
    text, count = re.subn("^repository = .*", f'repository = "{address}"', settings.read_text(), flags=re.MULTILINE)
    assert count == 1
    settings.write_text(text)
    call(sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist", cwd=source)
    (wheel,), (sdist,) = tmp_path.glob("dist/*.whl"), tmp_path.glob("dist/*.tar.gz")
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        of_wheel = archive.read(name).decode()
    with tarfile.open(sdist) as archive:
        (name,) = (name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO"))
        of_sdist = archive.extractfile(name).read().decode()
    assert of_wheel == of_sdist
    assert f"\nProject-URL: Source, {address}\n" in of_wheel
    assert f"]({address}/blob/v{__version__}/docs/how-to/install.md)" in of_wheel


def test_an_installed_wheel_runs_from_any_folder(built, tmp_path):
    """An installed wheel runs from any folder with its own configurations."""
    installed = Environment(tmp_path / "environment")
    installed.install(built["wheel of sdist"])
    smoke = installed.packages / "ol2r_cli" / "configs" / "experiment" / "smoke.yaml"
    smoke.write_text(smoke.read_text().replace("rounds: 60", "rounds: 33"))  # to be seen in what is run
    here = tmp_path / "elsewhere"
    here.mkdir()
    assert "pairrank" in call(installed.ol2r, "list", cwd=here)
    call(installed.ol2r, "run", "experiment=smoke", "output_dir=results", cwd=here)
    (summary,) = here.glob("results/synthetic/*/summary.json")
    assert json.loads(summary.read_text())["rounds"] == 33
    assert [path.name for path in here.iterdir()] == ["results"]


def test_own_choices_and_packages_need_no_options(built, tmp_path):
    """An own choice and a package with choices need no options.

    What `ol2r new` of a wheel writes works there, and everywhere once it is in an installed package.
    """
    installed = Environment(tmp_path / "environment")
    installed.install(built["wheel"])
    here = tmp_path / "here"
    here.mkdir()
    call(installed.ol2r, "new", "ranker", "mine", cwd=here)
    sweep = ("run", "-m", "ranker=mine,random", "experiment=smoke", "launcher.jobs=2")
    call(installed.ol2r, *sweep, cwd=here)
    assert len(list(here.glob("outputs/synthetic/*/summary.json"))) == 2
    package = tmp_path / "project" / "my_choices"
    package.parent.mkdir()
    (here / "choices").rename(package)
    (package / "__init__.py").touch()
    settings = package / "ranker" / "mine.yaml"
    settings.write_text(settings.read_text().replace("_target_: mine.", "_target_: my_choices.mine."))
    (package.parent / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "my-choices"\nversion = "1"\n'
        '[project.entry-points."ol2r.choices"]\nmine = "my_choices"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["my_choices"]\n'
    )
    installed.install(package.parent)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    call(installed.ol2r, *sweep, cwd=elsewhere)
    (run,) = elsewhere.glob("outputs/synthetic/mine-*/run.json")
    assert "--config-dir" not in json.loads(run.read_bytes())["command"]
    assert "(yours: " in call(installed.ol2r, "list", "ranker", cwd=elsewhere)


@pytest.mark.timeout(1800)  # 48 commands, each a new process
def test_what_ol2r_new_of_a_wheel_prints_can_be_typed(built, tmp_path):
    """Run, list, check, sweep, report, benchmark, and the test of the choice: word for word, on less data."""
    installed = Environment(tmp_path / "environment")
    installed.install(built["wheel"])
    for group in ROLES:
        here = tmp_path / group
        here.mkdir()
        printed = call(installed.ol2r, "new", group, "my_own", cwd=here).splitlines()
        lines = [line.strip() for line in printed[printed.index("next:") + 1 :]]
        benchmark = ["benchmark"] if group == "ranker" else []
        assert [line.split()[1] for line in lines] == ["run", "list", "check", "run", "report", *benchmark], group
        small = [] if group == "dataset" else ["dataset.documents=12", "dataset.features=6"]
        for line in lines:
            _, *words = shlex.split(line)
            out = call(installed.ol2r, *words, *(small if words[0] == "run" else ()), cwd=here)
            assert words[0] != "check" or "none failed" in out, group
            assert words[0] != "benchmark" or "my_own (added)" in out, group
        runs = 6 + len(benchmark)  # the first run is one of the sweep's six
        assert len(list(here.glob("outputs/**/summary.json"))) == runs, group
        call(installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "choices", cwd=here)


def test_an_editable_install_reads_the_checkout(tmp_path):
    """An editable install reads the configurations of the checkout."""
    installed = Environment(tmp_path / "environment")
    installed.install("--editable", ROOT)
    script = "from ol2r_cli.config.catalogue import config_dir; print(config_dir())"
    assert call(installed.python, "-c", script, cwd=tmp_path).strip() == str(ROOT / "configs")
    assert "pairrank" in call(installed.ol2r, "list", cwd=tmp_path)
