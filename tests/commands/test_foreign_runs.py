"""Runs of others: what was changed is reported and not used, no class that they name is built before it is trusted,
and their text is shown as text."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml

from ol2r_cli import api as ol2r
from ol2r_cli import cli
from ol2r_cli.columns import Column
from ol2r_cli.report.frames import as_csv
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.text.table import in_markdown
from tests.finished import FinishedRuns, printed, refused
from tests.manifests import accept_changes, change, on_disk
from tests.plugins.page.test_html_page import Page
from tests.report.runs import play

NODES: dict[str, dict[str, Any]] = {
    "archive": {"_target_": "zipfile.ZipFile", "file": "{hit}", "mode": "w"},
    "positional": {"_target_": "logging.FileHandler", "_args_": ["{hit}"]},
    "not a choice": {"_target_": "ol2r_cli.run.store.RunDirectory", "path": "{hit}"},
    "module": {"_target_": "foreign_module.Ranker"},
}
COMMANDS = {
    "score": "score RUN HERE/file.txt",
    "trec": "export RUN --to trec --out HERE/out",
    "lda": "report RUN --figure lda --out HERE/out.png",
}
MARKS = ['"><i foreign>', '" foreign="', r"\1", "$x_{", "=1+1", "|`*](x)", "\x1b[31m", "\n# x", "\u202e"]


@pytest.fixture
def hit(tmp_path, monkeypatch) -> Path:
    """The file that exists once something of another has run; importing `foreign_module` also makes it."""
    path = tmp_path / "hit"
    (tmp_path / "modules").mkdir()
    code = f"open({str(path)!r}, 'w').close()\nclass Ranker: pass\n"
    (tmp_path / "modules" / "foreign_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    return path


def of_node(name: str, hit: Path) -> dict[str, Any]:
    """One of NODES, which makes the file."""
    return json.loads(json.dumps(NODES[name]).replace("{hit}", str(hit)))


class ForeignRun:
    """A copy of a run that others have changed, and whose files they have recorded anew."""

    def __init__(self, run: Path, path: Path):
        self.path = path
        shutil.copytree(run, path)

    def manifest(self, **changes: Any):
        change(self.path, **changes)
        accept_changes(self.path)

    def config(self, edit: Callable[[dict[str, Any]], Any]):
        content = yaml.safe_load((self.path / "config.yaml").read_text())
        edit(content)
        (self.path / "config.yaml").write_text(yaml.safe_dump(content))
        accept_changes(self.path)

    def ranker(self, edit: Callable[[dict[str, Any]], Any]):
        content = torch.load(self.path / "ranker.pt", weights_only=True)
        edit(content)
        torch.save(content, self.path / "ranker.pt")
        accept_changes(self.path)


@pytest.fixture
def foreign(runs: FinishedRuns, tmp_path) -> ForeignRun:
    shutil.copy(runs["data"] / "test.txt", tmp_path / "file.txt")
    return ForeignRun(runs["network"], tmp_path / "foreign")


def words(command: str, run: Path) -> list[str]:
    """The words of a command about a run, whose files are beside it."""
    return command.replace("RUN", str(run)).replace("HERE", str(run.parent)).split()


PER_QUERY, DIFF = "export RUN --to per-query --out HERE/out.csv", "diff RUN RUN"


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("config.yaml", [COMMANDS["score"], PER_QUERY]),
        ("summary.json", [COMMANDS["score"], "report RUN"]),
        ("ranker.pt", [COMMANDS["score"], PER_QUERY]),
        ("trace.parquet", [DIFF]),
        ("evaluation.parquet", [DIFF]),
    ],
)
def test_a_file_that_was_changed_is_reported_and_not_used(foreign, capsys, name, commands):
    content = bytearray((foreign.path / name).read_bytes())
    content[-5] ^= 1
    (foreign.path / name).write_bytes(content)
    for command in commands:
        assert name in refused(capsys, *words(command, foreign.path))
    assert cli.main(["verify", str(foreign.path)]) == 1
    assert f"{name} has another content than when it was written" in capsys.readouterr().out


PLACES: dict[str, Callable[[ForeignRun, Any], None]] = {
    "dataset": lambda run, node: run.config(lambda c: c.update(dataset=node)),
    "dataset.expected.part": lambda run, node: run.config(lambda c: c["dataset"]["expected"].update(part=node)),
    "dataset.folders[0]": lambda run, node: run.config(lambda c: c["dataset"].update(folders=[node])),
    "ranker": lambda run, node: run.ranker(lambda c: c.update(ranker=node)),
    "ranker.model.width": lambda run, node: run.ranker(lambda c: c["ranker"]["model"].update(width=node)),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("setting", PLACES)
def test_what_a_run_names_is_refused_before_it_is_imported(foreign, hit, tmp_path, capsys, command, name, setting):
    pytest.importorskip("matplotlib")
    before = {*tmp_path.iterdir()}
    PLACES[setting](foreign, of_node(name, hit))
    line = refused(capsys, *words(COMMANDS[command], foreign.path))
    file = foreign.path / ("ranker.pt" if setting.startswith("ranker") else "config.yaml")
    target = f"{setting}._target_ in {file} must be a class of a choice of ol2r, got "
    option = f"{file} must have settings only, got {setting}._"
    assert target in line or option in line
    assert "foreign_module" not in sys.modules
    assert {*tmp_path.iterdir()} == before, "nothing is hit"


def test_python_and_reading_commands_build_nothing(foreign, hit, tmp_path):
    node = of_node("archive", hit)
    foreign.config(lambda content: content.update(dataset=node, ranker=deepcopy(node)))  # without an alias
    foreign.ranker(lambda content: content.update(ranker=node))
    run = ol2r.Run(foreign.path)
    for use in (lambda: run.trained_ranker, lambda: run.score(tmp_path / "file.txt")):
        with pytest.raises(ValueError, match=r"must be a class of a choice of ol2r, got 'zipfile.ZipFile'"):
            use()
    page = str(tmp_path / "page.html")
    for words in ["report"], ["report", "--out", page], ["status"], ["verify"], ["diff", str(foreign.path)]:
        assert cli.main([words[0], str(foreign.path), *words[1:]]) in (0, 1)
        assert not hit.exists(), words


LINEAR = {"_target_": "ol2r_cli.ranker.model.linear.Linear"}


def test_a_dataset_of_another_role_is_refused(foreign, tmp_path, capsys):
    foreign.config(lambda content: content.update(dataset=LINEAR))
    told = refused(capsys, *words(COMMANDS["trec"], foreign.path))
    assert "dataset._target_ must be a dataset" in told


DAMAGED = "ranker.pt is damaged ("


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda content: {"ranker": LINEAR}, "ranker.pt must be a ranker, got "),
        (lambda content: {"ranker": 3}, DAMAGED),
        (lambda content: {"seeds": ["../../x"]}, DAMAGED),
        (lambda content: {"deployed": content["deployed"].to_sparse()}, DAMAGED),
        (lambda content: {"deployed": content["deployed"][:, :-1].clone()}, DAMAGED),
        (lambda content: {"deployed": content["deployed"].tolist()}, DAMAGED),
    ],
    ids=["another role", "no settings", "a path as seed", "sparse", "too few weights", "a list"],
)
def test_a_ranker_of_another_form_is_refused(foreign, tmp_path, capsys, edit, told):
    foreign.ranker(lambda content: content.update(edit(content)))
    assert told in refused(capsys, *words(COMMANDS["score"], foreign.path))


def test_nothing_is_written_to_folders_that_a_run_names(runs, foreign, tmp_path, monkeypatch):
    run = ForeignRun(runs["global zscore"], tmp_path / "normalised")
    run.config(lambda content: content["dataset"].update(cache_dir=str(tmp_path / "named")))
    monkeypatch.setenv("OL2R_CACHE", str(tmp_path / "here"))
    assert cli.main(words(COMMANDS["score"], run.path)) == 0
    assert not (tmp_path / "named").exists()
    assert (tmp_path / "here").is_dir()


@pytest.mark.parametrize("change", [{"dataset": {"name": "../above", "fingerprint": "f"}}, {"id": "*"}], ids=str)
def test_names_of_a_run_lead_to_no_other_folder(foreign, tmp_path, capsys, change):
    pytest.importorskip("tensorboard")
    foreign.manifest(**change)
    line = refused(capsys, "export", foreign.path, "--to", "tensorboard", "--out", tmp_path / "tb")
    assert f"{foreign.path} is damaged (ValueError: run.json must have " in line
    assert not (tmp_path / "above").exists()


@pytest.mark.parametrize("words", [["ranker=offline_ranknet"], ["ranker=sgd_ranknet", "start.labels=0.5"]])
def test_what_is_played_again_writes_to_no_folder_of_the_run(words, tmp_path, monkeypatch, capsys):
    """Neither parsed features nor weights of an offline fit, which are kept whatever their size here."""
    monkeypatch.setattr("ol2r_cli.ranker.offline.LEAST_WORK", 0)
    data, run = Path(__file__).parents[1] / "data" / "tiny", tmp_path / "run"
    words = [*words, "dataset=letor", f"dataset.path={data}", "dataset.normalise=query_minmax", "rounds=3"]
    assert cli.main(["run", *words, f"cache_dir={tmp_path / 'first'}", f"output_dir={tmp_path / 'outputs'}"]) == 0
    (path,) = find_runs(tmp_path / "outputs")
    assert len([*(tmp_path / "first").rglob("theta.npy")]) == 1
    foreign, named = ForeignRun(path, run), str(tmp_path / "named")

    def name_folders(content: dict[str, Any]):
        for setting in "cache_dir", "output_dir", "data_dir":
            content[setting] = named
        for group in "ranker", "dataset":
            content[group] = {name: named if name == "cache_dir" else of for name, of in content[group].items()}

    foreign.config(name_folders)
    foreign.ranker(lambda content: content.update(ranker={**content["ranker"], "cache_dir": named}))
    monkeypatch.setenv("OL2R_CACHE", str(tmp_path / "here"))
    out = tmp_path / "clicks.csv"
    assert cli.main(["export", str(run), "--to", "clicks", "--out", str(out)]) == 0
    assert not (tmp_path / "named").exists()
    assert len([*(tmp_path / "here").rglob("theta.npy")]) == 1


class Shell:
    """Runs a line when it is unpickled."""

    def __init__(self, line: str):
        self.line = line

    def __reduce__(self) -> Any:
        return os.system, (self.line,)


def test_resuming_takes_nothing_from_the_files_but_state(tmp_path, hit):
    """The configuration is that of the command line; the checkpoint is read as tensors and plain values."""
    sizes = ["dataset.queries={train: 6, validation: 2, test: 2}", "dataset.documents=6", "dataset.features=5"]
    words = ["run", *sizes, "rounds=4", f"output_dir={tmp_path}/outputs", "keep_checkpoint=true"]
    assert cli.main(words) == 0
    (path,) = find_runs(tmp_path / "outputs")
    undisturbed = (path / "config.yaml").read_text()
    node = of_node("archive", hit)
    for checkpoint in (None, {"results_version": 2, "fingerprint": path.name[-10:], "state": Shell(f"touch {hit}")}):
        named = dict.fromkeys(("dataset", "click", "ranker", "exploration", "fairness", "device"), node)
        (path / "config.yaml").write_text(yaml.safe_dump({**yaml.safe_load(undisturbed), **named}))
        choices = on_disk(path)["choices"] | {"ranker": "x"}
        change(path, files=None, command=f"touch {hit}", status="interrupted", choices=choices)
        if checkpoint is not None:
            torch.save(checkpoint, path / "checkpoint.pt")
        assert cli.main(words) == 0, "it is resumed, or starts afresh"
        assert (path / "config.yaml").read_text() == undisturbed
        assert Run.read(path).state == "finished"
        assert not hit.exists()


UNREADABLE: dict[str, tuple[Callable[[dict[str, Any]], str], str]] = {
    "deep": (lambda manifest: "[" * 200_000, "run.json"),
    "types": (lambda manifest: json.dumps(manifest | {"seconds": "x", "git": []}), "has no valid seconds, git"),
    "no seeds": (lambda manifest: json.dumps(manifest | {"seeds": []}), "no valid seeds"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_run_is_listed_with_the_reason(runs, foreign, tmp_path, capsys, case):
    edit, reason = UNREADABLE[case]
    shutil.copytree(runs["linear"], tmp_path / "sound")
    (foreign.path / "run.json").write_text(edit(on_disk(foreign.path)))
    out = printed(capsys, "status", tmp_path)
    assert re.search(f"^unreadable +foreign .*{reason}", out, re.MULTILINE)
    assert re.search("^finished +sound ", out, re.MULTILINE)


def marked_runs(root: Path, mark: str) -> list[str]:
    """Two runs in which others have written `mark` wherever there is text, and a setting of this name."""
    paths = []
    for number, level in enumerate((0.25, 0.5), 1):
        ends = {seed: [level + seed / 10] * 5 for seed in (0, 1)}
        trace = {"online_ndcg": {seed: values[1:] for seed, values in ends.items()}}
        path = play(root, trace=trace, test=ends, validation=ends)
        config = yaml.safe_load((path / "config.yaml").read_text())
        config["ranker"][mark] = number
        config["dataset"]["path"] = config["click"]["of"] = mark
        (path / "config.yaml").write_text(yaml.safe_dump(config))
        choices = on_disk(path)["choices"] | {"dataset": mark}
        change(path, note=mark, command=f"ol2r run {mark}", versions={mark: mark}, error=mark, choices=choices)
        accept_changes(path)
        paths.append(str(path))
    return paths


@pytest.fixture(scope="module")
def marked(tmp_path_factory) -> dict[str, list[str]]:
    """Two runs for each mark, and for a plain word."""
    return {mark: marked_runs(tmp_path_factory.mktemp("marked"), mark) for mark in ("plain", *MARKS)}


FORMATS = (f"report --format {form}" for form in ("latex", "md", "csv"))


@pytest.mark.parametrize("words", ["status", "verify", "diff", "report", *FORMATS])
def test_foreign_text_is_no_line_and_no_control_character(marked, capsys, words):
    printed = {}
    for mark, runs in marked.items():
        command, *options = words.split()
        cli.main([command, *([str(Path(runs[0]).parent)] if words == "status" else runs), *options])
        printed[mark] = "\n".join(capsys.readouterr())
    assert {mark: text.replace("\n", "").isprintable() for mark, text in printed.items()} == dict.fromkeys(marked, True)
    numbers = {mark: text.count("\n") for mark, text in printed.items()}
    assert numbers == dict.fromkeys(marked, numbers["plain"])


def test_foreign_text_is_no_formula(marked, capsys):
    cells = chain(*csv.reader(printed(capsys, "report", *marked["=1+1"], "--format", "csv").splitlines()))
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@"))]


@pytest.mark.parametrize("mark", MARKS)
def test_foreign_text_is_no_element_of_a_page(marked, tmp_path, mark):
    page = tmp_path / "page.html"
    assert cli.main(["report", *marked[mark], "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.replace("\n", "").isprintable()
    assert not [tag for tag, attributes in Page(text).elements if tag == "i" or "foreign" in attributes]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.filterwarnings("ignore")
def test_foreign_text_is_no_markdown_of_a_notebook(marked, mark):
    first, _ = map(Path, marked[mark])
    text = ol2r.Run(first)._repr_markdown_() + ol2r.compare(first.parent)._repr_markdown_()
    assert text.replace("\n", "").isprintable()
    outside = re.sub(r"^`[^`]*`$", "", text, flags=re.MULTILINE)
    assert not re.search(r"(?<!\\)(<i|\]\()", outside)


def test_formulas_and_markdown_in_cells_are_text():
    """Cells that are formulas or Markdown are text, and numbers stay numbers."""
    numbers = ["-0.5", "+3", "-1e-5", "-2.5E+10", "0.5", "word", ""]
    formulas = ["=1", "+1+1", "-x", "@A1", "\tx", "\rx", "-1e", "-0.5\n=1", "="]
    table = pl.DataFrame({"=text": [*numbers, *formulas], "number": -0.5})
    rows = list(csv.reader(io.StringIO(as_csv(table), newline="")))
    assert rows == [["'=text", "number"], *([text, "-0.5"] for text in (*numbers, *(f"'{text}" for text in formulas)))]
    assert in_markdown(r"a|b \ <b> <1e-6 [x](y) [1]") == r"a\|b \\ \<b> <1e-6 [x]\(y) [1]"
    with pytest.raises(ValueError, match="the label of column mine must be of printable characters, got"):
        Column("mine", "\x1b[31m")
