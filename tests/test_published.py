"""PairRank on MQ2008 Fold1 against the authors' own code on the same files.

Written down before the first comparison: 20 seeds (0 to 19), T = 2000, `reduction=mean`, l2 0.001, alpha 0.1,
conservative, matching pairs, transitive, a stop may be drawn without a click. The authors' figures are means over n
seeds of test NDCG@10 and cumulative NDCG; ours must lie within 3 sqrt(sd1^2 / n1 + sd2^2 / n2).
"""

from __future__ import annotations

import math

import pytest
import torch

from ol2r_cli.compose import build, compose
from ol2r_cli.evaluation import Evaluator
from tests.worlds import simulate

SEEDS = 20
AUTHORS = {  # click model: (mean, sd) of test NDCG@10, (mean, sd) of cumulative NDCG, n
    "perfect": ((0.4849, 0.0047), (623.1, 11.7), 10),
    "navigational": ((0.4707, 0.0083), (576.2, 14.7), 10),
    "informational": ((0.4551, 0.0100), (548.2, 15.7), 25),
}


@pytest.mark.slow
@pytest.mark.parametrize("click", AUTHORS)
def test_pairrank_agrees_with_the_authors_code_on_mq2008(click, data_dir, tmp_path):
    config = compose(
        [
            *("dataset=mq2008", f"dataset.path={data_dir / 'MQ2008'}", f"cache_dir={tmp_path}"),
            *("ranker.reduction=mean", "ranker.l2=0.001", "exploration.alpha=0.1"),
            *(f"click={click}", "click.stop_without_click=true"),
        ]
    )
    dataset = build(config.dataset).load()
    with torch.inference_mode():
        simulation = simulate(config, list(range(SEEDS)), 2000, dataset, trace_blocks=False, trace_regret=False)
        for _ in simulation.play():
            if simulation.measurement.full():
                simulation.measurement.measures()
        simulation.measurement.measures()
        evaluate = Evaluator(dataset, "test", torch.arange(SEEDS), "zero", torch.float64)
        ndcg = evaluate(simulation.ranker, simulation.ranker.deploy()[None])[0, :, -1]
    offline, online, n = AUTHORS[click]
    for (mean, sd), found in ((offline, ndcg), (online, simulation.measurement.cumulative_ndcg)):
        tolerance = 3 * math.sqrt(sd**2 / n + float(found.var()) / SEEDS)
        assert abs(float(found.mean()) - mean) <= tolerance
