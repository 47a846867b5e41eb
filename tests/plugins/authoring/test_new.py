"""`ol2r new`: what it writes works as printed, in the folder where it was written, without further options."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import ol2r_cli
from ol2r_cli import cli
from ol2r_cli.config.catalogue import ROLES
from ol2r_cli.config.own_choices import read_project
from tests.finished import refused

ROOT = Path(__file__).parents[3]
SMALL = ["rounds=6", "evaluate_every=3"]
TINY = [*SMALL, "dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=12", "dataset.features=6"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search_path) -> Path:
    """An empty working directory, and a search path for modules that ends with the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OL2R_CHOICES", raising=False)
    return tmp_path


@pytest.fixture
def ol2r(capsys: pytest.CaptureFixture[str]):
    """What a command prints, whose exit code is 0."""

    def run(*words: str) -> str:
        assert cli.main([*words]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def choice(group: str, name: str) -> str:
    """How a choice is made on the command line."""
    intents = "'dataset.intents={number: 2, overlap: 0}'"
    return {"measure": f"'measures=[ndcg,{name}]'", "intent": f"intent={name} {intents}"}.get(group, f"{group}={name}")


@pytest.mark.parametrize("group", ROLES)
def test_its_files_and_what_to_type_next_are_printed(here, ol2r, group):
    name, typed = f"own_{group}", choice(group, f"own_{group}")
    printed = ol2r("new", group, name).splitlines()
    files = [f"choices/{name}.py", f"choices/{group}/{name}.yaml", f"choices/test_{name}.py", "ol2r.yaml"]
    files[1:1] = [f"choices/{name}.csv"] if group == "dataset" else []
    assert printed[: printed.index("next:")] == [f"written: {file}" for file in files]
    assert not [file for file in files if re.search(r"\b(GROUP|NAME|CLASS)\b", (here / file).read_text())]
    lines = [line.strip() for line in printed[printed.index("next:") + 1 :]]
    assert lines[:3] == [f"ol2r run {typed} rounds=500", f"ol2r list {group} {name}", f"ol2r check {group}={name}"]
    assert lines[3].startswith("ol2r run -m ")
    assert shlex.split(typed)[0] in lines[3].replace(f"{name},", f"{name} ")
    assert lines[4] == "ol2r report"
    assert len(lines) == 5 + (group == "ranker"), "which has a benchmark to be added to"


@pytest.mark.parametrize("group", ROLES)
def test_a_choice_runs_and_is_listed(here, ol2r, group):
    name = f"own_{group}"
    ol2r("new", group, name)
    typed = shlex.split(choice(group, name))
    assert "finished: run" in ol2r("run", *typed, *(SMALL if group == "dataset" else TINY))
    (run,) = (here / "outputs").glob("*/*/run.json")
    manifest = json.loads(run.read_bytes())
    assert manifest["columns"] if group == "measure" else manifest["choices"][group] == name
    assert "yours: choices/" in ol2r("list", group, name)


def test_an_own_ranker_is_swept_in_two_processes_and_scored(here, ol2r):
    """A sweep in two processes with an own ranker, then its score."""
    ol2r("new", "ranker", "swept_own")
    assert "2 jobs in" in ol2r("run", "-m", "ranker=swept_own,random", *TINY, "launcher.jobs=2")
    (run,) = (here / "outputs" / "synthetic").glob("swept_own-*")
    manifest = json.loads((run / "run.json").read_bytes())
    assert manifest["command"].endswith(f" --config-dir {here / 'choices'}"), "so that it works anywhere"
    (here / "new.txt").write_text("0 qid:1 1:1 2:2 3:3 4:4 5:5 6:6\n0 qid:1 1:3 2:2 3:1 4:1 5:1 6:1\n")
    assert len(ol2r("score", manifest["id"], "new.txt").split()) == 2


def test_a_copy_of_a_ranker_does_what_it_does(ol2r):
    ol2r("new", "ranker", "copied_own", "--like", "cascade_lints")
    classes = re.findall(r"^class (\w+)", Path("choices/copied_own.py").read_text(), re.M)
    assert classes == ["CascadeLinTS"], "its bases are imported"
    assert "\n_target_: copied_own.CascadeLinTS\nsigma: " in Path("choices/ranker/copied_own.yaml").read_text()
    again = ol2r("new", "ranker", "again_own", "--like", "copied_own")  # a copy of one's own
    assert again.splitlines()[-1].endswith(" --add ranker=again_own")
    runs = [json.loads(ol2r("run", f"ranker={name}", *TINY, "--json")) for name in ("again_own", "cascade_lints")]
    assert runs[0]["metrics"] == runs[1]["metrics"]


def test_a_copy_of_a_model_runs_as_printed(ol2r):
    printed = ol2r("new", "ranker/model", "deep_own", "--like", "mlp").splitlines()
    assert "  ol2r run ranker=pdgd ranker/model=deep_own rounds=500" in printed
    assert "finished: run" in ol2r("run", "ranker=pdgd", "ranker/model=deep_own", *TINY)


def test_a_copy_of_a_click_model_has_its_settings(ol2r):
    ol2r("new", "click", "tired_own", "--like", "nav")  # a short name
    expected = ol2r("run", "--cfg", "job", "-p", "click.tables", "click=nav")
    assert ol2r("run", "--cfg", "job", "-p", "click.tables", "click=tired_own") == expected
    copied = Path("choices/tired_own.py").read_text()
    assert re.findall(r"^class (\w+)", copied, re.M) == ["DependentClick"]
    assert "from ol2r_cli.click.models import CascadeBased\n" in copied


def test_a_copy_that_is_changed_plays_what_has_been_changed(here, ol2r):
    """Loops stand for the methods of the original, which compute other numbers."""
    ol2r("new", "ranker", "changed_own", "--like", "sgd_ranknet")
    copy = Path("choices/changed_own.py")
    assert not re.search(r"stages|loops", copy.read_text())
    copy.write_text(copy.read_text().replace("torch.sigmoid(-self", "-torch.sigmoid(-self"))
    words = *TINY, "click=perfect", "rounds=40", "evaluate_every=40", "--json"
    found, original = (json.loads(ol2r("run", f"ranker={name}", *words)) for name in ("changed_own", "sgd_ranknet"))
    assert found["metrics"] != original["metrics"]


def test_a_preset_runs_and_becomes_a_sweep(ol2r):
    assert ol2r("new", "experiment", "first").splitlines() == [
        "written: choices/experiment/first.yaml",
        "written: ol2r.yaml",
        "next:",
        "  ol2r run experiment=first",
        "  ol2r list experiment first",
        "  ol2r report",
    ]
    run = json.loads(ol2r("run", "experiment=first", *TINY, "--json"))
    assert (run["choices"]["ranker"], run["choices"]["click"], run["seeds"]) == ("pdgd", "navigational", [0, 1])
    preset = Path("choices/experiment/first.yaml")
    preset.write_text(preset.read_text().replace("# hydra:", "hydra:"))
    assert "\n3 jobs: " in ol2r("run", "-m", "experiment=first", "--dry-run", *TINY)
    assert "  ol2r run -m experiment=second" in ol2r("new", "experiment", "second", "--like", "first").splitlines()


def test_the_folder_is_that_of_the_project_file_or_typed(ol2r):
    assert ol2r("new", "ranker", "first_own", "--dir", "my choices").splitlines()[-2] == "  ol2r report"
    assert Path("ol2r.yaml").read_text() == "choices: my choices\n"
    ol2r("new", "click", "second_own")
    assert Path("my choices/click/second_own.yaml").is_file()
    printed = ol2r("new", "ranker", "third_own", "--dir", "elsewhere").splitlines()
    assert "written: ol2r.yaml" not in printed
    assert "  ol2r run ranker=third_own rounds=500 --config-dir elsewhere" in printed
    assert Path("ol2r.yaml").read_text() == "choices: my choices\n"


TEMPLATES = Path(ol2r_cli.__file__).parent / "plugins" / "authoring" / "templates"


def test_words_that_templates_replace_are_part_of_no_other_word():
    """GROUPS would become datasetS."""
    texts = [file.read_text(encoding="utf-8") for file in TEMPLATES.glob("*.txt")]
    assert texts
    assert not [word for text in texts for word in re.findall(r"(?:GROUP|NAME|CLASS)[A-Za-z]+", text)]


LETTERS = "NAME must be small letters, digits and _"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("rankr nsgd", "GROUP rankr: did you mean ranker?"),
        ("ranker pairrank", "NAME must be new, got pairrank: `ol2r list ranker pairrank` shows the choice of this"),
        ("click nav", "NAME must be new, got nav: "),
        ("click taken_own", "NAME must not be that of a module that Python has, got taken_own (choices/taken_own.py)"),
        ("exploration torch", "NAME must not be that of a module that Python has, got torch (/"),
        ("click Tired", LETTERS),
        ("click ../a", LETTERS),
        ("click class", LETTERS),
        ("ranker null", LETTERS),
        ("ranker mine_own --like pairank", "--like pairank: did you mean pairrank?"),
    ],
)
def test_what_cannot_be_a_name_is_one_line_and_writes_nothing(here, ol2r, capsys, words, told):
    ol2r("new", "ranker", "taken_own")
    before = sorted(here.rglob("*"))
    assert refused(capsys, "new", *words.split()).startswith(told)
    assert sorted(here.rglob("*")) == before


def test_the_page_shows_what_is_printed(ol2r):
    page = (ROOT / "docs" / "how-to/own_components.md").read_text()
    (command, shown) = re.findall(r"^    \$ ol2r (new .*)\n((?:    .*\n)+)", page, re.MULTILINE)[0]
    assert ol2r(*command.split()).splitlines() == [line.removeprefix("    ") for line in shown.splitlines()]
    preset, text = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    ol2r("new", "experiment", "first")
    assert Path("choices/experiment/first.yaml").read_text() == preset
    Path("ol2r.yaml").write_text(text)
    assert read_project().overrides(with_launcher=True) == ["output_dir=results", "data_dir=/data", "launcher.jobs=4"]
