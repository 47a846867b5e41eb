"""PairRank, PDGD and DBGD on MQ2008 Fold1 against the authors' own code on the same files.

Written down before the first comparison: 20 seeds (0 to 19), a stop may be drawn without a click, and the settings
below. The authors' figures are means over n seeds of test NDCG@10 and cumulative NDCG; ours must lie within
3 sqrt(sd1^2 / n1 + sd2^2 / n2).
"""

from __future__ import annotations

import math

import pytest
import torch

from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from tests.worlds import offline_ndcg, simulate

SEEDS = 20
SETTINGS = {  # ranker: rounds, overrides; matching pairs, conservative and transitive are the defaults of PairRank
    "pairrank": (2000, ("ranker.reduction=mean", "ranker.l2=0.001", "exploration.alpha=0.1")),
    "pdgd": (5000, ("ranker.learning_rate=0.1", "ranker.decay=0.999977")),
    "dbgd": (5000, ("ranker.learning_rate=0.01", "ranker.decay=0.999977")),
}
AUTHORS = {  # (mean, sd) of test NDCG@10, (mean, sd) of cumulative NDCG, n
    ("pairrank", "perfect"): ((0.4849, 0.0047), (623.1, 11.7), 10),
    ("pairrank", "navigational"): ((0.4707, 0.0083), (576.2, 14.7), 10),
    ("pairrank", "informational"): ((0.4551, 0.0100), (548.2, 15.7), 25),
    ("pdgd", "perfect"): ((0.4809, 0.0053), (871.1, 10.7), 20),
    ("pdgd", "navigational"): ((0.4814, 0.0048), (815.8, 11.2), 20),
    ("pdgd", "informational"): ((0.4756, 0.0058), (817.6, 23.1), 20),
    ("dbgd", "perfect"): ((0.4744, 0.0054), (781.9, 19.8), 20),
    ("dbgd", "navigational"): ((0.4678, 0.0094), (753.8, 19.8), 20),
    ("dbgd", "informational"): ((0.4429, 0.0200), (703.7, 29.3), 20),
}


@pytest.mark.slow
@pytest.mark.parametrize(("ranker", "click"), AUTHORS)
def test_agrees_with_the_authors_code_on_mq2008(ranker, click, data_dir, tmp_path):
    rounds, settings = SETTINGS[ranker]
    config = compose(
        [
            *("dataset=mq2008", f"dataset.path={data_dir / 'MQ2008'}", f"cache_dir={tmp_path}"),
            *(f"ranker={ranker}", *settings, f"click={click}", "click.stop_without_click=true"),
        ]
    ).config
    dataset = build(config.dataset).load()
    with torch.inference_mode():
        more = {"blocks": False, "regret": False}
        simulation = simulate(config, list(range(SEEDS)), rounds, dataset, **more)
        for _ in simulation.play_until(lambda _: False):
            if simulation.measurement.full():
                simulation.measurement.measures()
        simulation.measurement.measures()
        evaluate = offline_ndcg(dataset, "test", torch.arange(SEEDS))
        ndcg = evaluate(simulation.ranker, simulation.ranker.deploy()[None])[0, :, -1]
    offline, online, n = AUTHORS[ranker, click]
    for (mean, sd), found in ((offline, ndcg), (online, simulation.measurement.by_name["ndcg"].cumulative_ndcg)):
        tolerance = 3 * math.sqrt(sd**2 / n + float(found.var()) / SEEDS)
        assert abs(float(found.mean()) - mean) <= tolerance
