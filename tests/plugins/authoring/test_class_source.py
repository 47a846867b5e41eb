"""The source of a copied class has everything of its module that the class uses."""

from __future__ import annotations

import inspect

from ol2r_cli.plugins.authoring.class_source import copied_class
from ol2r_cli.ranker import refitted


def test_constants_that_one_line_defines_are_copied():
    """`FIT, AUTHORS = ..`, which the constructor compares."""
    source = copied_class(inspect.getsource(refitted), refitted.RefittedRanker)
    assert "\nFIT, AUTHORS = " in source
