"""What README.md, tutorials and how-to pages tell a reader to type does what they show; tests/pages.py says how.

`python -m tests.pages PAGE` prints what the commands of a page print.
"""

from __future__ import annotations

import pytest

from tests.pages import Block, Page, Printed, Typed, data_folder, difference, pages

PAGES = pages()


def cases() -> list:
    """Return the pages with commands to execute; long ones are marked."""
    found = []
    for page in PAGES:
        for slow, marks in (False, []), (True, [pytest.mark.slow]):
            shown = [typed for _, typed in page.steps(data_folder(), slow) if typed]
            if shown and (any(block.is_slow for block in page.blocks) or not slow):
                found.append(pytest.param(page, slow, id=f"{page}{' all' if slow else ''}", marks=marks))
    return found


@pytest.mark.parametrize(("page", "slow"), cases())
def test_commands_print_what_is_shown(page, slow, tmp_path):
    pytest.importorskip("numba", reason="pages show what compiled loops print")
    differences = []
    for typed, printed in page.executed(tmp_path, data_folder(), slow):
        if found := difference(typed, printed):
            differences.append(f"{page}:{typed.number}: $ {typed.command}\n{found}")
    assert not differences, "\n\n".join(differences)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_plain_commands_are_understood(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    wrong = page.not_understood(tmp_path)
    assert not wrong, "\n\n".join(wrong)


def page_of(tmp_path, text: str) -> Page:
    path = tmp_path / "page.md"
    path.write_text(text)
    return Page(path)


def differences_of(tmp_path, text: str) -> list[bool]:
    page = page_of(tmp_path, text)
    return [bool(difference(typed, printed)) for typed, printed in page.executed(tmp_path / "run", None)]


def test_a_shell_keeps_variables_and_files(tmp_path):
    text = """\
<!-- file: mine/a.txt -->
```text
one $HOME
```

    $ A=two; cat mine/a.txt
    one $HOME
    $ echo $A \\
        three; pwd; echo $HOME
    two three
    /home/me/work
    /home/me

<!-- not run: it would fail -->

    $ false

<!-- needs: MQ2008 -->

    $ ls $HOME/data/MQ2008

    $ true; echo not shown
"""
    assert differences_of(tmp_path, text) == [False, False]


@pytest.mark.parametrize(
    "text",
    [
        "    $ echo a\n    b\n",
        "    $ false\n",
        "    $ echo a; echo b\n    a\n",
        "    $ echo 'ol2r run: wrong'\n    ol2r run: wrong\n",  # it should fail
        "    $ echo 'ol2r run: other' >&2; exit 2\n    ol2r run: wrong\n",
    ],
    ids=["other output", "a failure", "more output", "no failure", "other failure"],
)
def test_what_is_not_shown_is_found(tmp_path, text):
    assert differences_of(tmp_path, text.replace("exit 2", "(exit 2)")) == [True]


def test_a_failure_that_is_shown_is_none(tmp_path):
    assert differences_of(tmp_path, "    $ echo 'ol2r run: no' >&2; false\n    ol2r run: no\n") == [False]


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("run 0123456789", "run 0123456780", False),
        ("time 3.9s at 1,298 rounds/s", "time 14 min at 9 rounds/s", True),
        ("time 3.9s (cpu, 1 thread)", "time 7.1s (cpu, 1 thread), 34.9s to start", True),
        ("pdgd-1  2000/2000  1,446.9  3.5s", "pdgd-1  2000/2000  7.9  14 min", True),
        ("pdgd  0.5  0.7 ..", "pdgd  0.5  0.7  9.1", True),
        ("pdgd  0.5  0.7 ..", "pdgd  0.6  0.7  9.1", False),
        ("6 jobs in 25.3s: 6 done", "6 jobs in 1m 17s: 6 done", True),
        ("6 jobs in 25.3s: 6 done", "6 jobs in 2h 1m: 5 done", False),
        ("NDCG .5075 ± 0.0100", "NDCG .5174 ± 0.0250", True),
        ("NDCG 0.5075", "NDCG 0.5475", False),
        ("621.07 ↑", "640.00 ↑", True),
        ("621.07 ↑", "621.07", False),
        ("5,000 rounds", "5,001 rounds", False),
        ("a   b", "a b", True),
        ("made 2026-11-28 10:00", "made 2027-01-01 11:30", True),
    ],
)
def test_lines_are_compared_by_words_and_numbers(shown, printed, is_same):
    assert (difference(Typed("", [shown], 0), Printed([printed], 0)) == "") is is_same


def test_commands_below_the_comment_are_slow(tmp_path):
    page = page_of(tmp_path, "    $ echo a\n    a\n\n<!-- slow: two minutes -->\n\n    $ echo b\n    $ echo c\n")
    assert [len(page.steps(None, slow)) for slow in (False, True)] == [1, 3]


def test_a_line_that_is_written_again_is_shown_once(tmp_path):
    assert differences_of(tmp_path, "    $ printf '  working ..\\rdone       \\n'\n    done\n") == [False]


def test_two_points_stand_for_any_lines():
    shown = Typed("", ["first", "..", "last"], 0)
    assert not difference(shown, Printed(["first", "last"], 0))
    assert not difference(shown, Printed(["first", "a", "", "b", "last"], 0))
    assert difference(shown, Printed(["first", "last", "more"], 0))


@pytest.mark.parametrize(
    ("line", "is_understood"),
    [
        ("ol2r run rounds=10 -m seed=0,1   # ten", True),
        ("ol2r run ronds=10", False),
        ("ol2r run RUN ronds=FOLDER", True),  # a synopsis
        ("ol2r run dataset=mq2008 dataset.path=nowhere", True),  # the data are not there
        ("ol2r report outputs --figure learning_curve", True),
        ("ol2r report outputs --fgure learning_curve", False),
        ("ol2r compare", False),
        ("make test ARGS=tests/click", True),
        ("make everything", False),
        ("pip install '.[plots,search]'", True),
        ("pip install 'ol2r[plot]'", False),
        ("import ol2r_cli", True),
    ],
)
def test_plain_commands_that_do_not_exist_are_found(tmp_path, monkeypatch, line, is_understood):
    monkeypatch.chdir(tmp_path)
    assert (page_of(tmp_path, f"    {line}\n").not_understood(tmp_path) == []) is is_understood


def test_blocks_of_code_that_are_not_indented_are_none(tmp_path):
    page = page_of(tmp_path, "```python\n    $ no\n```\n\n    $ yes\n    shown\n\ntext\n")
    (typed,) = (typed for block in page.blocks for typed in block.typed())
    assert (typed.command, typed.shown, typed.number) == ("yes", ["shown"], 6)
    assert isinstance(page.blocks[0], Block)
