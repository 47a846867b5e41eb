"""Every choice of every group keeps the laws of `ol2r_cli/plugins/check/`. A new YAML file is found by itself."""

from __future__ import annotations

import re

import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import Choice, config_dir, dotted
from ol2r_cli.plugins.check import role_laws
from ol2r_cli.plugins.check.laws import LAWS, check_composition, law_name
from ol2r_cli.plugins.check.role_laws import run_and_resume, settings
from ol2r_cli.plugins.check.small_world import Subject
from tests import choices
from tests.choices import ROUNDS, composition, held, play, refusal, seen, simulation

PROJECTED = ("ranker=nsgd", "ranker.projection=document_space")
FORGETFUL = [
    ("ranker=pairrank", "ranker.window=4"),
    ("ranker=pepairrank", "ranker.discount=0.8"),
    ("ranker=olranknet", "ranker.window=4"),
    ("ranker=ollambdarank", "ranker.discount=0.8"),
]
PYTORCH = "ranker.model.init=pytorch"
NETWORKS = [  # with what waits between refits, or is kept of every round
    ("ranker=ollambdarank", "ranker.every=4", "ranker.growth=1.1", "ranker.damping=0.1", "ranker.batch=16"),
    ("ranker=olranknet", "ranker.every=4"),
    ("ranker=olranknet", PYTORCH, "exploration.covariance=full"),
    ("ranker=olranknet", "exploration.tangent_at=refit"),
    ("ranker=p2neurrank", PYTORCH),
]
OTHER_NETWORKS = [
    ("ranker=olranknet", PYTORCH, "exploration.covariance=full", "exploration.tangent_at=refit"),
    *((f"ranker={name}", PYTORCH) for name in ("offline_network", "ollambdarank_gt")),
    *(
        (f"ranker={name}", "ranker/model=mlp", PYTORCH)
        for name in ("sgd_ranknet", "epsilon_greedy", "pdgd", "dbgd", "mgd", "ips_regression")
    ),
]
ESTIMATED = ("ranker=intervention_aware", "ranker.every=3", "ranker.propensities=estimated", "ranker.em.iterations=2")
IN_MEMORY = [law for law in LAWS["ranker"] if law not in (settings, run_and_resume)]
IN_DOUBLE = [law for law in IN_MEMORY if law is not role_laws.single_precision]  # whose loops take long to compile
OF_ONE_RUN = [settings, role_laws.shapes, role_laws.scores, role_laws.order, role_laws.padding_last, role_laws.clicks]
OF_ONE_RUN += [role_laws.snapshots, role_laws.order_of_documents]
OF_EACH_FAMILY = [  # which all laws are tried with; the slow test has every choice
    ("ranker=pairrank",),
    ("ranker=pepairrank", "ranker.discount=0.8"),
    ("ranker=mgd",),
    ("ranker=pdgd",),
    ("ranker=cascade_linucb",),
    ("ranker=ips_regression",),
    ("ranker=oracle",),
    ("ranker=olranknet",),
    ("ranker=pairrank", "fairness=fairexp"),
]


def test_every_file_says_in_its_first_line_what_it_is():
    for path in config_dir().glob("*/**/*.yaml"):
        assert len(Choice("", path.stem, path).header[0].split()) > 1, path


def test_every_preset_has_the_choices_and_values_that_it_states():
    for name in choices.names("experiment"):
        preset = Choice("experiment", name, config_dir() / "experiment" / f"{name}.yaml")
        whole = composition((f"experiment={name}",))
        assert all(OmegaConf.select(whole.config, setting) == value for setting, value in dotted(preset.values)), name
        assert preset.brings.items() <= whole.choices.items(), name


def test_choices_that_do_not_work_together_are_refused():
    refused = [pair for pair in [*choices.pairings(), *choices.arrangements()] if refusal(pair)]
    assert len(refused) > 50
    for overrides in refused:
        form = r"the (ranker|exploration|fairness) \w+ needs [^:]+: use (ranker|exploration)=\w+.*"
        assert re.fullmatch(form, refusal(overrides)), overrides
    with pytest.raises(ValueError, match=": use "):
        simulation(refused[0])


