"""Classes of choices that moved since runs were written with their earlier path.

Run ids are computed with the earlier path, so that a run keeps its id. Configurations of finished runs are built with
the present one.
"""

from __future__ import annotations

# present path: earlier path
MOVED_FROM = {
    "ol2r_cli.click.models.DependentByPlace": "ol2r_cli.click.dependent_by_place.DependentByPlace",
    "ol2r_cli.click.models.DependentClick": "ol2r_cli.click.dependent.DependentClick",
    "ol2r_cli.click.models.DynamicBayesian": "ol2r_cli.click.dynamic_bayesian.DynamicBayesian",
    "ol2r_cli.click.models.PositionBased": "ol2r_cli.click.position_based.PositionBased",
    "ol2r_cli.click.models.TrustBias": "ol2r_cli.click.trust_bias.TrustBias",
    "ol2r_cli.click.models.UserBrowsing": "ol2r_cli.click.user_browsing.UserBrowsing",
    "ol2r_cli.exploration.no_exploration.NoExploration": "ol2r_cli.exploration.none.NoExploration",
    "ol2r_cli.fairness.no_fairness.NoFairness": "ol2r_cli.fairness.none.NoFairness",
    "ol2r_cli.ranker.dueling_bandits.DuelingBandits": "ol2r_cli.ranker.dueling.DuelingBandits",
    "ol2r_cli.ranker.p2neurrank.PerturbedNetworks": "ol2r_cli.ranker.perturbed_networks.PerturbedNetworks",
    "ol2r_cli.ranker.pairrank.PairwiseRanker": "ol2r_cli.ranker.pairwise.PairwiseRanker",
    "ol2r_cli.ranker.pepairrank.PerturbedRanker": "ol2r_cli.ranker.perturbed.PerturbedRanker",
}
MOVED_TO = {earlier: present for present, earlier in MOVED_FROM.items()}
