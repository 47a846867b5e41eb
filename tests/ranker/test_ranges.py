"""Settings of rankers out of their ranges: each is refused in one line that names what to type."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from ol2r_cli.config.instantiate import build
from tests.worlds import tiny

REDUCTION = ("reduction", "max", "must be one of sum, mean, got 'max'")
FEEDBACK = ("feedback", "none", "must be one of first_click, last_click, all, got 'none'")
PAIRS = ("pairs", "some", "must be one of matching, adjacent, all, got 'some'")
LOSS = ("loss", "hinge", "must be one of ranknet, lambdarank, got 'hinge'")
RATE = ("learning_rate", 0, "must be above 0, got 0")
STEP = [
    RATE,
    ("decay", 0, "must be above 0 and at most 1, got 0"),
    ("decay", 1.5, "must be above 0 and at most 1, got 1.5"),
]
REFIT = [
    ("l2", -1, "must be 0 or more, got -1"),
    ("l2", float("nan"), "must be 0 or more, got nan"),
    ("steps", 0, "must be from 1 to 100000, got 0"),
    ("batch", 0, "must be null or 1 or more, got 0"),
    ("every", 0, "must be 1 or more, got 0"),
    RATE,
    REDUCTION,
]
NOISE = [
    ("members", 0, "must be 1 or more, got 0"),
    ("label_noise_variance", -0.1, "must be 0 or more, got -0.1"),
    ("label_noise_variance", float("nan"), "must be 0 or more, got nan"),
]
REFUSED = {
    "pairrank": [
        ("l2", 0, "must be above 0, got 0"),
        ("solver", "sgd", "must be one of newton, exact, lbfgs_restart, got 'sgd'"),
        ("window", 0, "must be null or 1 or more, got 0"),
        ("discount", 0, "must be above 0 and at most 1, got 0"),
        ("discount", 1.01, "must be above 0 and at most 1, got 1.01"),
        REDUCTION,
        PAIRS,
    ],
    "pepairrank": [
        ("l2", 0, "must be above 0, got 0"),
        ("deploy", "last", "must be one of mean, first, unperturbed, got 'last'"),
        *NOISE,
        REDUCTION,
        PAIRS,
    ],
    "sgd_ranknet": [*STEP, ("learning_rate", float("nan"), "must be above 0, got nan"), PAIRS],
    "pdgd": STEP,
    "mgd": [
        *STEP,
        ("delta", 0, "must be above 0, got 0"),
        ("delta", -1, "must be above 0, got -1"),
        ("candidates", 0, "must be 1 or more, got 0"),
    ],
    "nsgd": [
        *STEP,
        ("drawn", 0, "must be 1 or more, got 0"),
        ("memory", 0, "must be 1 or more, got 0"),
        ("avoided", -1, "must be 0 or more, got -1"),
        ("difficult_queries", -1, "must be 0 or more, got -1"),
        ("window", 0.5, "must be a whole number, got 0.5"),
        ("projection", "some", "must be one of none, document_space, got 'some'"),
        ("document_space.below", -1, "must be 0 or more, got -1"),
        ("document_space.earlier", 1.5, "must be a whole number, got 1.5"),
        ("document_space.normalise", 1, "must be true or false, got 1"),
    ],
    "coltr": [
        *STEP,
        ("floor", 1.5, "must be from 0 to 1, got 1.5"),
        ("delta", 0, "must be above 0, got 0"),
        ("candidates", 0, "must be 1 or more, got 0"),
        ("temperature", 0, "must be above 0, got 0"),
        ("variance_penalty", -1, "must be 0 or more, got -1"),
        ("renormalise", 1, "must be true or false, got 1"),
    ],
    "intervention_aware": [
        RATE,
        ("propensities", "known", "must be one of trust_bias, position_based, estimated, got 'known'"),
        ("alpha", [1.5], "must be null or a list [..,..] of which each is from 0 to 1, got [1.5]"),
        ("clip", -1, "must be 0 or more, got -1"),
        ("propensity_lists", 0, "must be 1 or more, got 0"),
        ("steps", 0, "must be from 1 to 100000, got 0"),
        ("batch", 0, "must be 1 or more, got 0"),
        ("gradient_lists", 0, "must be 1 or more, got 0"),
        ("restart", 1, "must be true or false, got 1"),
        ("every", 0, "must be 1 or more, got 0"),
        ("growth", 0.5, "must be 1 or more, got 0.5"),
        ("em.iterations", 0, "must be 1 or more, got 0"),
        ("em.steps", 0, "must be 1 or more, got 0"),
        ("em.learning_rate", 0, "must be above 0, got 0"),
        ("em.batch", 0, "must be 1 or more, got 0"),
    ],
    "toprank": [
        ("delta", 0, "must be null or above 0, got 0"),
        ("delta", 1, "must be below 1, or null for 1/T, got 1"),
        ("delta", -0.1, "must be null or above 0, got -0.1"),
        ("delta", float("nan"), "must be null or above 0, got nan"),
    ],
    "cascade_ucb1": [("alpha", -0.1, "must be 0 or more, got -0.1"), FEEDBACK],
    "cascade_kl_ucb": [("c", -1, "must be 0 or more, got -1"), FEEDBACK],
    "cascade_linucb": [
        ("sigma", 0, "must be above 0, got 0"),
        ("alpha", -0.1, "must be 0 or more, got -0.1"),
        FEEDBACK,
    ],
    "cascade_lints": [("sigma", -1, "must be above 0, got -1"), FEEDBACK],
    "olranknet": [
        *REFIT,
        LOSS,
        PAIRS,
        ("model.width", 0, "must be 1 or more, got 0"),
        ("model.width", 5, "must be even with ranker.model.init=antisymmetric, got 5"),
        ("model.hidden_layers", 0, "must be 1 or more, got 0"),
        ("model.init", "zero", "must be one of antisymmetric, standard, pytorch, got 'zero'"),
    ],
    "ollambdarank_gt": [*REFIT, LOSS],
    "p2neurrank": [
        *REFIT,
        *NOISE,
        PAIRS,
        ("noise", "stale", "must be one of fresh, fixed, got 'stale'"),
        ("deploy", "last", "must be one of mean, first, got 'last'"),
    ],
    "ips_regression": [
        ("l2", 0, "must be above 0, got 0"),
        ("l2", float("nan"), "must be above 0, got nan"),
        ("steps", 0, "must be from 1 to 100000, got 0"),
        ("batch", 0, "must be null or 1 or more, got 0"),
        RATE,
    ],
    "offline_ranknet": [("l2", 0, "must be above 0, got 0")],
    "offline_network": [
        LOSS,
        RATE,
        ("batch", 0, "must be 1 or more, got 0"),
        ("epochs", 0, "must be 1 or more, got 0"),
        ("patience", 0, "must be 1 or more, got 0"),
        ("seed", -1, "must be 0 or more, got -1"),
    ],
}


@pytest.mark.parametrize("ranker", REFUSED)
def test_a_setting_out_of_its_range_is_refused(ranker):
    config = tiny(f"ranker={ranker}").ranker
    build(config)
    for setting, value, message in REFUSED[ranker]:
        changed = config.copy()
        OmegaConf.update(changed, setting, value)
        with pytest.raises(ValueError) as refused:
            build(changed)
        assert str(refused.value) == f"ranker.{setting} {message}"
