"""Small finished runs on files of their own: rankers of several kinds, ties, queries with nothing relevant."""

from __future__ import annotations

import random
from pathlib import Path

from ol2r_cli import cli
from ol2r_cli.results.survey import find_runs

FEATURES, SEEDS, ROUNDS = 5, (4, 5), 30
RUNS = {
    "linear": ["ranker=pairrank"],
    "skip": ["ranker=pairrank", "no_relevant=skip"],
    "ties": ["ranker=random"],
    "network": ["ranker=sgd_ranknet", "ranker/model=mlp", "ranker.model.width=8"],
    "oracle": ["ranker=oracle"],
}
Documents = dict[str, list[tuple[int, list[float]]]]  # query id -> grade and features of its documents


def text(queries: int, seed: int) -> str:
    """LETOR lines: queries of 1 to 12 documents, grades 0 to 2, of every third query all 0."""
    dice, lines = random.Random(seed), []
    for query in range(queries):
        for _ in range(dice.randint(1, 12)):
            features = " ".join(f"{i}:{9 * dice.random():.4f}" for i in range(1, FEATURES + 1))
            grade = 0 if query % 3 == 0 else dice.choice([0, 0, 1, 2])
            lines.append(f"{grade} qid:{seed}{query:02} {features} # a document\n")
    return "".join(lines)


def read(file: Path) -> Documents:
    """A file as it was written, without the package."""
    found: Documents = {}
    for line in file.read_text().splitlines():
        grade, query, *features = line.partition(" #")[0].split()
        found.setdefault(query.removeprefix("qid:"), []).append(
            (int(grade), [float(pair.partition(":")[2]) for pair in features])
        )
    return found


def make(root: Path, *names: str) -> dict[str, Path]:
    """The runs of these names below `<root>/outputs`, and `data`: the folder with what they learned from."""
    (root / "data").mkdir(parents=True)
    for number, (name, queries) in enumerate({"train": 20, "vali": 6, "test": 13}.items(), 1):
        (root / "data" / f"{name}.txt").write_text(text(queries, number))
    common = ["dataset=letor", f"dataset.path={root / 'data'}", f"rounds={ROUNDS}", "replicas=2", "seed=4"]
    common += [f"cache_dir={root / 'cache'}", "evaluate_every=10", "click=perfect"]
    folders = {"data": root / "data"}
    for name in names:
        assert cli.main(["run", *common, *RUNS[name], f"output_dir={root / 'outputs' / name}"]) == 0
        (folders[name],) = find_runs(root / "outputs" / name)
    return folders
