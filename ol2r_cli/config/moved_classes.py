"""Earlier paths of classes of choices, with which run ids are computed, so that a run keeps its id."""

from __future__ import annotations

# present path: earlier path
MOVED_FROM = {
    "ol2r_cli.exploration.no_exploration.NoExploration": "ol2r_cli.exploration.none.NoExploration",
    "ol2r_cli.fairness.no_fairness.NoFairness": "ol2r_cli.fairness.none.NoFairness",
    "ol2r_cli.ranker.dueling_bandits.DuelingBandits": "ol2r_cli.ranker.dueling.DuelingBandits",
    "ol2r_cli.ranker.p2neurrank.PerturbedNetworks": "ol2r_cli.ranker.perturbed_networks.PerturbedNetworks",
    "ol2r_cli.ranker.pairrank.PairwiseRanker": "ol2r_cli.ranker.pairwise.PairwiseRanker",
    "ol2r_cli.ranker.pepairrank.PerturbedRanker": "ol2r_cli.ranker.perturbed.PerturbedRanker",
}
