"""Hashes of source: equal for what means the same, different for everything else."""

from __future__ import annotations

import ast

import pytest

from ol2r_cli.run.source_hash import hash_of_file, hash_of_tree, imports_of, parse

SOURCE = '''\
"""A module."""
from a import b


class C(b):
    """A class."""

    x: int = 1

    def f(self, y=(1, 2), *, z=None, **more):
        """A method."""
        if y: return f"{y!r:>{z}} and 'more'"
        return [1, 2.0, "three", b"four", None, ..., -1j]
'''


def digest(text: str) -> str:
    return hash_of_tree(parse(text, "file.py"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""A module."""\n', "# a comment\n\n\n"),
        ('    """A class."""\n', ""),
        ('        """A method."""\n', "        # nothing\n"),
        ('"""A method."""', '"""Another text."""\n        pass'),
        ('"three"', "'thr' 'ee'"),
        ("(1, 2)", "(\n    (1),\n    2,\n)"),
        ("if y: return", "if (y):\n            return"),
        ("[1, 2.0", "[1,\n  2.00"),
        ("x: int = 1\n", "x: int = 1;\n"),
        ("f\"{y!r:>{z}} and 'more'\"", "f'{y!r:>{z}} ' \"and 'more'\""),
    ],
)
def test_what_means_the_same_has_the_same_hash(before, after):
    assert before in SOURCE
    assert digest(SOURCE.replace(before, after)) == digest(SOURCE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x: int = 1", "x: int = 2"),
        ("x: int = 1", "x: int = True"),
        ("x: int = 1", "x: float = 1"),
        ("2.0", "2"),
        ('b"four"', '"four"'),
        ("None, ...", "..., None"),
        ("return f", "return None\n        f"),
        ("z=None", "z"),
        ("*, z=None, **more", "z=None, *more"),
        ("!r", "!s"),
        ("-1j", "1j"),
        ("import b", "import b as d"),
        ("from a", "from .a"),
        ("class C(b)", "class C(b, metaclass=b)"),
    ],
)
def test_what_means_something_else_has_another_hash(before, after):
    assert before in SOURCE
    changed = (
        SOURCE.replace("*, z=None, **more", "z=None, *more") if after == "*more" else SOURCE.replace(before, after)
    )
    assert digest(changed) != digest(SOURCE)


def test_the_hash_is_public():
    """Ids contain it, so that it must be the same in every version of ol2r and of Python."""
    assert digest(SOURCE) == "087756bfc176"


def test_every_field_counts(tmp_path):
    """`None` and empty lists are left out, but an entry that is None within a list has a place."""
    assert digest("f(a, *b)") != digest("f(*b, a)")
    assert digest("{**a, b: c}") != digest("{b: c, **a}")
    assert digest("def f(*, a=1, b): 0") != digest("def f(*, a, b=1): 0")
    assert digest("return_ = ()") != digest("return_ = []")
    assert digest("for a in b: pass\nelse: pass") == digest("for a in b: ...")
    assert digest("try: a\nfinally: b") != digest("try: a\nexcept: b")


def test_imports_are_found_wherever_they_are(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        "import a.b, c as d\nfrom . import e\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import never\nelse:\n    import other\n"
        "def f():\n    from ..g.h import i, j\n    with x:\n        from k import *\n"
    )
    found = {(item.level, item.module, item.names, item.binds_top) for item in imports_of(file)}
    assert found == {
        (0, "a.b", (), True),
        (0, "c", (), False),
        (1, "", ("e",), False),
        (0, "typing", ("TYPE_CHECKING",), False),
        (0, "other", (), True),
        (2, "g.h", ("i", "j"), False),
        (0, "k", ("*",), False),
    }


def test_a_file_is_read_again_when_it_has_changed(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("a = 1\n")
    first = hash_of_file(file)
    file.write_text("a = 12\n")
    assert hash_of_file(file) == digest("a = 12") != first


@pytest.mark.parametrize("text", ["def f(:\n", "a = '\0'\n"])
def test_what_is_no_python_is_an_error_of_one_line(tmp_path, text):
    file = tmp_path / "module.py"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"module\.py must be Python source, since its hash is .*, got: ") as error:
        hash_of_file(file)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"nowhere\.py must be readable"):
        hash_of_file(tmp_path / "nowhere.py")


def test_positions_are_in_no_hash():
    tree = ast.parse(SOURCE)
    assert hash_of_tree(ast.increment_lineno(tree, 100)) == digest(SOURCE)


def test_an_f_string_may_have_its_text_in_pieces():
    """As versions of Python have it that differ in where they split the text."""
    pieces, whole = ["a", "", "b"], ["ab"]
    trees = [ast.JoinedStr([ast.Constant(text) for text in texts]) for texts in (pieces, whole)]
    assert hash_of_tree(trees[0]) == hash_of_tree(trees[1])
