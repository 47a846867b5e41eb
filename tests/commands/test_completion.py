"""Completion: which words may come next, quoted for the shell, in bash and zsh, without slow imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from ol2r_cli.cli import COMMANDS
from ol2r_cli.commands.completion import completions, main, quoted_completions
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import compose

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with folders, one of them with a blank in its name, a hidden one and a file."""
    for name in ("alpha", "alpine trees", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "alphabet.txt").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ol2r comp", ["completion "]),
        ("ol2r run rank", ["ranker=", "ranker."]),
        ("ol2r run ranker=pdgd rank", ["ranker=", "ranker/model=", "ranker."]),
        ("ol2r run experiment=grid_pdgd ranker/", ["ranker/model="]),
        ("ol2r run ranker=pdgd ranker/model=m", ["ranker/model=mlp ", "ranker/model=mlp1 "]),
        ("ol2r run ranker=pdgd ranker/model=mlp ranker.m", ["ranker.model."]),
        ("ol2r run ranker=pdgd ranker/model=mlp ranker.model.w", ["ranker.model.width="]),
        ("ol2r run ranker=pdgd ranker/model=mlp ranker.model.width=", ["ranker.model.width=100 "]),
        ("ol2r run ranker=pdgd ranker.model.w", []),
        ("ol2r run ranker/model=mlp ranker.model.w", []),
        ("ol2r run ranker=olranknet ranker.model.w", ["ranker.model.width="]),
        ("ol2r run rou", ["rounds="]),
        ("ol2r run +rou", ["+rounds="]),
        ("ol2r run ranker=pairr", ["ranker=pairrank "]),
        ("ol2r run -m ranker=oracle,pairr", ["ranker=oracle,pairrank"]),
        ("ol2r run ranker.l", ["ranker.l2="]),
        ("ol2r run ranker=oracle ranker.l", []),
        ("ol2r run measu", ["measures="]),
        ("ol2r run measures=e", []),
        ("ol2r run measures=[er", ["measures=[err"]),
        ("ol2r run 'measures=[ndcg,reg", ["measures=[ndcg,regret"]),
        ("ol2r run measures=\\[ndcg,reg", ["measures=[ndcg,regret"]),
        ("ol2r check measu", ["measure=", "measures="]),
        ("ol2r check measure=er", ["measure=err "]),
        ("ol2r run exploration.sh", ["exploration.shuffle="]),
        ("ol2r run ranker=oracle exploration.sh", []),
        ("ol2r run dataset.que", ["dataset.queries."]),
        ("ol2r run dataset.queries.tr", ["dataset.queries.train="]),
        ("ol2r run dataset=mq2008 dataset.queries.tr", []),
        ("ol2r run click.tables.5.s", ["click.tables.5.stop="]),
        ("ol2r run ranker.l2=", ["ranker.l2=0.01 "]),
        ("ol2r run force=", ["force=true ", "force=false "]),
        ("ol2r run --cf", ["--cfg "]),
        ("ol2r run --cfg ", ["job ", "hydra ", "all "]),
        ("ol2r run nothing", []),
        ("ol2r run nothing.", []),
        ("ol2r list exp", ["exploration ", "experiment "]),
        ("ol2r list click nav", ["navigational "]),
        ("ol2r list ranker", ["ranker ", "ranker/model "]),
        ("ol2r list ranker/model l", ["linear "]),
        ("ol2r data ", ["info ", "prepare ", "check "]),
        ("ol2r data info dataset=mq", ["dataset=mq2007 ", "dataset=mq2008 "]),
        ("ol2r completion ", ["bash ", "zsh "]),
        ("ol2r completion bash ", []),
        ("ol2r bench pairr", ["pairrank "]),
        ("ol2r bench pairrank --replicas 1 10 --rounds 5 rou", ["rounds="]),
        ("ol2r bench --rounds ", []),
        ("ol2r bench --replicas 1 rou", []),
        ("ol2r search --config-dir alpha --trials 3 ranker=pairr", ["ranker=pairrank "]),
        ("ol2r search --trials rank", []),
        ("ol2r search --work", []),
        ("ol2r clean alpha --state killed dam", ["damaged "]),
        ("ol2r export alpha --split t", ["test "]),
        ("ol2r diff alpha alpi", ["alpine trees/"]),
        ("ol2r diff alpha alpha alp", []),
        ("ol2r list ranker pairrank ", []),
        ("ol2r nothing ", []),
        ("ol2r run dataset.path=al", ["dataset.path=alpha/", "dataset.path=alpine trees/"]),
        ("ol2r run output_dir=./alph", ["output_dir=./alpha/"]),
        ("ol2r status alph", ["alpha/"]),
        ("ol2r status ", ["alpha/", "alpine trees/"]),
        ("ol2r run --config-dir alph", ["alpha/"]),
        ("ol2r score alph", ["alpha/"]),
        ("ol2r score alpha/ alph", ["alpha/", "alphabet.txt "]),
        ("ol2r score alpha/ --data alph", ["alpha/"]),
        ("ol2r score alpha/ --o", ["--output "]),
        ("ol2r run dataset.path=nowhere/", []),
    ],
)
def test_completions(line: str, words: list[str], folders: Path):
    assert completions(line) == words


