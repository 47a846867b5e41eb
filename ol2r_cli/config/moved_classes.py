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
    "ol2r_cli.exploration.confidence.Ensemble": "ol2r_cli.exploration.ensemble.Ensemble",
    "ol2r_cli.exploration.divide_and_conquer.Stated": "ol2r_cli.exploration.stated.Stated",
    "ol2r_cli.exploration.interleaving.ProbabilisticInterleaving": (
        "ol2r_cli.exploration.probabilistic_interleaving.ProbabilisticInterleaving"
    ),
    "ol2r_cli.exploration.interleaving.TeamDraft": "ol2r_cli.exploration.team_draft.TeamDraft",
    "ol2r_cli.exploration.order.EpsilonGreedy": "ol2r_cli.exploration.epsilon_greedy.EpsilonGreedy",
    "ol2r_cli.exploration.order.NoExploration": "ol2r_cli.exploration.none.NoExploration",
    "ol2r_cli.exploration.order.PlackettLuce": "ol2r_cli.exploration.plackett_luce.PlackettLuce",
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
    "ol2r_cli.ranker.anchors.OracleRanker": "ol2r_cli.ranker.oracle.OracleRanker",
    "ol2r_cli.ranker.anchors.RandomRanker": "ol2r_cli.ranker.random.RandomRanker",
    "ol2r_cli.ranker.cascade.CascadeKLUCB": "ol2r_cli.ranker.cascade_bandits.CascadeKLUCB",
    "ol2r_cli.ranker.cascade.CascadeLinTS": "ol2r_cli.ranker.cascade_linear.CascadeLinTS",
    "ol2r_cli.ranker.cascade.CascadeLinUCB": "ol2r_cli.ranker.cascade_linear.CascadeLinUCB",
    "ol2r_cli.ranker.cascade.CascadeUCB1": "ol2r_cli.ranker.cascade_bandits.CascadeUCB1",
    "ol2r_cli.ranker.dueling_bandits.DuelingBandits": "ol2r_cli.ranker.dueling.DuelingBandits",
    "ol2r_cli.ranker.dueling_bandits.NSGD": "ol2r_cli.ranker.nsgd.NSGD",
    "ol2r_cli.ranker.offline.OfflineLambdaMART": "ol2r_cli.ranker.offline_lambdamart.OfflineLambdaMART",
    "ol2r_cli.ranker.offline.OfflineNetwork": "ol2r_cli.ranker.offline_network.OfflineNetwork",
    "ol2r_cli.ranker.offline.OfflineRankNet": "ol2r_cli.ranker.offline_ranknet.OfflineRankNet",
    "ol2r_cli.ranker.pairrank.PairwiseRanker": "ol2r_cli.ranker.pairwise.PairwiseRanker",
    "ol2r_cli.ranker.pairrank.PerturbedRanker": "ol2r_cli.ranker.perturbed.PerturbedRanker",
    "ol2r_cli.ranker.refitted.LabelledRanker": "ol2r_cli.ranker.labelled.LabelledRanker",
    "ol2r_cli.ranker.refitted.PerturbedNetworks": "ol2r_cli.ranker.perturbed_networks.PerturbedNetworks",
}
MOVED_TO = {earlier: present for present, earlier in MOVED_FROM.items()} | {  # and second paths
    "ol2r_cli.exploration.no_exploration.NoExploration": "ol2r_cli.exploration.order.NoExploration",
    "ol2r_cli.fairness.no_fairness.NoFairness": "ol2r_cli.fairness.by_merit.NoFairness",
    "ol2r_cli.ranker.p2neurrank.PerturbedNetworks": "ol2r_cli.ranker.refitted.PerturbedNetworks",
    "ol2r_cli.ranker.pepairrank.PerturbedRanker": "ol2r_cli.ranker.pairrank.PerturbedRanker",
}
