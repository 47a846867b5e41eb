"""Plays short runs and writes down what happened, a line per round."""

from __future__ import annotations

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ol2r_cli.columns import CUTOFFS
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import Interaction
from ol2r_cli.metrics.measurement import Measures
from tests.worlds import offline_ndcg, simulate

FOLDER = Path(__file__).parent
ROUNDS = 25
SEED = 7

_GENERATED = ["dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=9", "dataset.features=6"]
_TWO_QUERIES = ["dataset.queries={train: 2, validation: 0, test: 4}", "dataset.documents=9", "dataset.features=6"]
_FOLD = ["dataset=letor", "dataset.path=tests/data/tiny"]
_THREE_GRADES = ["dataset=letor", "dataset.path=tests/data/tiny_grades3"]

# name of the trace -> the overrides of `ol2r run`
CASES = {
    "generated-perfect": [*_GENERATED, "click=perfect"],
    "generated-navigational": [*_GENERATED, "click=navigational"],
    "generated-informational": [*_GENERATED, "click=informational"],
    "generated-reduction-sum": [*_GENERATED, "ranker.reduction=sum", "ranker.l2=0.1"],
    "generated-pairs-all": [*_GENERATED, "ranker.pairs=all"],
    "generated-pairs-adjacent": [*_GENERATED, "ranker.pairs=adjacent"],
    "generated-window": [*_GENERATED, "ranker.window=5"],
    "generated-discount": [*_GENERATED, "ranker.discount=0.8"],
    "generated-shuffle-random": [*_GENERATED, "click=perfect", "exploration.shuffle=random"],
    "generated-no-exploration": [*_GENERATED, "click=perfect", "exploration=none"],
    "generated-random-ranker": [*_GENERATED, "ranker=random"],
    "generated-oracle": [*_GENERATED, "ranker=oracle"],
    "generated-sgd-ranknet": [*_GENERATED, "ranker=sgd_ranknet"],
    "generated-epsilon-greedy": [*_GENERATED, "ranker=epsilon_greedy", "exploration.epsilon=0.3"],
    "generated-pdgd": [*_GENERATED, "ranker=pdgd"],
    "generated-dbgd": [*_GENERATED, "ranker=dbgd"],
    "generated-mgd": [*_GENERATED, "ranker=mgd"],
    "generated-mgd-probabilistic": [*_GENERATED, "ranker=mgd", "exploration=probabilistic_interleaving"],
    "generated-mgd-document-space": [*_GENERATED, "ranker=mgd", "ranker.projection=document_space"],
    "generated-nsgd": [*_GENERATED, "ranker=nsgd", "ranker.avoided=3"],
    "generated-coltr": [*_GENERATED, "ranker=coltr"],
    "generated-intervention-aware": [*_GENERATED, "ranker=intervention_aware", "ranker.every=5", "click=trust_bias"],
    "generated-intervention-aware-estimated": [
        *_GENERATED,
        *("ranker=intervention_aware", "ranker.every=5", "ranker.propensities=estimated", "click=trust_bias"),
    ],
    "generated-toprank": [*_TWO_QUERIES, "ranker=toprank", "ranker.delta=0.9", "click=perfect"],
    "generated-cascade-ucb1": [*_TWO_QUERIES, "ranker=cascade_ucb1", "ranker.alpha=0.1", "click=cascade"],
    "generated-cascade-kl-ucb": [*_TWO_QUERIES, "ranker=cascade_kl_ucb", "positions=4"],
    "generated-cascade-ducb": [*_TWO_QUERIES, "ranker=cascade_ducb", "ranker.epsilon=0.1", "positions=4"],
    "generated-cascade-swucb": [*_TWO_QUERIES, "ranker=cascade_swucb", "ranker.epsilon=0.1", "ranker.window=5"],
    "generated-cascade-linucb": [
        *_GENERATED,
        *("ranker=cascade_linucb", "ranker.sigma=1", "ranker.alpha=0.1", "click=cascade"),
    ],
    "generated-pbm-thompson": [*_TWO_QUERIES, "ranker=pbm_thompson", "ranker.prior_clicks=[0.5]", "positions=4"],
    "generated-cascade-lints": [*_GENERATED, "ranker=cascade_lints", "ranker.feedback=last_click"],
    "generated-pepairrank": [*_GENERATED, "ranker=pepairrank", "click=perfect"],
    "generated-position-based": [*_GENERATED, "click=position_based"],
    "generated-trust-bias": [*_GENERATED, "click=trust_bias"],
    "generated-dependent-by-place": [*_GENERATED, "click=dependent_by_place"],
    "generated-dynamic-bayesian": [*_GENERATED, "click=dynamic_bayesian"],
    "generated-user-browsing": [*_GENERATED, "click=user_browsing"],
    "generated-intents": [
        *_GENERATED,
        "dataset.intents={number: 3, overlap: -0.2}",
        "intent=smooth",
        "intent.intents=[1,3,2]",
        "intent.every=9",
        "intent.width=4",
        "ranker=pdgd",
    ],
    "generated-mcfair": [*_GENERATED, "ranker=pdgd", "fairness=mcfair", "fairness.certainty=0.1"],
    "fold-perfect": [*_FOLD, "click=perfect"],
    "fold-navigational": [*_FOLD, "click=navigational"],
    "fold-informational": [*_FOLD, "click=informational"],
    "fold-three-grades": [*_THREE_GRADES, "click=perfect"],
}


def trace(name: str) -> str:
    """The golden trace of a case as it is now."""
    overrides = CASES[name]
    with TemporaryDirectory() as cache, torch.inference_mode():
        config = compose([*map(_here, overrides), f"cache_dir={cache}"]).config
        dataset = build(config.dataset).load()
        simulation = simulate(config, [SEED], ROUNDS, dataset)
        played = [interaction for _, interaction in simulation.play()]
        _, measures = simulation.measurement.measures()
        test = offline_ndcg(dataset, "test", torch.tensor([SEED]))
        ndcg = test(simulation.ranker, simulation.ranker.deploy()[None])[0, 0]
    lines = [
        f"# ol2r run seed={SEED} rounds={ROUNDS} {shlex.join(overrides)}",
        "# documents are numbered within their query, * was clicked",
        "round  query  online NDCG  blocks  shown",
        *(_line(t, played[t], measures) for t in range(ROUNDS)),
        "test NDCG  " + "  ".join(f"@{cutoff} {value:.6f}" for cutoff, value in zip(CUTOFFS, ndcg, strict=True)),
    ]
    return "\n".join(lines) + "\n"


def _here(override: str) -> str:
    """Paths as they are on this machine."""
    setting, _, value = override.partition("=")
    return f"dataset.path={FOLDER.parents[1] / value}" if setting == "dataset.path" else override


def _line(t: int, interaction: Interaction, measures: Measures) -> str:
    places = zip(interaction.ranking[0], interaction.clicks[0], interaction.shown[0], strict=True)
    shown = " ".join(f"{int(document)}{'*' * bool(click)}" for document, click, there in places if there)
    blocks = int(measures["blocks"][t]) if "blocks" in measures else "-"
    query, ndcg = int(measures["query"][t]), float(measures["online_ndcg"][t])
    return f"{t + 1:5}  {query:5}  {ndcg:11.6f}  {blocks:>6}  {shown}"
