"""Classes in place of choices, from Python: what is run, under which id, and what is refused."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import api as ol2r
from ol2r_cli.click.models import DependentClick
from ol2r_cli.columns import Column
from ol2r_cli.fairness.by_merit import NoFairness
from ol2r_cli.interfaces import Measure
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import GradientRanker
from tests.program import python
from tests.worlds import handmade

SMALL = {"dataset.queries": {"train": 12, "validation": 4, "test": 4}, "dataset.documents": 12, "dataset.features": 6}


class Stepper(GradientRanker):
    """Steps for misplaced pairs."""

    pairs = "matching"

    def __init__(self, rate: float = 0.5, model=None):
        super().__init__(model or Linear(), learning_rate=rate, decay=1.0)

    def learn(self, interaction, random):
        margins = self.margins(interaction)
        wrong = interaction.preferences.valid & (margins <= 0.1)
        self.move(self.pair_gradient(interaction, wrong.to(margins.dtype)), wrong.any(1))


class Needy(Stepper):
    """Has a setting without a default."""

    def __init__(self, rate):
        super().__init__(rate)


class Clicked(Measure):
    """Clicks times a factor."""

    trace = (Column("clicked"),)

    def __init__(self, factor: float = 1.0):
        super().__init__()
        self.factor = factor

    def of_rounds(self, rounds):
        return {"clicked": self.factor * rounds.clicks.sum(2)}


class Data:
    """A dataset with a setting."""

    def __init__(self, queries: int):
        self.queries = queries

    def load(self):
        return handmade([[0, 1, 2, 0]] * self.queries)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*settings, **more) -> ol2r.Run:
    return ol2r.run(SMALL, *settings, **{"rounds": 30, "evaluate_every": 10, "click": "navigational", **more})


def test_a_class_is_run_under_its_name():
    found = run({"ranker.rate": 0.25}, ranker=Stepper)
    command = found.manifest["command"]
    assert re.match(r"ol2r\.run\(.*, ranker=Stepper\)", command), "it is none of a shell"
    assert "ranker.rate=0.25" in command
    assert "--config-dir" not in command, "no other process has the folder"
    assert found.choices["ranker"] == "Stepper"
    assert found.path.name == f"Stepper-navigational-{found.id}"
    assert found.settings["ranker"] == {"_target_": f"{__name__}.Stepper", "rate": 0.25, "model": None}
    assert list(found.manifest["code"]) == ["ranker"]
    assert found.trained_ranker.deployed.shape == (1, 6)
    assert [path.name for path in Path().iterdir()] == ["outputs"]


@pytest.mark.parametrize(
    ("settings", "last"),
    [
        (["ranker=pdgd", Stepper], "Stepper"),
        ([{"ranker": "pdgd"}, {"ranker": Stepper}], "Stepper"),
        ([Stepper, "ranker=pdgd"], "pdgd"),
        ([{"ranker": Stepper}, {"ranker": "pdgd"}], "pdgd"),
    ],
)
def test_the_last_of_classes_and_text_counts(settings, last):
    """A job decides over what is common to all, whether a class or text."""
    assert ol2r.compose(SMALL, *settings).choices["ranker"] == last
    measures = ol2r.compose(SMALL, {"measures": ["ndcg"]}, {"measures": ["ndcg", Clicked]}).settings["measures"]
    assert measures == ["ndcg", "Clicked"]


def test_the_settings_of_a_class_are_part_of_the_id():
    given = [({"ranker.rate": 0.25, "ranker": Stepper},), (Stepper, {"ranker.rate": 0.25})]
    default = [({"ranker.rate": 0.5, "ranker": Stepper},), (Stepper,)]  # which knows its group
    ids = [{ol2r.experiment(SMALL, *settings).id for settings in same} for same in (given, default)]
    assert [len(same) for same in ids] == [1, 1]
    assert ids[0] != ids[1]


def test_a_class_of_every_role_and_one_within_another():
    settings = {"click": DependentClick, "dataset": Data, "dataset.queries": 9, "ranker.rate": 0.25}
    settings |= {"click.click": [0.0, 0.5, 0.5, 0.9, 1.0], "click.stop": [0.0] * 5, "click.tables": {}}
    settings |= {"click.stop_without_click": False}
    settings |= {"ranker.model": {"_target_": "ol2r_cli.ranker.model.linear.Linear"}}
    found = ol2r.run(settings, rounds=20, evaluate_every=10, ranker=Stepper, fairness=NoFairness)
    assert [found.choices[group] for group in ("dataset", "click")] == ["Data", "DependentClick"]
    assert found.settings["dataset"]["queries"] == 9
    assert found.settings["ranker"]["model"] == {"_target_": "ol2r_cli.ranker.model.linear.Linear"}
    assert found.trace["query"].max() < 9


def test_classes_in_the_list_of_measures():
    found = run({"measure.Clicked.factor": 0.5}, measures=["ndcg", Clicked], replicas=2)
    assert found.trace["clicked"].to_list() == [0.5 * clicks for clicks in found.trace["clicks"]]
    text = found._repr_markdown_()  # what a notebook displays
    assert all(part in text for part in ("| test NDCG@10 |", "| clicked | ", "±"))


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> list[ol2r.Run]:
    """Two seeds of a class with two rates, and of another ranker."""
    rankers = [{"ranker": Stepper, "ranker.rate": 0.1}, {"ranker": Stepper, "ranker.rate": 0.4}, "ranker=random"]
    jobs = ol2r.grid({"job": rankers, "seed": range(2)})
    settings = {**SMALL, "output_dir": tmp_path_factory.mktemp("swept"), "rounds": 20}
    return ol2r.sweep(([job["job"], {"seed": job["seed"]}, settings] for job in jobs), launcher={"launcher.jobs": 2})


def test_a_sweep_of_classes(swept):
    manifest = swept[0].manifest
    assert manifest["command"].startswith("ol2r.run(ranker=Stepper, ranker.rate=0.1, ")
    assert "--config-dir" not in manifest["command"]
    assert {"ranker", "ranker.rate", "seed", "rounds"} <= {*manifest["typed"]}
    assert [each.settings["ranker"].get("rate") for each in swept] == [0.1, 0.1, 0.4, 0.4, None, None]
    alone = ol2r.run(SMALL, {"ranker.rate": 0.4}, ranker=Stepper, seed=1, rounds=20)
    assert alone.id == swept[3].id, "alone and in a sweep"


def test_classes_are_compared_under_their_names(swept):
    report = ol2r.compare(*swept, baseline="random")
    assert "Stepper" in repr(report)
    assert "rate=0.4" in report._repr_markdown_()
    assert report.frame()["ranker"].to_list().count("Stepper") == 2


class Lern(GradientRanker):
    """Has a slip in the name of its method."""

    def __init__(self):
        super().__init__(Linear(), learning_rate=0.1, decay=1.0)

    def lern(self, interaction, random):
        """Is never called."""


def test_a_class_is_held_to_the_laws():
    report = ol2r.check(Stepper, {"ranker.rate": 0.25})
    assert report.ok, report
    assert not report.notes
    assert ol2r.check(measure=Clicked).ok
    (violation,) = ol2r.check(Lern).violations
    assert "Lern must define `learn`" in violation.difference


class Held(Stepper):
    """Has an object as a default."""

    def __init__(self, held=Linear()):  # noqa: B008
        super().__init__()


def local_class() -> type:
    class Local(Stepper):
        """Is defined in a function."""

    return Local


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ranker": Needy}, "ranker.rate"),
        ({"measures": ["ndcg", type("Other", (Needy,), {})]}, "Other must be defined at the top level"),
        ({"ranker": local_class()}, "Local must be defined at the top level of a module or a notebook, got "),
        ({"ranker": Clicked}, "ranker._target_ must be a class that is ol2r_cli.interfaces.Ranker"),
        (
            {"ranker": Stepper(0.5)},
            "ranker must be a class, got an object of Stepper: type ranker=Stepper, {'ranker.rate': ..}",
        ),
        (
            {"measures": [Clicked(0.5)]},
            "measure must be a class, got an object of Clicked: "
            "type measures=[Clicked], {'measure.Clicked.factor': ..}",
        ),
        (
            {"dataset": Data(9)},
            "dataset must be a class, got an object of Data: type dataset=Data, {'dataset.queries': ..}",
        ),
        ({"fairness": NoFairness()}, "fairness must be a class, got an object of NoFairness: type fairness=NoFairness"),
        ({"ranker": Held}, "Held(held=..) must be a number, text, a list or a mapping of such settings, got <"),
        ({"ranker": object()}, "ranker must be a number, text, true, false, null, a list or a mapping, got <object"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_cannot_be_passed_is_told_in_one_line(settings, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}") as error:
        run(settings)
    assert "\n" not in str(error.value)
    assert not Path("outputs").exists()


NOTEBOOK = '''
from ol2r_cli import api as ol2r
from tests.plugins.python.test_passed_classes import SMALL, Stepper

class Mine(Stepper):
    """As in a notebook: another process can neither import nor read it."""

    def __init__(self, rate=FACTOR):
        super().__init__(rate)

class Slow(Mine):
    pass

if not number:
    each = [{"ranker": Mine, "ranker.rate": 0.1}, {"ranker": Mine}, {"ranker": Slow}]
    runs = ol2r.sweep([{**SMALL, **job} for job in each], rounds=20)
    print(*(run.id for run in runs))
print(ol2r.run(SMALL, {"ranker.rate": 0.1}, ranker=Mine, rounds=20).id)
'''


def test_classes_of_a_notebook_run_in_processes_of_a_sweep(tmp_path):
    other_text = NOTEBOOK.replace("As in a notebook", "With another docstring")
    changed = NOTEBOOK.replace("super().__init__(rate)", "super().__init__(2 * rate)")
    cells = f"""
        import linecache
        FACTOR = 0.3
        for number, text in enumerate({[NOTEBOOK, other_text, changed]!r}):
            name = f"<cell {{number}}>"
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            exec(compile(text, name, "exec"))
    """
    done = python("-c", textwrap.dedent(cells), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    *swept, alone, another_docstring, changed_code = done.stdout.split()
    assert len({*swept}) == 3
    assert alone == swept[0]
    assert len({*swept, another_docstring, changed_code}) == 5, "another text of the cell is another run"
    traces = [pl.read_parquet(path) for path in sorted(tmp_path.glob("outputs/*/*/trace.parquet"))]
    assert [len(trace) for trace in traces] == [20] * 5


def test_rounds_that_nobody_measures_are_told():
    simulation = ol2r.experiment(SMALL, rounds=100).simulation()
    with pytest.raises(ValueError, match=r"call measurement.measures\(\) when it is full\(\)"):
        list(simulation.play())
