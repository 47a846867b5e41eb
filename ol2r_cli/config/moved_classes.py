"""Classes of choices that moved since runs were written with their earlier path.

Run ids are computed with the earlier path, so that a run keeps its id. Configurations of finished runs are built with
the present one.
"""

from __future__ import annotations

# present path: earlier path
MOVED_FROM = {
    "ol2r_cli.exploration.confidence.Ensemble": "ol2r_cli.exploration.ensemble.Ensemble",
    "ol2r_cli.exploration.divide_and_conquer.Stated": "ol2r_cli.exploration.stated.Stated",
    "ol2r_cli.exploration.interleaving.ProbabilisticInterleaving": (
        "ol2r_cli.exploration.probabilistic_interleaving.ProbabilisticInterleaving"
    ),
    "ol2r_cli.exploration.interleaving.TeamDraft": "ol2r_cli.exploration.team_draft.TeamDraft",
    "ol2r_cli.exploration.order.EpsilonGreedy": "ol2r_cli.exploration.epsilon_greedy.EpsilonGreedy",
    "ol2r_cli.exploration.order.NoExploration": "ol2r_cli.exploration.none.NoExploration",
    "ol2r_cli.exploration.order.PlackettLuce": "ol2r_cli.exploration.plackett_luce.PlackettLuce",
    "ol2r_cli.fairness.no_fairness.NoFairness": "ol2r_cli.fairness.none.NoFairness",
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
MOVED_TO = {earlier: present for present, earlier in MOVED_FROM.items()}
