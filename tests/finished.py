"""Small finished runs on files of their own, made when a test first uses them and shared by all tests."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from ol2r_cli import cli
from ol2r_cli.run.run import Run, find_runs
from tests.manifests import accept_changes

FEATURES, SEEDS, ROUNDS = 5, (4, 5), 30
RUNS = {
    "linear": ["ranker=pairrank"],
    "skip": ["ranker=pairrank", "no_relevant=skip"],
    "ties": ["ranker=random"],
    "measures": ["ranker=pairrank", "measures=[ndcg,dcg@5]"],
    "network": ["ranker=sgd_ranknet", "ranker/model=mlp", "ranker.model.width=64"],
    "global zscore": ["ranker=pairrank", "dataset.normalise=global_zscore", "dataset.drop_constant=true"],
    "toprank": ["ranker=toprank"],
    "oracle": ["ranker=oracle"],
}
Documents = dict[str, list[tuple[int, list[float]]]]  # query id -> grade and features of its documents


class FinishedRuns(dict[str, Path]):
    """The folder of each of RUNS by its name, and `data`: the folder with the dataset that they share."""

    def __init__(self, root: Path):
        super().__init__(data=root / "data")
        self.root = root
        self["data"].mkdir(parents=True)
        for number, (name, queries) in enumerate({"train": 25, "vali": 6, "test": 13}.items(), 1):
            (self["data"] / f"{name}.txt").write_text(text(queries, number))

    def __missing__(self, name: str) -> Path:
        outputs = self.root / name.replace(" ", "_") / "outputs"
        words = ["dataset=letor", f"dataset.path={self['data']}", f"rounds={ROUNDS}", "replicas=2", "seed=4"]
        words += [f"cache_dir={self.root / 'cache'}", "evaluate_every=10", "click=perfect", f"output_dir={outputs}"]
        assert cli.main(["run", *words, *RUNS[name]]) == 0
        (self[name],) = find_runs(outputs)
        return self[name]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> FinishedRuns:
    return FinishedRuns(tmp_path_factory.mktemp("finished"))


def run_in(folder: Path, *words: str) -> Run:
    """The only run below a folder, which `ol2r run WORDS` makes."""
    assert cli.main(["run", *words, f"output_dir={folder}"]) == 0
    (path,) = find_runs(folder)
    return Run.read_finished(path)


def elsewhere(runs: FinishedRuns, name: str, copy: Path) -> Path:
    """A copy of a run whose data have been moved from the folder `before` beside it."""
    shutil.copytree(runs[name], copy)
    config = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(config.replace(str(runs["data"]), str(copy.parent / "before")))
    accept_changes(copy)
    return copy


def text(queries: int, seed: int) -> str:
    """LETOR lines: queries of 1 to 12 documents, grades 0 to 2, all 0 in every third query; feature 3 is constant."""
    dice, lines = random.Random(seed), []
    for query in range(queries):
        for _ in range(dice.randint(1, 12)):
            values = [9 * dice.random() if feature != 3 else 1.5 for feature in range(1, FEATURES + 1)]
            features = " ".join(f"{feature}:{value:.4f}" for feature, value in enumerate(values, 1))
            grade = 0 if query % 3 == 0 else dice.choice([0, 0, 1, 2])
            lines.append(f"{grade} qid:{seed}{query:02} {features} # a document\n")
    return "".join(lines)


def read(file: Path) -> Documents:
    """The documents of a file, read without the package."""
    documents: Documents = {}
    for line in file.read_text().splitlines():
        grade, query, *features = line.partition(" #")[0].split()
        documents.setdefault(query.removeprefix("qid:"), []).append(
            (int(grade), [float(pair.partition(":")[2]) for pair in features])
        )
    return documents


def printed(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    """What a command that ends with this exit code prints on stdout."""
    capsys.readouterr()
    assert cli.main([*map(str, words)]) == code
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The line on stderr of a command that ends with exit code 2 and prints nothing else."""
    capsys.readouterr()
    assert cli.main([*map(str, words)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1), captured.err
    return captured.err.removeprefix(f"ol2r {words[0]}: ").rstrip("\n")
