"""Settings of rankers out of their ranges, and settings that do not go together: each is refused in one line that
names what to type."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import RunContext
from tests.choices import names, with_setting
from tests.worlds import handmade, simulate, tiny

# What a setting must be, rankers, and values that are refused.
REFUSED = [
    ("0 or more", "pepairrank p2neurrank", "label_noise_variance=-0.1 label_noise_variance=.nan"),
    ("0 or more", "nsgd", "avoided=-1 difficult_queries=-1 document_space.below=-1"),
    ("0 or more", "coltr", "variance_penalty=-1"),
    ("0 or more", "intervention_aware", "clip=-1"),
    ("0 or more", "cascade_ucb1 cascade_linucb", "alpha=-0.1"),
    ("0 or more", "cascade_kl_ucb", "c=-1"),
    ("0 or more", "cascade_ducb cascade_swucb", "epsilon=-1"),
    ("null or above 0 and at most 1", "cascade_ducb", "discount=0 discount=1.1"),
    ("null or 1 or more", "cascade_swucb", "window=0"),
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
    ("one of newton, exact", "pairrank", "solver=sgd"),
    ("one of none, document_space", "nsgd", "projection=some"),
    ("one of ranknet, lambdarank", "olranknet ollambdarank_gt offline_network", "loss=hinge"),
    ("one of sum, mean", "pairrank pepairrank olranknet ollambdarank_gt p2neurrank", "reduction=max"),
    ("one of trust_bias, position_based, estimated", "intervention_aware", "propensities=known"),
    ("true or false", "nsgd", "document_space.normalise=1"),
    ("true or false", "coltr", "renormalise=1"),
    ("true or false", "intervention_aware", "restart=1"),
    ("settings in quotes, '{name: value, ..}'", "olranknet", "authors=3"),
]

# How a message begins, and what is typed after `ranker=`.
GROUPS = "fairness needs a dataset with two groups: type 'dataset.group={..}' or "
TOGETHER = [
    ("ranker.discount must be 1 with ranker.window=9, got 0.9", "pairrank ranker.window=9 ranker.discount=0.9"),
    (
        "ranker.solver must be newton with ranker.window or ranker.discount, got exact",
        "pairrank ranker.window=9 ranker.solver=exact",
    ),
    (
        "exploration.alpha must be a number where the ranker forgets pairs, got theory",
        "pairrank ranker.discount=0.9 exploration.alpha=theory",
    ),
    ("ranker.batch must be null with ranker.discount, got 8", "olranknet ranker.batch=8 ranker.discount=0.9"),
    (
        "exploration.covariance must be diagonal where the ranker forgets pairs, got full",
        "olranknet ranker.window=9 exploration.covariance=full",
    ),
    (
        "ranker.fit and ranker.authors must be left out, as the authors' fit is no part of ol2r any more: git checkout",
        "olranknet ranker.fit=authors",
    ),
    ("ranker.fit and ranker.authors must be left out, as", "ollambdarank ranker.authors.epochs=3"),
    ("ranker.drawn must be at least ranker.candidates, 9, got 8", "nsgd ranker.drawn=8"),
    ("ranker.memory must be at least ranker.candidates, 9, got 8", "nsgd ranker.memory=8"),
    ("ranker.avoided must be at most ranker.memory, 60, got 61", "nsgd ranker.avoided=61"),
    (
        "ranker.projection=document_space needs a linear model: use ranker/model=linear",
        "mgd ranker.projection=document_space ranker/model=mlp",
    ),
    (
        "ranker.alpha must be null with ranker.propensities=estimated",
        "intervention_aware ranker.propensities=estimated ranker.alpha=[1,1]",
    ),
    ("ranker.beta must be 10 numbers, one per rank, got [0.1, 0.2]", "intervention_aware ranker.beta=[0.1,0.2]"),
    (
        "ranker.alpha must be above 0 at one rank at least, got [0, 0]",
        "intervention_aware positions=2 ranker.alpha=[0,0]",
    ),
    ("the exploration Ensemble needs ", "pepairrank ranker.members=1"),
    ("exploration.alpha must be from 0 to 1e+100 or theory, got -1", "pairrank exploration.alpha=-1"),
    ("exploration.alpha must be from 0 to 1e+100, got -1", "olranknet exploration.alpha=-1"),
    ("exploration.covariance must be one of full, diagonal, inverse_", "pairrank exploration.covariance=half"),
    ("exploration.l2 must be above 0, got 0", "pairrank exploration.l2=0"),
    ("exploration.shuffle must be one of conservative, random, got 'x'", "pepairrank exploration.shuffle=x"),
    ("exploration.tangent_at must be one of serving, refit, got 'x'", "olranknet exploration.tangent_at=x"),
    ("exploration.precision must be one of float64, float32, got 'x'", "olranknet exploration.precision=x"),
    ("exploration.epsilon must be from 0 to 1, got 1.1", "epsilon_greedy exploration.epsilon=1.1"),
    ("exploration.tau must be above 0, got 0", "mgd exploration=probabilistic_interleaving exploration.tau=0"),
    ("fairness.gain must be 0 or more, got -0.1", "pdgd fairness=mcfair fairness.gain=-0.1"),
    ("fairness.merit must be one of labels, estimated, beta, got 'size'", "pdgd fairness=fairco fairness.merit=size"),
    ("fairness.epsilon must be 0 or more, got nan", "pairrank fairness=fairexp fairness.epsilon=nan"),
    ("the fairness MCFair needs a ranker whose scores are estim", "pairrank fairness=mcfair fairness.relevance=ranker"),
    (
        "the fairness MCFair needs lists in the order of their scores: use exploration=none",
        "ips_regression fairness=mcfair fairness.relevance=ranker exploration=epsilon_greedy",
    ),
    (GROUPS, "ips_regression fairness=fairco"),
    (GROUPS, "pairrank fairness=fairexp"),
    (GROUPS, "pdgd fairness=mcfair fairness.between=groups"),
]


@cache
def settings_of(ranker: str):
    config = tiny(*with_setting("ranker", ranker)).ranker
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


def test_what_does_not_go_together_is_refused():
    for message, typed in TOGETHER:
        with pytest.raises(ValueError) as refused:
            simulate(tiny(*f"ranker={typed}".split()), [0], 5, handmade([[0, 1]]))
        assert str(refused.value).startswith(message), typed


def test_rankers_that_learn_from_labels_say_so():
    for ranker in names("ranker"):
        own = settings_of(ranker)
        if build(own).needs_labels:
            with pytest.raises(ValueError, match=f"^ranker={ranker} needs the labels of the dataset$"):
                build(own).setup(RunContext(1, 3, 4, 3, 1, 1, 5), torch.rand(3, 4))
