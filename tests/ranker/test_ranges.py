"""Settings of rankers out of their ranges: each is refused in one line that names what to type."""

from __future__ import annotations

from functools import cache

import pytest
import yaml
from omegaconf import OmegaConf

from ol2r_cli.config.instantiate import build
from tests.worlds import tiny

# What a setting must be, rankers, and values that are refused.
REFUSED = [
    ("0 or more", "pepairrank p2neurrank", "label_noise_variance=-0.1 label_noise_variance=.nan"),
    ("0 or more", "nsgd", "avoided=-1 difficult_queries=-1 document_space.below=-1"),
    ("0 or more", "coltr", "variance_penalty=-1"),
    ("0 or more", "intervention_aware", "clip=-1"),
    ("0 or more", "cascade_ucb1 cascade_linucb", "alpha=-0.1"),
    ("0 or more", "cascade_kl_ucb", "c=-1"),
    ("0 or more", "olranknet ollambdarank_gt p2neurrank", "l2=-1 l2=.nan"),
    ("0 or more", "offline_network", "seed=-1"),
    ("1 or more", "pepairrank p2neurrank", "members=0"),
    ("1 or more", "mgd coltr", "candidates=0"),
    ("1 or more", "nsgd", "drawn=0 memory=0"),
    (
        "1 or more",
        "intervention_aware",
        "propensity_lists=0 gradient_lists=0 growth=0.5 em.iterations=0 em.steps=0 em.batch=0",
    ),
    ("1 or more", "intervention_aware offline_network", "batch=0"),
    ("1 or more", "intervention_aware olranknet ollambdarank_gt p2neurrank", "every=0"),
    ("1 or more", "olranknet", "model.width=0 model.hidden_layers=0"),
    ("1 or more", "offline_network", "epochs=0 patience=0"),
    ("a whole number", "nsgd", "window=0.5 document_space.earlier=1.5"),
    ("above 0", "pairrank pepairrank ips_regression offline_ranknet", "l2=0"),
    ("above 0", "sgd_ranknet pdgd mgd nsgd coltr intervention_aware olranknet", "learning_rate=0"),
    ("above 0", "ollambdarank_gt p2neurrank ips_regression offline_network", "learning_rate=0"),
    ("above 0", "sgd_ranknet", "learning_rate=.nan"),
    ("above 0", "mgd coltr", "delta=0"),
    ("above 0", "mgd", "delta=-1"),
    ("above 0", "coltr", "temperature=0"),
    ("above 0", "intervention_aware", "em.learning_rate=0"),
    ("above 0", "cascade_linucb", "sigma=0"),
    ("above 0", "cascade_lints", "sigma=-1"),
    ("above 0", "ips_regression", "l2=.nan"),
    ("above 0 and at most 1", "pairrank", "discount=0 discount=1.01"),
    ("above 0 and at most 1", "sgd_ranknet pdgd mgd nsgd coltr", "decay=0 decay=1.5"),
    ("below 1, or null for 1/T", "toprank", "delta=1"),
    ("even with ranker.model.init=antisymmetric", "olranknet", "model.width=5"),
    ("from 0 to 1", "coltr", "floor=1.5"),
    ("from 1 to 100000", "intervention_aware olranknet ollambdarank_gt p2neurrank ips_regression", "steps=0"),
    ("null or 1 or more", "pairrank", "window=0"),
    ("null or 1 or more", "olranknet ollambdarank_gt p2neurrank ips_regression", "batch=0"),
    ("null or a list [..,..] of which each is from 0 to 1", "intervention_aware", "alpha=[1.5]"),
    ("null or above 0", "toprank", "delta=0 delta=-0.1 delta=.nan"),
    ("one of antisymmetric, standard, pytorch", "olranknet", "model.init=zero"),
    (
        "one of first_click, last_click, all",
        "cascade_ucb1 cascade_kl_ucb cascade_linucb cascade_lints",
        "feedback=none",
    ),
    ("one of fresh, fixed", "p2neurrank", "noise=stale"),
    ("one of matching, adjacent, all", "pairrank pepairrank sgd_ranknet olranknet p2neurrank", "pairs=some"),
    ("one of mean, first", "p2neurrank", "deploy=last"),
    ("one of mean, first, unperturbed", "pepairrank", "deploy=last"),
    ("one of newton, exact, lbfgs_restart", "pairrank", "solver=sgd"),
    ("one of none, document_space", "nsgd", "projection=some"),
    ("one of ranknet, lambdarank", "olranknet ollambdarank_gt offline_network", "loss=hinge"),
    ("one of sum, mean", "pairrank pepairrank olranknet ollambdarank_gt p2neurrank", "reduction=max"),
    ("one of trust_bias, position_based, estimated", "intervention_aware", "propensities=known"),
    ("true or false", "nsgd", "document_space.normalise=1"),
    ("true or false", "coltr", "renormalise=1"),
    ("true or false", "intervention_aware", "restart=1"),
]


@cache
def settings_of(ranker: str):
    config = tiny(f"ranker={ranker}").ranker
    build(config)
    return config


def test_a_setting_out_of_its_range_is_refused():
    for words, rankers, values in REFUSED:
        for ranker, typed in [(ranker, typed) for ranker in rankers.split() for typed in values.split()]:
            setting, value = typed.split("=")[0], yaml.safe_load(typed.partition("=")[2])
            changed = settings_of(ranker).copy()
            OmegaConf.update(changed, setting, value)
            with pytest.raises(ValueError) as refused:
                build(changed)
            assert str(refused.value) == f"ranker.{setting} must be {words}, got {value!r}", ranker
