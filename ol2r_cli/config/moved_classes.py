"""Earlier paths of classes of choices, with which run ids are computed, so that a run keeps its id."""

from __future__ import annotations

# Present modules, and the earlier modules of their classes in the same package: the first one of a class is in its ids.
_MOVED = {
    "click.models": "dependent_by_place.DependentByPlace dependent.DependentClick dynamic_bayesian.DynamicBayesian "
    "position_based.PositionBased trust_bias.TrustBias user_browsing.UserBrowsing",
    "exploration.confidence": "ensemble.Ensemble",
    "exploration.divide_and_conquer": "stated.Stated",
    "exploration.interleaving": "probabilistic_interleaving.ProbabilisticInterleaving team_draft.TeamDraft",
    "exploration.order": "epsilon_greedy.EpsilonGreedy none.NoExploration plackett_luce.PlackettLuce "
    "no_exploration.NoExploration",
    "fairness.by_merit": "fairco.FairCo mcfair.MCFair none.NoFairness no_fairness.NoFairness",
    "measure.fair_exposure": "amortised_unfairness.AmortisedUnfairness realised_exposure.RealisedExposure "
    "unfairness.Unfairness",
    "measure.quality": "ctr.ClickThroughRate dcg.DCG dynamic_regret.DynamicRegret err.ERR mrr.MRR ndcg.NDCG "
    "regret.Regret time_to_first_click.TimeToFirstClick",
    "ranker.bandits": "cascade_bandits.CascadeKLUCB cascade_linear.CascadeLinTS cascade_linear.CascadeLinUCB "
    "cascade_bandits.CascadeUCB1 toprank.TopRank cascade.CascadeKLUCB cascade.CascadeLinTS cascade.CascadeLinUCB "
    "cascade.CascadeUCB1",
    "ranker.counterfactual": "coltr.COLTR intervention_aware.InterventionAware",
    "ranker.dueling_bandits": "dueling.DuelingBandits nsgd.NSGD",
    "ranker.model_ranker": "oracle.OracleRanker random.RandomRanker sgd_ranknet.SGDRankNet anchors.OracleRanker "
    "anchors.RandomRanker",
    "ranker.offline": "offline_lambdamart.OfflineLambdaMART offline_network.OfflineNetwork "
    "offline_ranknet.OfflineRankNet",
    "ranker.pairrank": "pairwise.PairwiseRanker perturbed.PerturbedRanker pepairrank.PerturbedRanker",
    "ranker.refitted": "labelled.LabelledRanker perturbed_networks.PerturbedNetworks p2neurrank.PerturbedNetworks",
}

MOVED_TO = {
    f"ol2r_cli.{module.partition('.')[0]}.{earlier}": f"ol2r_cli.{module}.{earlier.partition('.')[2]}"
    for module, classes in _MOVED.items()
    for earlier in classes.split()
}
MOVED_FROM = {present: earlier for earlier, present in reversed(MOVED_TO.items())}
