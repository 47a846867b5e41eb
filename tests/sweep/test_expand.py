"""What a command line of lists comes to: products, and values that go together."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from ol2r_cli.sweep.plugin import BasicSweeper, expand


def parsed(line: str) -> list:
    return OverridesParser.create().parse_overrides(line.split())


@pytest.mark.parametrize(
    "line",
    ["a=1", "a=1,2 b=x c=range(0,3)", "a=1,2 a=3", "a=[1,2],[3] b='x,y'", "+a=1,2 ~b", "a={x:1},2"],
)
def test_without_pairs_it_is_the_product_that_hydra_makes(line: str):
    assert expand(parsed(line)) == BasicSweeper.split_arguments(parsed(line), None)[0]


def test_pairs_advance_together_and_the_rest_is_a_product():
    jobs = expand(parsed("a=1,2 z=0,1 b=x,y c=5"), [["a", "b"]])
    expected = [(a, z, b) for a, b in (("1", "x"), ("2", "y")) for z in "01"]
    assert jobs == [[f"a={a}", f"z={z}", f"b={b}", "c=5"] for a, z, b in expected]


def test_several_pairs():
    jobs = expand(parsed("a=1,2 b=x,y c=3,4,5 d=6,7,8"), [["b", "a"], ["c", "d"]])
    assert jobs == [[f"a={a}", f"b={b}", f"c={c}", f"d={c + 3}"] for a, b in ((1, "x"), (2, "y")) for c in (3, 4, 5)]


MISTAKES = {
    ("a=1,2 b=1,2,3", ("a", "b")): "--paired a,b must have equally many values: a has 2, b has 3",
    ("alpha=1,2 b=1,2", ("alpah", "b")): "there is no alpah=.. in this sweep: did you mean alpha?",
    ("a=1,2 b=1,2", ("a",)): "must be two or more settings",
}


@pytest.mark.parametrize(("line", "names"), MISTAKES)
def test_pairs_that_do_not_match(line: str, names: tuple[str, ...]):
    with pytest.raises(ValueError) as error:
        expand(parsed(line), [names])
    assert MISTAKES[line, names] in str(error.value)


def test_a_setting_is_of_one_pair():
    with pytest.raises(ValueError, match="may name b once"):
        expand(parsed("a=1,2 b=1,2 c=1,2"), [["a", "b"], ["b", "c"]])


def test_ranges_without_values_are_refused():
    with pytest.raises(ValueError, match="a=interval\\(0,1\\) must list its values, as in a=1,2,3"):
        expand(parsed("a=interval(0,1)"))
