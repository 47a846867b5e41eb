"""How often rankers lock into a reversed ranking, for docs/algorithms/pairrank.md: python scripts/locked_rankings.py

Generated queries of 150 documents, a fifth of which have no text: all their features are at the minimum. A ranking that
puts them first shows equal documents only, whose pairs have no feature to learn from, so that it never changes again.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from ol2r_cli import api

DOCUMENTS, FEATURES, SEEDS, ROUNDS = 150, 45, 40, 500
SPLITS = {"train": 63, "test": 22}
SETTINGS = [  # reduction, l2, and alpha of PairRank, or the noise variance of PePairRank
    *(("pairrank", "sum", l2, 0.1) for l2 in (0.1, 1, 10, 100)),
    *(("pairrank", "sum", l2, alpha) for l2 in (10, 100) for alpha in (0.01, 0.001)),
    *(("pairrank", "mean", l2, 0.1) for l2 in (0.001, 0.01, 0.1)),
    *(("pairrank", "mean", l2, 0.01) for l2 in (0.001, 0.01, 0.1)),
    *(("pairrank", "mean", l2, 0.001) for l2 in (0.0001, 0.001, 0.01, 0.1)),
    *(("pepairrank", "sum", l2, 0.01) for l2 in (0.1, 10)),
    *(("pepairrank", "mean", l2, 0.01) for l2 in (0.001, 0.01)),
    ("pepairrank", "mean", 0.01, 0.1),
]
WIDTH = {"pairrank": "exploration.alpha", "pepairrank": "ranker.label_noise_variance"}


def write(folder: Path) -> None:
    """LETOR files with grades 0 to 2; a document without text is relevant with probability .03."""
    rng = np.random.default_rng(0)
    (folder / "Fold1").mkdir()
    queries = itertools.count(1)
    for split, number in SPLITS.items():
        with open(folder / "Fold1" / f"{split}.txt", "w") as file:
            for query in itertools.islice(queries, number):
                quality, empty = rng.normal(size=DOCUMENTS), rng.random(DOCUMENTS) < 0.2
                grades = np.digitize(quality + 0.8 * rng.normal(size=DOCUMENTS), [0.7, 1.5])
                grades = np.where(empty, rng.random(DOCUMENTS) < 0.03, grades)
                slopes, noise = rng.uniform(0.3, 1, FEATURES), rng.normal(size=(DOCUMENTS, FEATURES))
                features = np.where(empty[:, None], 0, np.maximum(0, 3 + 0.5 * quality[:, None] * slopes + noise))
                for grade, row in zip(grades, features, strict=True):
                    file.write(f"{grade} qid:{query} {' '.join(f'{i}:{x:.4f}' for i, x in enumerate(row, 1))}\n")


def main() -> None:
    print("| ranker | reduction | l2 | alpha, or noise | perfect | navigational | informational |\n" + "|---" * 7 + "|")
    with TemporaryDirectory() as folder:
        write(Path(folder))
        data = "dataset=letor", f"dataset.path={folder}", f"cache_dir={folder}/cache", f"output_dir={folder}/runs"
        for ranker, reduction, l2, width in SETTINGS:
            words = f"ranker={ranker}", f"ranker.reduction={reduction}", f"ranker.l2={l2}", f"{WIDTH[ranker]}={width}"
            locked = []
            for click in ("perfect", "navigational", "informational"):
                run = api.run(f"click={click}", *words, *data, replicas=SEEDS, rounds=ROUNDS, evaluate_every=ROUNDS)
                final, untrained = (run.evaluation.filter(split="test", round=t)["ndcg_10"] for t in (ROUNDS, 0))
                locked.append(f"{(final < untrained).sum()}")
            print("|", " | ".join([ranker, reduction, f"{l2:g}", f"{width:g}", *locked]), "|", flush=True)


if __name__ == "__main__":
    main()
