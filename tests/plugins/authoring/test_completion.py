"""Completion: which words may come next, in the shell and without slow imports. Argcomplete quotes them."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from argcomplete import CompletionFinder

from ol2r_cli.cli import parser
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.plugins.authoring import completion
from ol2r_cli.plugins.authoring.completion import main
from ol2r_cli.text.program import commands
from tests.finished import refused

ROOT = Path(__file__).parents[3]
SHELL = {
    "_ARGCOMPLETE_SHELL": "bash",
    "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    "_ARGCOMPLETE_IFS": "|",
    "_ARGCOMPLETE_COMP_WORDBREAKS": "",  # whole words, also behind `=`
}
WORDS = {
    "comp": "completion",
    "run +rou": "+rounds=",
    "run -m ranker=oracle,pairr": "ranker=oracle,pairrank",
    "run ranker.l": "ranker.l2=",
    "run ranker=oracle ranker.l": "",
    "run ranker=pdgd ranker/model=m": "ranker/model=mlp|ranker/model=mlp1",
    "run ranker=pdgd ranker/model=mlp ranker.model.w": "ranker.model.width=",
    "run ranker=pdgd ranker.model.w": "",
    "run experiment=grid_pdgd ranker/": "ranker/model=",
    "run click.tables.5.s": "click.tables.5.stop=",
    "run 'measures=[ndcg,reg": "measures=[ndcg,regret",
    "check measure=er": "measure=err",
    "run force=": "",
    "run --cfg ": "job|hydra|all",
    "run ranker=pdgd -m --paired a,b rou": "rounds=",
    "search --trials ": "",
    "list exp": "exploration|experiment",
    "list click nav": "navigational",
    "data ": "info|prepare|check|fit-clicks",
    "bench pairr": "pairrank",
    "bench --replicas 1 10 --rounds 5 rou": "rounds=",
    "new expl": "exploration",
    "benchmark line": "linear|linear_mslr",
    "reproduce pairrank_fig": "|".join(f"pairrank_fig{number}" for number in range(3, 8)),
    "report alph --figure learn": "learning_curve",
    "clean alpha --state killed dam": "damaged",
    "diff alpha alp": "alpha/|alphabet.txt",
    "run output_dir=alph": "",
    "score --output alph": "alpha/|alphabet.txt",
    "nothing ": "",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a folder and a file."""
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alphabet.txt").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CompletionFinder, "_init_debug_stream", lambda _: None)  # of the file descriptor 9
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def completions(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a shell would be told for `ol2r LINE`, words with `|` between them."""
    told = io.StringIO()
    for name, value in {"COMP_LINE": f"ol2r {line}", "COMP_POINT": str(len(line) + 5), "_ARGCOMPLETE": "1"}.items():
        monkeypatch.setenv(name, value)
    completion.answer(parser(), output_stream=told, exit_method=lambda _: None)
    return told.getvalue().replace("\\", "")


def test_the_words_that_may_come_next(here: Path, monkeypatch: pytest.MonkeyPatch):
    assert {line: completions(line, monkeypatch) for line in WORDS} == WORDS


def test_all_commands_are_offered(here, monkeypatch):
    assert completions("", monkeypatch).split("|") == [name for name in commands() if " " not in name]


@pytest.mark.parametrize("command", sorted(set(commands()) - {"run"}))
def test_all_options_of_a_command_are_offered(here, monkeypatch, command):
    text = commands()[command].main().parser().format_help()
    shown = set(re.findall(r"(?:^  |, )(--?[a-z][a-z-]*)", text, re.MULTILINE))
    assert set(completions(f"{command} -", monkeypatch).split("|")) == shown


@pytest.mark.parametrize("group", ["ranker", "click"])
def test_all_choices_of_a_group_are_offered(here, monkeypatch, group):
    choices = [f"{group}={choice}" for choice in Catalogue().choices[group]]
    assert completions(f"run {group}=", monkeypatch).split("|") == choices


def test_all_groups_and_settings_of_a_run_are_offered(here, monkeypatch):
    catalogue, first = Catalogue(), set(completions("run ", monkeypatch).split("|"))
    missing = {f"{group}=" for group in catalogue.groups} - first
    assert missing == {"ranker/model=", "measure="}, "the default ranker has no model, and measures are a list"
    assert {f"{name}=" for name, value in catalogue.root.values.items() if not isinstance(value, dict)} <= first


def test_choices_of_the_user(here: Path, monkeypatch: pytest.MonkeyPatch):
    (here / "ranker").mkdir()
    (here / "ranker" / "mine.yaml").write_text("rate: 3\n")
    line = f"run --config-dir {here} ranker=mi"
    assert completions(line, monkeypatch) == "ranker=mine"
    assert completions(f"{line}ne ranker.", monkeypatch) == "ranker.rate="
    assert completions("run --config-dir nowhere ranker=pdg", monkeypatch) == "ranker=pdgd"
    (here / "ol2r.yaml").write_text("choices: .\n")
    assert completions("run ranker=mi", monkeypatch) == "ranker=mine"
    (here / "ol2r.yaml").write_text("choices: [\n")
    assert completions("run ranker=pdg", monkeypatch) == "ranker=pdgd"


SCRIPT = """
eval "$(ol2r completion bash)"
compopt() { return 1; }  # works only where a key was pressed
COMP_LINE="$1" COMP_POINT=${#1}; _python_argcomplete ol2r; printf '%s\\n' "${COMPREPLY[@]}"
"""
PROGRAM = """
import os, sys
end, heavy = os._exit, {"torch", "numpy", "polars", "hydra", "omegaconf", "sklearn", "rich"}
os._exit = lambda code: end(bool(heavy & sys.modules.keys()) or code)
from ol2r_cli.cli import main
sys.exit(main())
"""


def test_bash_completes_names_of_any_characters(tmp_path: Path):
    """In bash, without heavy imports, names of any characters are typed as they are.

    A name that begins with a special character of the shell, and none that cannot be printed.
    """
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    names = [";touch x", "$(touch x)", "`touch x`", "#a", "&b", "{c,d}", "(e", "!f", "'g", '"h', "\\i", "~root"]
    folder, program = tmp_path / "folder", tmp_path / "ol2r"
    for name in [*names, "line\nbreak", "escape\x1b[2J", os.fsdecode(b"\xff")]:
        (folder / name).mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{PROGRAM}")
    program.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def bash(script: str, *words: str) -> list[str]:
        line = ["bash", "--norc", "-c", script, "bash", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=True, env=env, cwd=folder, timeout=60)
        assert done.stderr == ""
        return done.stdout.splitlines()

    for line, told in {"ol2r ru": "run ", "ol2r run -m click=per,na": "per,navigational "}.items():
        assert bash(SCRIPT, line) == [told]
    typed = bash(f"printf '%s\\n' {' '.join(bash(SCRIPT, 'ol2r status '))}")
    assert {word for word in typed if word.endswith("/")} == {f"{name}/" for name in names}
    assert not (folder / "x").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_each_shell_has_a_script(capsys, shell):
    assert main([shell]) == 0
    assert "ol2r" in capsys.readouterr().out


def test_other_shells_are_refused(capsys):
    assert refused(capsys, "completion", "csh")