def test_the_options_of_every_command_are_those_of_its_help():
    for command, (module, _) in COMMANDS.items():
        lines = re.findall(r"^  (-.*)", import_module(module).parser().format_help(), re.MULTILINE)
        options = {
            option for line in lines for option in re.findall(r"(?<![^ ,])--?[a-z][a-z-]*", line.split("   ")[0])
        }
        assert "--help" in options
        assert {word.strip() for word in completions(f"ol2r {command} -")} == options, command


def test_all_commands_choices_and_settings_are_offered():
    assert completions("ol2r ") == [f"{command} " for command in COMMANDS] + ["--help ", "--version "]
    assert completions("ol2r run ranker=") == [f"ranker={name} " for name in Catalogue().choices["ranker"]]
    first = set(completions("ol2r run "))
    missing = {f"{group}=" for group in Catalogue().groups} - first
    assert missing == {"ranker/model=", "measure="}, "the default ranker has no model, and measures are a list"
    measures = Catalogue().choices["measure"]
    assert completions("ol2r run measures=[ndcg,") == [f"measures=[ndcg,{name}" for name in measures]
    assert {f"{name}=" for name in Catalogue().root.values} <= first


def test_choices_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text("rate: 3\n")
    line = f"ol2r run --config-dir {tmp_path} ranker=mi"
    assert completions(line) == ["ranker=mine "]
    assert completions(f"{line}ne ranker.") == ["ranker.rate="]
    assert completions(f"ol2r run hydra.searchpath=[file://{tmp_path}] ranker=mi") == ["ranker=mine "]
    assert completions("ol2r run hydra.searchpath=[pkg://nowhere] ranker=pdg") == ["ranker=pdgd "]
    assert completions("ol2r run --config-dir nowhere ranker=pdg") == ["ranker=pdgd "]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ol2r.yaml").write_text("choices: .\n")
    assert completions("ol2r run ranker=mi") == ["ranker=mine "]
    (tmp_path / "ranker" / "pdgd.yaml").touch()
    assert completions("ol2r run ranker=pdg") == ["ranker=pdgd "], "`ol2r list` says that its name is taken"
    (tmp_path / "ol2r.yaml").write_text("choices: [\n")
    assert completions("ol2r run ranker=pdg") == ["ranker=pdgd "]
    assert completions("ol2r new expl") == ["exploration "]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ol2r run dataset.path=~/al", ["dataset.path={home}/alpha/", "dataset.path={home}/alpine trees/"]),
        ("ol2r run dataset.path=$HOME/alph", ["dataset.path=$HOME/alpha/"]),
        ("ol2r run dataset.path={home}/alph", ["dataset.path={home}/alpha/"]),
        ("ol2r run dataset.path=${{HOME}}/nowhere/", []),
        ("ol2r status ~/alph", ["~/alpha/"]),
        ("ol2r status $HOME/alph", ["$HOME/alpha/"]),
    ],
)
def test_the_tilde_is_replaced_in_a_value(line: str, words: list[str], folders: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(folders))
    expected = [word.format(home=folders) for word in words]
    assert completions(line.format(home=folders)) == expected


def test_a_completed_home_folder_is_accepted_by_run(folders: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(folders))
    for value in ("~/alpi", "$HOME/alpi"):
        (word,) = quoted_completions(f"ol2r run output_dir={value}", value)
        echo = ["bash", "-c", f"printf %s output_dir={word}"]
        typed = subprocess.run(echo, capture_output=True, text=True, check=True).stdout
        assert compose([typed]).config.output_dir == f"{folders}/alpine trees/"


def test_words_are_quoted_and_shortened_to_the_part_that_bash_replaces(folders: Path):
    assert quoted_completions("ol2r run dataset.path=alpi") == ["dataset.path=alpine\\ trees/"]
    assert quoted_completions("ol2r run dataset.path=alpine\\ t") == ["dataset.path=alpine\\ trees/"]
    assert quoted_completions("ol2r run ranker=pairr", "pairr") == ["pairrank "]
    assert quoted_completions("ol2r run click=", "") == [f"{name} " for name in Catalogue().choices["click"]]
    assert quoted_completions("ol2r run 'ranker=pairr", "ranker=pairr") == ["ranker=pairrank"], (
        "the quote is still open"
    )
    assert quoted_completions("ol2r run 'dataset.path=alpi", "dataset.path=alpi") == ["dataset.path=alpine trees/"]
    assert quoted_completions("ol2r run 'measures=[er", "measures=[er") == ["measures=[err"]
    assert quoted_completions("ol2r run measures=[er", "[er") == ["\\[err"]


