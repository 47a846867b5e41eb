"""Everything else works without recommendation: no other file names it, and a copy without its files runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ol2r_cli.config.catalogue import Catalogue

ROOT = Path(__file__).parents[3]
OWN = (  # all of its files
    *("ol2r_cli/plugins/recommend", "tests/plugins/recommend"),
    "tests/reference/factorization_tree.py",
    *("configs/recommend.yaml", "configs/model", "configs/reviews", "configs/reproduce/data/amazon*"),
    *("configs/reproduce/dissertation_table4_*", "configs/reproduce/dissertation_fig4_*"),
    *("docs/how-to/recommend.md", "docs/algorithms/recommendation.md"),
    *("docs/users_as_queries.py", "docs/reference/settings/recommend.md"),
)
INDEXES = (  # have lines that name what there is
    *("README.md", "docs/README.md", "docs/how-to/reproduce.md", "docs/explanation/architecture.md"),
    *("docs/reference/commands.md", "docs/reference/settings.md"),
)
COPIED = ("ol2r_cli", "configs", "tests", "docs", "scripts")
WORDS = ("recommend", "reviews?", "list model", "users as units", *Catalogue(root="recommend").choices["model"])


def own_files() -> set[Path]:
    return {path for pattern in OWN for path in ROOT.glob(pattern)}


def other_files(*folders: str) -> list[Path]:
    """The files of text of these folders that are not of recommendation."""
    own, suffixes = own_files(), (".py", ".yaml", ".jinja", ".css", ".bib", ".md", ".sh")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    return [path for path in files if not own & {path, *path.parents}]


def test_no_other_code_names_it():
    named = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
    lines = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in other_files("ol2r_cli", "configs", "scripts", "tests")
        for line in path.read_text(encoding="utf-8").splitlines()
        if named.search(line)
    ]
    assert lines == []


def test_no_other_page_leads_to_it():
    names = [path.stem for path in own_files() if path.suffix in (".md", ".py") or path.parent.name == "reproduce"]
    pages = [path for path in other_files("docs") if path.relative_to(ROOT).as_posix() not in INDEXES]
    leading = [f"{page.name}: {name}" for page in pages for name in names if f"{name}.md" in page.read_text()]
    assert leading == []
    assert not [page.name for page in pages if "ol2r recommend" in page.read_text()]


def copy_without(folder: Path) -> Path:
    """Everything but recommendation, in a new folder; of indexes the lines that do not name it."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.svg", "*.pdf"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    for path in own_files():
        copied = folder / path.relative_to(ROOT)
        shutil.rmtree(copied) if copied.is_dir() else copied.unlink()
    for name in INDEXES:
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(line for line in lines if "recommend" not in line))
    return folder


COMMANDS = """
from importlib import import_module
from pathlib import Path

import ol2r_cli
from ol2r_cli import cli, plugins

here = Path(ol2r_cli.__file__).parents[1]
assert here == Path.cwd(), here
for path in sorted(here.glob("ol2r_cli/**/*.py")):
    if path.stem != "__main__":
        import_module(".".join(path.relative_to(here).with_suffix("").parts).removesuffix(".__init__"))
assert list(plugins.run_kinds()) == ["run"]
for words in (
    "--help",
    "list",
    "run ranker=random rounds=20 output_dir=out",
    "run -m ranker=random,pdgd rounds=20 output_dir=out",
    "report out --baseline random --out report.html",
    "verify out",
    "reproduce",
    "reproduce pairrank_fig3 --dry-run",
    "benchmark linear dataset=synthetic",
    "benchmark linear --run --dry-run dataset=synthetic click=informational output_dir=out",
):
    assert cli.main(words.split()) == 0, words
"""


@pytest.mark.slow
def test_a_copy_without_it_works(tmp_path: Path):
    folder = copy_without(tmp_path / "copy")
    command = [sys.executable, "-c", COMMANDS]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recommend" not in done.stdout
    assert (folder / "report.html").is_file()
