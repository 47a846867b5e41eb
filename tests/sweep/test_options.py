"""Our own options of `ol2r run`, and what Hydra is not shown of a sweep."""

from __future__ import annotations

import pytest

from ol2r_cli.sweep.options import Options, held_back, own_options


def test_options_are_taken_out_wherever_they_stand():
    typed = [
        "--dry-run",
        "a=1",
        "--paired",
        "x,y",
        "-m",
        "--keep-going",
        "b=2",
        "--paired=u,v,w",
    ]
    options, rest = own_options(typed)
    assert options == Options(dry_run=True, keep_going=True, paired=(("x", "y"), ("u", "v", "w")))
    assert rest == ["a=1", "-m", "b=2"]
    assert options.for_hydra() == ["hydra.sweeper.paired=[[x,y],[u,v,w]]"]
    assert Options().for_hydra() == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--paired a,b a=1", "--paired is for several runs: add -m"),
        ("--keep-going", "--keep-going is for several runs: add -m"),
        ("-m --paired a", "--paired must be followed by two or more settings, as in A,B, got 'a'"),
        ("-m --paired", "got ''"),
    ],
)
def test_options_that_do_not_fit(line: str, words: str):
    with pytest.raises(ValueError, match=words):
        own_options(line.split())


@pytest.mark.parametrize(
    ("line", "held"),
    [
        ("-m ranker=pdgd,dbgd ranker.learning_rate=.1 click=nav", ["ranker.learning_rate=.1"]),
        ("-m ranker/model=linear,mlp ranker.model.width=6 ranker.l2=1", ["ranker.model.width=6"]),
        ("-m ranker=pdgd ranker.learning_rate=.1,.2", []),
        ("-m ranker=pdgd,dbgd +ranker.x=1 ~ranker.y --config-dir own", ["+ranker.x=1"]),
        ("-m ranker=pdgd,dbgd ranker.learning_rate=.1 hydra/sweeper=basic", []),
        ("-m ranker=pdgd,dbgd ranker.learning_rate=.1 --cfg job", []),
    ],
)
def test_settings_of_swept_groups_are_kept_from_hydra(line: str, held: list[str]):
    shown, kept = held_back(line.split())
    assert kept == held
    assert sorted(shown + kept) == sorted(line.split())
