"""From `measures=[..]` to the measures of a run, and to its id."""

from __future__ import annotations

import pytest

from ol2r_cli.config.composer import Composer, compose
from ol2r_cli.run.identity import identity
from tests.worlds import TINY

DEFAULT = "measures=[ndcg,regret,blocks,unfairness]"


def names(*overrides: str) -> list[str]:
    return list(compose([*TINY, *overrides]).settings["measure"])


def id_of(*overrides: str) -> str:
    return identity(compose([*TINY, *overrides]).settings, "data", {})


@pytest.mark.parametrize(
    ("overrides", "taken"),
    [
        ([], ["ndcg", "blocks", "unfairness"]),
        ([DEFAULT], ["ndcg", "blocks", "unfairness"]),
        (["trace_regret=true"], ["ndcg", "regret", "blocks", "unfairness"]),
        (["trace_blocks=false"], ["ndcg", "unfairness"]),
        (["measures=[ndcg,regret]"], ["ndcg", "regret"]),
        (["measures=[ndcg]", "trace_regret=true"], ["ndcg", "regret"]),
        (["measures=[blocks,ctr]", "trace_blocks=false"], ["ctr"]),
        (["measures=[err,err@5,mrr@1]"], ["err", "err@5", "mrr@1"]),
        (["measures=[]"], []),
    ],
)
def test_a_list_takes_what_it_names(overrides: list[str], taken: list[str]):
    assert names(*overrides) == taken
    settings = compose([*TINY, *overrides]).settings
    assert (settings["trace_regret"], settings["trace_blocks"]) == ("regret" in taken, "blocks" in taken)


def test_a_number_is_the_cutoff():
    nodes = compose(["measures=[err,err@5]"]).settings["measure"]
    assert [node["cutoff"] for node in nodes.values()] == [10, 5]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("measures=[ndgc]", r"measures must be some of amortised_unfairness, .*, got 'ndgc': did you mean ndcg\?"),
        ("measures=[err@0]", "measures must have a whole number above 0 behind @, as in err@5, got 'err@0'"),
        ("measures=[ctr@5]", "measures must have ctr without a number, got 'ctr@5': it has no cutoff"),
        ("measures=[err,err]", "measures must have each name once, got 'err' twice"),
        ("measures=ndcg", r"measures must be a list of names, such as \[ndcg,err@5\], got 'ndcg'"),
        ("measures=[[ndcg]]", r"measures must be a list of names, .*"),
        ("measure=err", r"measures are chosen by a list: type measures=\[ndcg,err\]"),
        ("measure.err.cutoff=5", r"measure.err.cutoff must be a setting of .*: type measures=\[ndcg,err@5\], or .*"),
    ],
)
def test_a_bad_list_is_one_line(override: str, message: str):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Composer()([override])


def test_the_id_depends_on_the_measures_that_are_taken_and_not_on_how_they_are_typed():
    assert id_of() == id_of(DEFAULT) == id_of("measures=[unfairness,blocks,ndcg]")
    assert id_of("trace_regret=true") == id_of("measures=[blocks,ndcg,regret,unfairness]")
    assert id_of("trace_blocks=false") == id_of("measures=[ndcg,unfairness]")
    lists = ["[ndcg,unfairness,err]", "[ndcg,unfairness,err@5]", "[ndcg]", "[unfairness]", "[]", "[err]", "[ndcg,err]"]
    assert len({id_of(), *(id_of(f"measures={each}") for each in lists)}) == len(lists) + 1
    assert id_of("measures=[ndcg,unfairness,err@10]") != id_of(), "it has other columns"


def test_ids_of_before_measures_were_choices_are_the_same():
    settings = compose(TINY).settings
    before = {name: value for name, value in settings.items() if name not in ("measure", "measures")}
    assert identity(before, "data", {}) == identity(settings, "data", {})