def test_the_small_world_has_lists_of_different_lengths():
    batches = [one.candidates.mask.sum(1) for one in play(simulation(("ranker=random",)))]
    assert len(batches) == ROUNDS
    assert sum(len(set(lengths.tolist())) > 1 for lengths in batches) > ROUNDS / 2


def every_choice():
    """Every choice whose packages are installed, and settings with code of their own."""
    wanted = [*choices.each_choice(), PROJECTED, ESTIMATED, *FORGETFUL, *NETWORKS]
    return [overrides for overrides in wanted if not choices.missing_package(overrides)]


@pytest.mark.parametrize("overrides", every_choice(), ids=" ".join)
def test_every_choice_keeps_the_laws_of_one_run(overrides):
    assert not refusal(overrides)
    report = held(overrides, OF_ONE_RUN)
    assert report.ok, report
    assert not report.left_out, report


def keeps_all_laws(overrides, folder):
    """Check all laws, and that those apply that should."""
    report = held(overrides, IN_DOUBLE)
    assert report.ok, report
    running = simulation(overrides)
    roles = (running.ranker, running.exploration, running.fairness)
    needs_labels = any(role.needs_labels for role in roles)
    assert report.left_out.keys() - {"learns", "stages"} == ({"labels"} if needs_labels else set()), report
    both = running.ranker.own_stages("learn"), running.exploration.own_stages("learn")
    assert ("stages" in report.passed) == (None not in both), report
    learns = running.ranker.generalises and not (needs_labels or {"ranker=random", "ranker=fixed"} & {*overrides})
    assert "learns" in report.passed or not learns, report
    if needs_labels:
        with torch.inference_mode():
            same, other = role_laws.under_both_labels(Subject(composition(overrides), ("ranker",), folder))
        assert seen(same.rounds) != seen(other.rounds), overrides


@pytest.mark.parametrize("overrides", OF_EACH_FAMILY, ids=" ".join)
def test_a_choice_of_each_family_keeps_all_laws(overrides, tmp_path):
    keeps_all_laws(overrides, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", every_choice(), ids=" ".join)
def test_every_choice_keeps_all_laws(overrides, tmp_path):
    keeps_all_laws(overrides, tmp_path)


@pytest.mark.slow
def test_every_choice_works_in_single_precision():
    for overrides in every_choice():
        report = held(overrides, [role_laws.single_precision])
        assert report.ok, report


@pytest.mark.parametrize("ranker", ["pepairrank", "olranknet"])
def test_a_run_goes_on_to_the_same_files(ranker):
    """A ranker with a history, and one with a network; the slow test has all combinations."""
    assert held((f"ranker={ranker}",), [run_and_resume]).passed == ("run and resume",)


@pytest.mark.parametrize("name", choices.names("click"))
def test_every_click_model_keeps_the_laws(name):
    laws = [role_laws.shapes, role_laws.clicks, role_laws.order, role_laws.repeatable]
    report = held(("ranker=random", f"click={name}"), laws)
    assert report.ok, report
    report = check_composition(composition((f"click={name}",)), ("click",), name, laws=[role_laws.stages])
    assert report.passed == ("stages",), report


def test_every_measure_keeps_the_laws():
    names = choices.names("measure")
    whole = composition((f"measures=[{','.join(names)}]",))
    report = check_composition(whole, [f"measure/{name}" for name in names], "all measures")
    assert report.ok, report
    assert not report.left_out, report


@pytest.mark.parametrize("name", choices.names("intent"))
def test_every_schedule_keeps_the_laws(name):
    report = check_composition(composition((f"intent={name}",)), ("intent",), f"intent={name}")
    assert report.ok, report


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_all_choices_that_work_together_keep_the_laws(part):
    for overrides in [*choices.combinations(), *OTHER_NETWORKS][part::8]:
        if not choices.missing_package(overrides):
            report = held(overrides, [*IN_MEMORY, run_and_resume])
            assert report.ok, report


def test_the_generated_dataset_keeps_the_laws():
    small = ("dataset=synthetic", "dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=12")
    report = check_composition(composition(small), ("dataset",), "dataset=synthetic")
    assert report.ok, report
    assert report.passed == tuple(law_name(law) for law in LAWS["dataset"])
