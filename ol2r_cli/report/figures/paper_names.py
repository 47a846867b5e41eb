"""Names of rankers, datasets, click models and settings in figures, as in the papers."""

from __future__ import annotations

from ol2r_cli.config.overrides import as_typed

RANKERS = {
    "pairrank": "PairRank",
    "pepairrank": "P²LinRank",
    "olranknet": "olRankNet",
    "ollambdarank": "olLambdaRank",
    "p2neurrank": "P²NeurRank",
    "pdgd": "PDGD",
    "dbgd": "DBGD",
    "mgd": "MGD",
    "nsgd": "NSGD",
    "coltr": "COLTR",
    "intervention_aware": "intervention-aware",
    "epsilon_greedy": "ε-Greedy",
    "sgd_ranknet": "SGD RankNet",
    "toprank": "TopRank",
    "cascade_ucb1": "CascadeUCB1",
    "cascade_kl_ucb": "CascadeKL-UCB",
    "cascade_linucb": "CascadeLinUCB",
    "cascade_lints": "CascadeLinTS",
    "ips_regression": "IPS regression",
    "offline_ranknet": "offline RankNet",
    "offline_network": "offline network",
    "offline_lambdamart": "offline LambdaMART",
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
_CLICKS = ("perfect", "navigational", "informational")  # in the order of the papers
_FAIRNESS = {"fairexp": "FairExp-{}", "fairco": "FairCo", "mcfair": "MCFair-{}"}
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


def ranker(name: str, model: str = "", exploration: str = "", fairness: str = "none") -> str:
    """A ranker such as PairRank, Neural-PDGD, FairExp-PairRank; `model` and `exploration` are empty if not named."""
    label = RANKERS.get(name, name)
    if model:
        label = _MODELS.get(model, f"{{}} ({model})").format(label)
    if exploration:
        label = f"{label}, {exploration.replace('_', ' ')}"
    if fairness != "none":
        label = _FAIRNESS.get(fairness, f"{{}} with {fairness}").format(label)
    return label


def dataset(name: str) -> str:
    """A dataset such as MSLR-WEB10K."""
    return DATASETS.get(name, name)


def click_order(name: str) -> tuple[int, str]:
    """A sort key for click models: perfect, navigational, informational as in the papers, then by name."""
    return (_CLICKS.index(name) if name in _CLICKS else len(_CLICKS), name)


def symbol(setting: str) -> str:
    """The papers' letter for a setting, by its dotted name; without one, its last word."""
    return _SYMBOLS.get(setting, setting.rpartition(".")[2].replace("_", " "))


def axis(setting: str) -> str:
    """The label of an axis of a setting."""
    if setting == "fairness.epsilon":
        return "tolerated unfairness ε"
    return _AXES.get(symbol(setting), symbol(setting))


def value(setting_value: object) -> str:
    """A value in a figure: 0.0001, not 1e-04; text as it is typed."""
    return f"{setting_value:.6g}" if isinstance(setting_value, float) else as_typed(setting_value)
