"""Rankers with a network keep the laws of their role with ranker.model.init=pytorch and with ranker.fit=authors."""

from __future__ import annotations

import pytest

from ol2r_cli.contracts.laws import LAWS
from ol2r_cli.contracts.role_laws import run_and_resume, settings
from tests.choices import held

IN_MEMORY = [law for law in LAWS["ranker"] if law not in (settings, run_and_resume)]
PYTORCH, AUTHORS = "ranker.model.init=pytorch", ("ranker.fit=authors", "ranker.authors.epochs=2")
BASELINES = ["sgd_ranknet", "epsilon_greedy", "pdgd", "dbgd", "mgd", "ips_regression"]


@pytest.mark.parametrize(
    "overrides",
    [
        ("ranker=olranknet", PYTORCH),
        ("ranker=olranknet", PYTORCH, "exploration.covariance=full"),
        ("ranker=olranknet", *AUTHORS),
        ("ranker=ollambdarank", *AUTHORS),
        ("ranker=p2neurrank", PYTORCH),
        *(pytest.param((f"ranker={name}", "ranker/model=mlp", PYTORCH), marks=pytest.mark.slow) for name in BASELINES),
        *(
            pytest.param((f"ranker={name}", PYTORCH), marks=pytest.mark.slow)
            for name in ("offline_network", "ollambdarank_gt")
        ),
        pytest.param(
            ("ranker=olranknet", *AUTHORS, "exploration.covariance=full", "exploration.tangent_at=refit"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=",".join,
)
def test_a_network_of_pytorch_keeps_the_laws(overrides):
    report = held(overrides, IN_MEMORY)
    assert report.ok, report


@pytest.mark.parametrize("ranker", ["olranknet", pytest.param("ollambdarank", marks=pytest.mark.slow)])
def test_a_run_goes_on_to_the_same_files(ranker):
    report = held((f"ranker={ranker}", *AUTHORS), [run_and_resume])
    assert report.passed == ("run and resume",), report
