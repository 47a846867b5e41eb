"""Every law of measures is broken by a measure that breaks it, and the shipped measures keep all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from ol2r_cli.columns import Column
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.contracts.laws import check
from ol2r_cli.interfaces import Measure


class Nothing(Measure):
    """Declares no column."""


class Undeclared(Measure):
    trace = (Column("mine"),)

    def of_rounds(self, rounds):
        return {"other": rounds.clicks.sum(2)}


class OneForAll(Measure):
    trace = (Column("mine"),)

    def of_rounds(self, rounds):
        return {"mine": rounds.clicks.sum((1, 2))}


class WithoutLists(Measure):
    evaluation = (Column("mine"),)


class Divides(Measure):
    trace = (Column("mine"),)

    def of_rounds(self, rounds):
        return {"mine": rounds.shown.sum(2) / rounds.clicks.sum(2)}


class Accumulates(Measure):
    trace = (Column("mine", summary="last"),)

    def of_rounds(self, rounds):
        return {"mine": rounds.clicks.sum(2).cumsum(0)}


class MeanOfReplicas(Measure):
    trace = (Column("mine"),)

    def of_rounds(self, rounds):
        return {"mine": rounds.clicks.sum(2).double().mean(1, keepdim=True).expand(rounds.query.shape)}


class CountsPlaces(Measure):
    evaluation = (Column("mine"),)

    def of_lists(self, lists):
        return {"mine": (lists.labels > 0).double().mean(-1)}


class KeepsAttribute(Measure):
    """Its running total survives a call, and not a checkpoint."""

    trace = (Column("mine", summary="last"),)

    def setup(self, context, best):
        self.total = torch.zeros(context.replicas, dtype=torch.float64)

    def of_rounds(self, rounds):
        sums = self.total + rounds.clicks.sum(2).cumsum(0)
        self.total = sums[-1].clone()
        return {"mine": sums}


class Sound(KeepsAttribute):
    def setup(self, context, best):
        self.register_buffer("total", torch.zeros(context.replicas, dtype=torch.float64))


BROKEN = {
    Nothing: ("columns", "declares no column"),
    Undeclared: ("columns", "must return columns of mine, got other"),
    OneForAll: ("columns", "as a tensor"),
    WithoutLists: ("columns", "a value for each list"),
    Divides: ("values", "mine is infinite"),
    Accumulates: ("rounds together", "the column mine"),
    MeanOfReplicas: ("replicas apart", "the column mine"),
    CountsPlaces: ("padding of lists", "the column mine"),
    KeepsAttribute: ("state in buffers", "the measure mine"),
}


def report(cls: type[Measure], folder: Path):
    (folder / "measure").mkdir(exist_ok=True)
    (folder / "measure" / "my_own.yaml").write_text(f"# Ours.\n_target_: {__name__}.{cls.__name__}\n")
    assert __name__ in sys.modules
    return check(["measure=my_own", f"--config-dir={folder}"])


@pytest.mark.parametrize("cls", BROKEN)
def test_a_broken_measure_breaks_its_law(cls: type[Measure], tmp_path: Path):
    law, words = BROKEN[cls]
    violation = report(cls, tmp_path).violations[0]
    assert violation.law == law
    assert words in violation.difference
    assert violation.causes or law == "columns"


def test_a_sound_measure_keeps_them_all(tmp_path: Path):
    found = report(Sound, tmp_path)
    assert found.ok, found
    assert "rounds together" in found.passed


@pytest.mark.parametrize("name", Catalogue().choices["measure"])
def test_the_measures_of_ol2r_keep_them_all(name: str):
    found = check([f"measure={name}", "trace_regret=true"])
    assert found.ok, found
