"""What rankers, datasets, users, settings and measures are called in the papers, as a figure writes them."""

from __future__ import annotations

import re

from ol2r_cli.report.override import text

RANKERS = {
    "pairrank": "PairRank",
    "pepairrank": "P²LinRank",
    "olranknet": "olRankNet",
    "ollambdarank": "olLambdaRank",
    "p2neurrank": "P²NeurRank",
    "pdgd": "PDGD",
    "dbgd": "DBGD",
    "mgd": "MGD",
    "epsilon_greedy": "ε-Greedy",
    "sgd_ranknet": "SGD RankNet",
    "toprank": "TopRank",
    "ips_regression": "IPS regression",
    "offline_ranknet": "offline RankNet",
    "offline_network": "offline network",
    "ollambdarank_gt": "olLambdaRank GT",
    "oracle": "oracle",
    "random": "random",
}
DATASETS = {
    "mq2007": "MQ2007",
    "mq2008": "MQ2008",
    "mslr_web10k": "MSLR-WEB10K",
    "mslr_web30k": "MSLR-WEB30K",
    "yahoo": "Yahoo",
    "istella_s": "Istella-S",
    "letor": "LETOR",
}
_CLICKS = ("perfect", "navigational", "informational")  # the papers' order, other users behind
_FAIRNESS = {"fairexp": "FairExp-{}", "fairco": "FairCo"}
_MODELS = {"linear": "Linear-{}", "mlp": "Neural-{}"}
_SYMBOLS = {
    "ranker.l2": "λ",
    "ranker.learning_rate": "η",
    "ranker.members": "N",
    "ranker.label_noise_variance": "ν²",
    "ranker.model.width": "m",
    "exploration.alpha": "α",
    "exploration.epsilon": "ε",
    "fairness.epsilon": "ε",
    "fairness.gain": "gain",
    "rounds": "T",
    "positions": "k",
}
_AXES = {
    "λ": "regularisation λ",
    "η": "learning rate η",
    "N": "number of rankers N",
    "ν²": "noise variance ν²",
    "m": "width of the network m",
    "α": "exploration α",
    "T": "rounds T",
    "k": "places shown k",
}
_METRICS = {
    "cumulative_ndcg": "cumulative NDCG",
    "online_ndcg": "mean online NDCG@10",
    "online_ndcg_last_tenth": "online NDCG@10, last tenth",
    "unfairness": "|cumulative unfairness|",
    "violations": "reversed certain pairs",
    "regret": "misordered pairs",
    "cosine": "cosine to offline RankNet",
    "certain_top10": "share of certain pairs in the top 10",
    "blocks": "number of blocks",
    "best_round": "round of best validation NDCG@10",
}


def ranker(name: str, model: str = "", exploration: str = "", fairness: str = "none") -> str:
    """Such as PairRank, Neural-PDGD, FairExp-PairRank; `model` and `exploration` are empty where they go without
    saying."""
    said = RANKERS.get(name, name)
    if model:
        said = _MODELS.get(model, f"{{}} ({model})").format(said)
    if exploration:
        said = f"{said}, {exploration.replace('_', ' ')}"
    if fairness != "none":
        said = _FAIRNESS.get(fairness, f"{{}} with {fairness}").format(said)
    return said


def dataset(name: str) -> str:
    """Such as MSLR-WEB10K."""
    return DATASETS.get(name, name)


def place_of_click(name: str) -> tuple[int, str]:
    """A key to sort click models by: perfect, navigational, informational as in the papers, then by name."""
    return (_CLICKS.index(name) if name in _CLICKS else len(_CLICKS), name)


def symbol(setting: str) -> str:
    """The papers' letter for a setting by its dotted name, else its last word."""
    return _SYMBOLS.get(setting, setting.rpartition(".")[2].replace("_", " "))


def axis(setting: str) -> str:
    """A setting as it stands along an axis."""
    if setting == "fairness.epsilon":
        return "tolerated unfairness ε"
    return _AXES.get(symbol(setting), symbol(setting))


def value(of: object) -> str:
    """A value as a figure writes it: 0.0001, not 1e-04, and text as it is typed."""
    if isinstance(of, float) and not isinstance(of, bool):
        return f"{of:.6g}"
    return text(of)


def metric(name: str) -> str:
    """A metric of summary.json as it stands along an axis."""
    if found := re.fullmatch(r"(test|validation)_ndcg_(\d+)(_untrained|_best)?", name):
        suffix = {"_untrained": ", untrained", "_best": ", best round by validation"}.get(found[3] or "", "")
        return f"{found[1]} NDCG@{found[2]}{suffix}"
    if found := re.fullmatch(r"block_size_(\d+)", name):
        return f"size of the block at rank {found[1]}"
    return _METRICS.get(name, name.replace("_", " "))
