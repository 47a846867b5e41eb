"""Earlier paths of classes of choices, with which run ids are computed, so that a run keeps its id."""

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
    "ol2r_cli.fairness.by_merit.FairCo": "ol2r_cli.fairness.fairco.FairCo",
    "ol2r_cli.fairness.by_merit.MCFair": "ol2r_cli.fairness.mcfair.MCFair",
    "ol2r_cli.fairness.by_merit.NoFairness": "ol2r_cli.fairness.none.NoFairness",
    "ol2r_cli.measure.fair_exposure.AmortisedUnfairness": "ol2r_cli.measure.amortised_unfairness.AmortisedUnfairness",
    "ol2r_cli.measure.fair_exposure.RealisedExposure": "ol2r_cli.measure.realised_exposure.RealisedExposure",
    "ol2r_cli.measure.fair_exposure.Unfairness": "ol2r_cli.measure.unfairness.Unfairness",
    "ol2r_cli.measure.quality.ClickThroughRate": "ol2r_cli.measure.ctr.ClickThroughRate",
    "ol2r_cli.measure.quality.DCG": "ol2r_cli.measure.dcg.DCG",
    "ol2r_cli.measure.quality.DynamicRegret": "ol2r_cli.measure.dynamic_regret.DynamicRegret",
    "ol2r_cli.measure.quality.ERR": "ol2r_cli.measure.err.ERR",
    "ol2r_cli.measure.quality.MRR": "ol2r_cli.measure.mrr.MRR",
    "ol2r_cli.measure.quality.NDCG": "ol2r_cli.measure.ndcg.NDCG",
    "ol2r_cli.measure.quality.Regret": "ol2r_cli.measure.regret.Regret",
    "ol2r_cli.measure.quality.TimeToFirstClick": "ol2r_cli.measure.time_to_first_click.TimeToFirstClick",
    "ol2r_cli.ranker.dueling_bandits.DuelingBandits": "ol2r_cli.ranker.dueling.DuelingBandits",
    "ol2r_cli.ranker.p2neurrank.PerturbedNetworks": "ol2r_cli.ranker.perturbed_networks.PerturbedNetworks",
    "ol2r_cli.ranker.pairrank.PairwiseRanker": "ol2r_cli.ranker.pairwise.PairwiseRanker",
    "ol2r_cli.ranker.pepairrank.PerturbedRanker": "ol2r_cli.ranker.perturbed.PerturbedRanker",
}
MOVED_TO = {earlier: present for present, earlier in MOVED_FROM.items()} | {
    "ol2r_cli.fairness.no_fairness.NoFairness": "ol2r_cli.fairness.by_merit.NoFairness"  # its second path
}