def test_names_of_any_characters_are_typed_as_they_are(folders: Path, capsys: pytest.CaptureFixture[str]):
    """A name that begins with a special character of the shell, and none that cannot be printed."""
    names = [";touch x", "$(touch x)", "`touch x`", "#a", "&b", "{c,d}", "(e", "!f", "'g", '"h', "\\\\i", "a~b"]
    for name in [*names, "line\nbreak", "escape\x1b[2J", os.fsdecode(b"\xff")]:
        (folders / name).mkdir()
    assert main(["--query", "ol2r status "]) == 0
    words = capsys.readouterr().out.splitlines()
    echo = ["bash", "-c", f"printf '%s\\n' {' '.join(words)}"]
    typed = subprocess.run(echo, capture_output=True, text=True, check=True).stdout.splitlines()
    assert set(typed) == {f"{name}/" for name in [*names, "alpha", "alpine trees"]}
    assert not (folders / "x").exists()


def test_each_shell_has_a_script_and_other_shells_are_refused(capsys: pytest.CaptureFixture[str]):
    for shell in ("bash", "zsh"):
        assert main([shell]) == 0
        assert "_ol2r()" in capsys.readouterr().out
    for arguments in ([], ["fish"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2


@pytest.fixture
def ol2r(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH finds this checkout as `ol2r`, and whose home has one folder."""
    (tmp_path / "home" / "alpha").mkdir(parents=True)
    program = tmp_path / "bin" / "ol2r"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m ol2r_cli "$@"\n')
    program.chmod(0o755)
    return os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}


# Bash splits words at `=`; it passes the command, what it will replace, and the word before.
BASH = """
eval "$(ol2r completion bash)"
tab() { COMP_LINE="$1" COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$2
        _ol2r ol2r "$3"; printf '[%s]' "${COMPREPLY[@]}"; echo; }
tab "ol2r ru" 1 ru
tab "ol2r run ranker=pairr" 4 pairr
tab "ol2r run ranker=" 3 ""
tab "ol2r run ranker.l" 2 ranker.l
tab "ol2r run 'measures=[ndcg,er" 2 "measures=[ndcg,er"
tab "ol2r run -m click=per,na" 5 per,na
tab "ol2r run dataset.path=~/alph" 4 "~/alph"
tab 'ol2r run dataset.path=$HOME/alph' 4 '$HOME/alph'
complete -p ol2r
"""
# compadd works only where a key was pressed: here it prints what it would add.
ZSH = """
compadd() { shift 4; printf '[%s]' "$@"; echo; }
eval "$(ol2r completion zsh)"
tab() { local words=("$@"); local CURRENT=$#; local PREFIX="$words[-1]"; _ol2r; }
tab ol2r ru
tab ol2r run ranker=pairr
tab ol2r run ranker=
tab ol2r run ranker.l
tab ol2r run -m click=per,na
tab ol2r run 'dataset.path=~/alph'
tab ol2r run 'dataset.path=$HOME/alph'
tab ol2r run nothing
print -r -- "$_comps[ol2r]"
"""


def in_shell(command: list[str], script: str, env: dict[str, str]) -> list[str]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    done = subprocess.run([*command, "-c", script], capture_output=True, text=True, env=env, timeout=60)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_in_bash(ol2r: dict[str, str]):
    assert in_shell(["bash", "--norc"], BASH, ol2r) == [
        "[run ]",
        "[pairrank ]",
        "".join(f"[{name} ]" for name in Catalogue().choices["ranker"]),
        "[ranker.l2=]",
        "[measures=[ndcg,err]",
        "[per,navigational]",
        f"[{ol2r['HOME']}/alpha/]",
        "[$HOME/alpha/]",
        "complete -o nospace -F _ol2r ol2r",
    ]


def test_in_zsh(ol2r: dict[str, str]):
    assert in_shell(["zsh", "-f"], ZSH, ol2r) == [
        "[run ]",
        "[ranker=pairrank ]",
        "".join(f"[ranker={name} ]" for name in Catalogue().choices["ranker"]),
        "[ranker.l2=]",
        "[click=per,navigational]",
        f"[dataset.path={ol2r['HOME']}/alpha/]",
        "[dataset.path=$HOME/alpha/]",
        "_ol2r",
    ]


def test_nothing_heavy_is_imported(ol2r: dict[str, str]):
    heavy = "{'torch', 'numpy', 'polars', 'hydra', 'omegaconf', 'sklearn', 'rich'} & sys.modules.keys()"
    script = f"""
import sys
from ol2r_cli.cli import main
main(["completion", "--query", "ol2r run ranker.l"])
sys.exit(str({heavy} or ''))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=ol2r | {"PYTHONPATH": str(ROOT)}, timeout=60)
    assert (done.stdout, done.stderr.strip()) == ("ranker.l2=\n", "")
