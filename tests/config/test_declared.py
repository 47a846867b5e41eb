"""Values are checked by the source of classes, before these are imported, exactly as they are with the classes."""

from __future__ import annotations

import pytest

from ol2r_cli.config.catalogue import Catalogue, targets
from ol2r_cli.config.declared import check_typed, declared_by
from ol2r_cli.config.instantiate import import_target
from ol2r_cli.config.ranges import allowed_by, annotations_of, keywords
from ol2r_cli.plugins import run_kinds
from tests.program import python


@pytest.mark.parametrize("kind", run_kinds())
def test_the_source_of_a_class_declares_what_the_class_does(kind):
    choices = [choice for group in Catalogue([], kind).choices.values() for choice in group.values()]
    named = {target for choice in choices for _, target in targets(choice.content) if target.startswith("ol2r_cli.")}
    for target in {*named, run_kinds()[kind].settings}:
        imported = import_target(target)
        right = {
            name: allowed_by(kind) for name, kind in annotations_of(imported).items() if name in keywords(imported)
        }
        assert {name: allowed_by(kind) for name, kind in declared_by(target).items()} == right, target
        assert right or not keywords(imported), target


def test_what_is_unknown_without_an_import_is_not_checked():
    settings = {"rounds": "x", "mine": {"_target_": "my_module.Mine", "l2": "x"}, "plain": {"l2": "x"}, "note": "x"}
    check_typed(settings, ["mine.l2", "plain.l2", "nowhere.l2", "nothing", "mine.l2.l3", "note"], "ol2r_cli.no.Such")
    assert declared_by("torch.nn.Linear") == {}


@pytest.mark.parametrize("words", ["rounds=abc", "ranker.l2=-1", "-m seed=1,2 rounds=1e3", "-m seed=1,2 rnds=3"])
def test_a_wrong_value_is_said_before_torch_is_imported(words, tmp_path):
    done = python("-X", "importtime", "-m", "ol2r_cli", "run", *words.split(), folder=tmp_path)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert line.startswith("ol2r run: ")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"torch", "numba", "polars", "numpy"}
    assert list(tmp_path.iterdir()) == []
