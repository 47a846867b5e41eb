"""The functions of sweeps do what the documentation of Hydra says, "Extended Override syntax"."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.grammar import expand, parse

# What is typed, and the values of the jobs.
SWEEPS = """
1,2,3 | 1 2 3
choice(1,2,3) | 1 2 3
choice(mysql,postgresql) | mysql postgresql
choice(1) | 1
choice(null,1) | null 1
choice([ndcg],[ndcg,ctr]) | [ndcg] [ndcg,ctr]
{a:1},{a:2} | {a:1} {a:2}
'1','2' | '1' '2'
choice('1','2') | '1' '2'
1e-3,0.10 | 0.001 0.1
true,False | true false
range(5) | 0 1 2 3 4
range(0,5) | 0 1 2 3 4
range(start=1,stop=3) | 1 2
range(0,5,2) | 0 2 4
range(0,10,3.3) | 0.0 3.3 6.6 9.9
range(10,0,-3) | 10 7 4 1
range(1.3,0,-0.5) | 1.3 0.8 0.3
range(0.3,0.9,0.3) | 0.3 0.6
range(0,1,0.1) | 0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9
range(-1,0,0.25) | -1.0 -0.75 -0.5 -0.25
range(1e-5,9e-5,2e-5) | 1e-05 3e-05 5e-05 7e-05
sort(1,3,2) | 1 2 3
sort(1,3,2,reverse=true) | 3 2 1
sort(choice(3,1,2)) | 1 2 3
sort(sweep=choice(3,1,2)) | 1 2 3
sort(choice(3,1,2),reverse=true) | 3 2 1
sort('2','1') | '1' '2'
sort(range(8,1,-3)) | 2 5 8
sort(sweep=range(8,1,-3)) | 2 5 8
sort(range(8,1,-3),reverse=true) | 8 5 2
sort(range(1,8,3)) | 1 4 7
sort(range(1,8,3),reverse=true) | 7 4 1
sort(range(1.3,0,-0.5)) | 0.3 0.8 1.3
sort(range(1.3,0,-0.5),reverse=true) | 1.3 0.8 0.3
sort(shuffle(3,1,2)) | 1 2 3
sort(shuffle(range(10,0,-1))) | 1 2 3 4 5 6 7 8 9 10
tag(foo,bar,choice(1,2)) | 1 2
tag(foo,range(2)) | 0 1
tag(foo,sort(range(5,0,-2))) | 1 3 5
int(1.5,2.5) | 1 2
int(choice(1.5,'2')) | 1 2
int(range(1.0,4.0)) | 1 2 3
int(range(0.5,6,1.5)) | 0 1 2 3 4 5
float(range(1,4)) | 1.0 2.0 3.0
float(1,2) | 1.0 2.0
str(0,1.0,a) | '0' '1.0' a
str([1],[2]) | ['1'] ['2']
bool(0,1) | false true
int(sort(range(3.5,0,-1))) | 0 1 2 3
"""

# What is typed, and words of the line that answers.
REFUSED = """
choice() | seed=choice() cannot be computed: empty choice
choice(choice(1,2)) | nesting
choice(range(3)) | must be values, or one function with all of them, such as seed=range(0,3)
1,range(3,5) | seed=1,range(3,5) must be values
range(3,0) | seed=range(3,0) has no values: type range(3,0,-1)
range(0,3,-1) | seed=range(0,3,-1) has no values: type range(0,3,1)
range(0) | seed=range(0,0) has no values: STOP itself is left out
sort(range(10,1)) | range(10,1) has no values: type range(10,1,-1)
range(0,3,0) | a STEP that is not 0
range(0,inf) | must be range(START,STOP,STEP) of numbers
range(nan,3) | must be range(START,STOP,STEP) of numbers
range(0,1e9) | at most 1,000,000 values, got 1,000,000,000
range(a,b) | seed=range(a,b) cannot be computed: range takes no such value
rnge(1,3) | there is no function rnge: did you mean range?
foo(1) | there is no function foo: choose from bool, choice, | 'seed="foo(1)"'
int(range(0,3,0.5)) | a STEP that is not 0
int(abc) | cannot be computed | 'abc'
str(range(3)) | Range can only be cast to int or float
bool(range(3)) | Range can only be cast to int or float
bool(a,1) | Cannot cast 'a' to bool
sort(pdgd,3) | sort takes values of one type
interval(0,1) | must list its values
tag(foo,interval(0,1)) | must list its values
glob(*) | glob(..) chooses among those of a group
"""

# Single values, and what is read.
CASTS: dict[str, Any] = {
    **{"int(3.14)": 3, "int(value=3.14)": 3, "int('10')": 10, "int(true)": 1, "int([1,[2.5]])": [1, [2]]},
    **{"float(10)": 10.0, "float('10.0')": 10.0, "float({a:10})": {"a": 10.0}},
    **{"str(10)": "10", "str(1e6)": "1000000.0", "str(true)": "true", "str({a:[0]})": {"a": ["0"]}},
    **{"bool(0)": False, "bool(10.0)": True, "bool('false')": False, "bool([0,1,2])": [False, True, True]},
    **{"sort([1,3,2])": [1, 2, 3], "sort(list=[1,3,2],reverse=true)": [3, 2, 1], "sort(1)": 1},
}


def rows(table: str) -> list[Any]:
    lines = [line.split(" | ") for line in table.strip().splitlines()]
    return [pytest.param(typed, *cells, id=typed) for typed, cells in ((first, [rest]) for first, *rest in lines)]


@pytest.mark.parametrize(("typed", "answer"), rows(SWEEPS))
def test_the_values_of_a_sweep(typed: str, answer: list[str]):
    assert expand(f"a={typed}") == [f"a={value}" for value in answer[0].split()]


@pytest.mark.parametrize(("typed", "answer"), rows(REFUSED))
def test_what_has_no_values_is_refused(typed: str, answer: list[str]):
    with pytest.raises(ValueError) as error:
        expand(f"seed={typed}")
    message = str(error.value)
    assert all(part in message for part in answer), message
    assert "\n" not in message


@pytest.mark.parametrize("typed", CASTS)
def test_the_value_of_a_cast(typed: str):
    read = parse(f"a={typed}").value()
    assert read == CASTS[typed]
    assert type(read) is type(CASTS[typed])


NUMBERS = st.integers(-(10**7), 10**7).map(lambda number: f"{number / 10**4:.4f}")
WHOLE = st.integers(-1000, 1000).map(str)


@settings(max_examples=50)
@given(NUMBERS | WHOLE, NUMBERS | WHOLE, NUMBERS | WHOLE, st.sampled_from(["", "sort", "sort reverse"]))
def test_numbers_of_a_range_are_added_as_they_are_typed(start: str, stop: str, step: str, order: str):
    first, end, by = map(Fraction, (start, stop, step))
    if by and abs((end - first) / by) > 100:
        step = f"{float((end - first) / 100):.6f}"
        by = Fraction(step)
    right: list[Fraction] = []
    while by and ((first + len(right) * by < end) if by > 0 else (first + len(right) * by > end)):
        right.append(first + len(right) * by)
    call = f"range({start},{stop},{step})"
    if order:
        call = f"sort({call},reverse=true)" if "reverse" in order else f"sort({call})"
        right.sort(reverse="reverse" in order)
    if not right:
        with pytest.raises(ValueError, match=r"has no values|STEP that is not 0"):
            expand(f"a={call}")
        return
    as_number = int if all("." not in typed for typed in (start, stop, step)) else float
    assert expand(f"a={call}") == [f"a={as_number(number)}" for number in right]


@pytest.mark.parametrize("typed", ["shuffle(1,2,3)", "int(shuffle(range(1,4)))", "shuffle(int(range(1.5,4)))"])
def test_shuffled_values_are_in_an_order_that_is_drawn(typed: str):
    random.seed(1)
    drawn = {tuple(expand(f"a={typed}")) for _ in range(100)}
    assert len(drawn) == 6, "every order of three values"
    assert all(sorted(order) == ["a=1", "a=2", "a=3"] for order in drawn)


def test_a_shuffled_list_is_drawn_once():
    random.seed(1)
    drawn = [expand("a=shuffle([1,2,3])") for _ in range(2)]
    assert all(parse(word).value() == parse(word).value() for (word,) in drawn)
    assert all("shuffle" not in word for (word,) in drawn)


def test_names_of_a_group_by_glob():
    composer = Composer()
    named = [job[0] for job in composer.jobs(["ranker=glob([p*,d*],exclude=pd*)"])]
    assert named == ["ranker=dbgd", "ranker=p2neurrank", "ranker=pairrank", "ranker=pbm_thompson", "ranker=pepairrank"]
    with pytest.raises(ValueError, match=r"^ranker must be one of batchrank, .*, got 'glob\(x\*\)'$"):
        composer.jobs(["ranker=glob(x*)"])
    with pytest.raises(ValueError, match="at most 1,000,000 jobs, got 100,000,000"):
        composer.jobs(["seed=range(10000)", "rounds=range(1,10001)"])
