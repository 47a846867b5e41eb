"""Scores of documents in a file or an array are those by which the run itself ranked them, for every class of
datasets."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from ol2r_cli import api
from ol2r_cli.plugins.export.ranked_split import RankedSplit
from tests.finished import printed, refused, run_in

QUERIES, DOCUMENTS = 15, 4
RANDOM = np.random.default_rng(3)
# Features of very different sizes, of which the last is constant, so that an order without normalisation is another.
RAW = RANDOM.uniform(size=(QUERIES * DOCUMENTS, 4)) * [1, 2000, 1e-3, 0] + [0, 50, 0, 7]
LABELS = (RAW[:, 0] > 0.6).astype(int) + (RAW[:, 2] > 6e-4)
NAMES = [f"q{row // DOCUMENTS}" for row in range(len(RAW))]
LINES = [
    " ".join([f"{label} qid:{name}", *(f"{number}:{value!r}" for number, value in enumerate(row, 1) if value)])
    for label, name, row in zip(LABELS.tolist(), NAMES, RAW.tolist(), strict=True)
]
THIRD = np.arange(len(RAW)) % 3  # what the sparse file has in place of features 3 and 4
SPARSE = [
    line.rsplit(" ", 2)[0] + (f" 3:{value}" if value else "") for line, value in zip(LINES, THIRD.tolist(), strict=True)
]
SPARSE_RAW = np.stack([RAW[:, 0], RAW[:, 1], THIRD], 1)
CLASSES = """
    from dataclasses import replace
    from pathlib import Path

    import numpy as np
    import torch

    from ol2r_cli.dataset.documents import DocumentDataset, Documents
    from ol2r_cli.dataset.table import Dataset

    HERE = Path(__file__).parent

    class Table(DocumentDataset):
        def __init__(self, normalise="query_minmax", group=None, shift=0.0, cache_dir=str(HERE / "cache")):
            super().__init__("table", 1, normalise, group, cache_dir)
            self.shift = shift

        def documents(self):
            labels, names = np.load(HERE / "labels.npy"), np.load(HERE / "names.npy")
            raw = np.load(HERE / "raw.npy") + [0, self.shift, 0, 0]
            return Documents(names, labels, raw, names=["price", "visits", "age", "seven"])

    class Placed(Table):
        def __init__(self, folder, normalise="global_zscore", group=None, cache_dir=str(HERE / "cache")):
            super().__init__(normalise, group, 0.0, cache_dir)
            self.folder = Path(folder)

        def documents(self):
            names, labels, raw = (np.load(self.folder / f"{{name}}.npy") for name in ("names", "labels", "raw"))
            return Documents(names, labels, raw)

    class Plain:
        def load(self):
            raw, queries = torch.from_numpy(np.load(HERE / "raw.npy")), {QUERIES}
            return Dataset(
                "plain", "plain", self.made(raw), torch.from_numpy(np.load(HERE / "labels.npy")).to(torch.int8),
                torch.arange(queries + 1) * {DOCUMENTS}, [f"q{{n}}" for n in range(queries)], 3,
                {{"train": torch.arange(10), "test": torch.arange(10, queries)}},
            )

        def made(self, raw):
            return (raw.log1p()).float()

    class Declared(Plain):
        def transformation(self, features, fingerprint):
            return lambda raw, offsets: self.made(torch.from_numpy(raw)).numpy()

    class Changed(Table):
        def load(self):
            return replace(super().load(), name="changed")
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    """A folder with the same documents as LETOR files, as SVMlight files that leave out zeros, and for own classes."""
    folder = tmp_path_factory.mktemp("inference")
    for name, lines in (("letor", LINES), ("sparse", SPARSE)):
        (folder / name).mkdir()
        for file, part in (("train", lines[:40]), ("test", lines[40:])):
            (folder / name / f"{file}.txt").write_text("\n".join(part) + "\n")
    np.save(folder / "raw.npy", RAW)
    np.save(folder / "labels.npy", LABELS)
    np.save(folder / "names.npy", np.array(NAMES))
    classes = textwrap.dedent(CLASSES).format(QUERIES=QUERIES, DOCUMENTS=DOCUMENTS)
    (folder / "inferred_classes.py").write_text(classes)
    (folder / "dataset").mkdir()
    of_table = ["normalise: query_minmax", "group: null"]
    settings_of = {
        "Table": [*of_table, "shift: 0.0"],
        "Changed": [*of_table, "shift: 0.0"],
        "Plain": [],
        "Declared": [],
        "Placed": ["normalise: global_zscore", "group: null", "folder: ???"],
    }
    for name, settings in settings_of.items():
        text = "\n".join([f"_target_: inferred_classes.{name}", *settings]) + "\n"
        (folder / "dataset" / f"own_{name.lower()}.yaml").write_text(text)
    return folder


@pytest.fixture
def trained(here: Path, tmp_path, search_path) -> Callable[..., api.Run]:
    numbers = itertools.count()

    def run(*words: str) -> api.Run:
        common = ["ranker=pdgd", "click=perfect", "rounds=20", "evaluate_every=20", f"cache_dir={here / 'cache'}"]
        made = run_in(tmp_path / f"out{next(numbers)}", "--config-dir", str(here), *common, *words)
        return api.Run(made.path, config_dir=here)

    return run


LETOR = "dataset=letor", "dataset.path={}/letor"
TABLE = "dataset=own_table"
METHODS = ("none", "query_minmax", "query_zscore", "global_zscore")
DATASETS = {
    **{f"letor {method}": (*LETOR, f"dataset.normalise={method}") for method in METHODS},
    "letor dropped": (*LETOR, "dataset.drop_constant=true"),
    "letor grouped": (*LETOR, "dataset.group={{feature: 1, threshold: 0.5}}"),
    "sparse": ("dataset=letor", "dataset.path={}/sparse"),
    **{f"own {method}": (TABLE, f"dataset.normalise={method}") for method in METHODS},
    "own seconds": (TABLE, "dataset.shift=1.7e9"),  # more digits than single precision has
    "own grouped": (TABLE, "dataset.group={{feature: 1, quantiles: 2}}"),
    "own named": (TABLE, "dataset.group={{feature: visits, quantiles: 2}}"),
    "own declared": ("dataset=own_declared",),
    "own plain": ("dataset=own_plain",),
    "synthetic": ("dataset=synthetic", "dataset.queries={{train: 9, validation: 3, test: 4}}", "dataset.features=6"),
}


class Case(NamedTuple):
    """A run on one of DATASETS, and its test split: features before normalisation, queries, and by which scores the
    run ranked."""

    name: str
    run: api.Run
    raw: np.ndarray
    queries: list[str]
    scores: list[float]

    def is_scored_by(self, found: Iterable[float], rel: float = 1e-6) -> bool:
        return list(found) == pytest.approx(self.scores, rel=rel, abs=rel / 10)


def ranked_test_split(name: str, run: api.Run) -> Case:
    with torch.inference_mode():
        split = RankedSplit(run.path, "test", own_targets=run.trained_ranker.own_targets)
        dataset = split.dataset
        scores = torch.full([len(dataset.labels)], torch.nan, dtype=torch.float64)
        for lists in split.lists():
            real = torch.arange(lists.score.shape[2]) < lists.length[:, None]
            scores[lists.document[0][real]] = lists.score[0][real]
    raw = {"sparse": SPARSE_RAW, "own seconds": RAW + np.array([0, 1.7e9, 0, 0])}.get(name, RAW)
    raw = dataset.features.numpy() if name in ("own plain", "synthetic") else raw
    rows = ~scores.isnan().numpy()
    assert len(scores[rows].unique()) > rows.sum() / 2, "not all documents are alike"
    queries = np.repeat(dataset.query_ids, dataset.offsets.diff())
    return Case(name, run, raw[rows], queries[rows].tolist(), scores[rows].tolist())


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {}


@pytest.fixture
def case(request, here, trained, cases) -> Case:
    """The case of a name, whose run is made once."""
    if request.param not in cases:
        run = trained(*(word.format(here) for word in DATASETS[request.param]))
        cases[request.param] = ranked_test_split(request.param, run)
    return cases[request.param]


def of_datasets_but(*names: str):
    return pytest.mark.parametrize("case", [name for name in DATASETS if name not in names], indirect=True)


@of_datasets_but()
def test_documents_of_a_file_get_the_scores_of_the_run(case, tmp_path):
    lines = [
        " ".join([f"0 qid:{query}", *(f"{n}:{value!r}" for n, value in enumerate(row, 1))])
        for query, row in zip(case.queries, case.raw.tolist(), strict=True)
    ]
    (tmp_path / "new.txt").write_text("\n".join(lines) + "\n")
    said = "Plain has no method `transformation`.*: they are taken as they are"
    with pytest.warns(UserWarning, match=said) if case.name == "own plain" else nullcontext():
        assert case.is_scored_by(case.run.score(tmp_path / "new.txt"))


@of_datasets_but("own plain")
def test_documents_of_an_array_get_the_scores_of_the_run(case):
    one = case.queries.count(case.queries[0])
    assert case.is_scored_by(case.run.score(case.raw, query=case.queries))
    assert case._replace(scores=case.scores[:one]).is_scored_by(case.run.score(case.raw[:one]))


PAGE = Path(__file__).parents[2] / "docs" / "how-to/score.md"
(SERVE,) = re.findall(r"```python\n(import json\n.*?)\n\nif __name__", PAGE.read_text(), re.DOTALL)


def served(run: api.Run, here: Path, features: np.ndarray, queries: list[str], capsys) -> list[float]:
    """Scores by exported weights and the lines of the page, which know nothing else of ol2r."""
    out = here / "weights.json"
    printed(capsys, "export", run.path, "--to", "weights", "--out", out, "--config-dir", here)
    names: dict = {}
    exec(SERVE.replace('"weights.json"', repr(str(out))), names)
    given = names["model"]["features"]
    assert given in (["price", "visits", "age", "seven"], [str(n) for n in range(1, features.shape[1] + 1)])
    starts = [row for row, name in enumerate(queries) if row == 0 or name != queries[row - 1]]
    return np.concatenate([names["scores"](part) for part in np.split(features, starts[1:])]).tolist()


@of_datasets_but("own plain", "own declared")
def test_exported_weights_give_the_scores_of_the_run(case, here, capsys):
    assert case.is_scored_by(served(case.run, here, case.raw, case.queries, capsys), rel=1e-5)


def test_a_load_of_its_own_needs_a_transformation_of_its_own(here, tmp_path, trained, capsys):
    run = trained("dataset=own_changed")
    message = refused(capsys, "score", run.path, here / "letor" / "test.txt", "--config-dir", here)
    assert message.startswith("Changed has a `load` of its own, so that nothing says how it makes feat")


@pytest.mark.parametrize("case", ["letor query_minmax"], indirect=True)
@pytest.mark.parametrize(
    ("array", "query", "message"),
    [
        (RAW[:, :3], None, r"features must be 4 for each document, as in the data of the run, got 3"),
        (RAW[0], None, r"features must have a row for each document, got the shape \[4\]"),
        (RAW[:0], None, r"features must have a row for each document, got the shape \[0, 4\]"),
        (RAW[:4] * np.nan, None, r"features must be numbers, got nan in row 0, column 0"),
        ([["a"]], None, "features must be numbers, a row for each document"),
        (RAW[:3], ["a", "b"], "query must have a value for each of 3 documents, got 2"),
        (RAW[:3], ["a", "b", "a"], "documents of a query must follow each other"),
        (PAGE, ["a"], "query goes with an array of features: leave it out with a file"),
    ],
    ids=range(8),
)
def test_arrays_that_are_no_documents_are_refused(case, array, query, message):
    with pytest.raises(ValueError, match=message):
        case.run.score(array, query=query)


def test_training_data_that_have_changed_are_refused(here, tmp_path, trained, capsys):
    """Where normalisation depends on them."""
    run = trained("dataset=own_table", "dataset.normalise=global_zscore")
    words = ["score", run.path, here / "letor" / "test.txt", "--config-dir", here]
    content = (here / "raw.npy").read_bytes()
    try:
        np.save(here / "raw.npy", RAW + 1)
        assert refused(capsys, *words).startswith("the data are others than when the run began: type --data FILE")
        (here / "raw.npy").unlink()
        assert "needs the training data of the run, which cannot be read: type --data" in refused(capsys, *words)
    finally:
        (here / "raw.npy").write_bytes(content)


def test_weights_are_those_of_a_linear_ranker(here, tmp_path, trained, capsys):
    """Where several members are deployed, their mean; others, and classes that make features, are refused."""
    letor = [word.format(here) for word in DATASETS["letor query_minmax"]]
    run = trained(*letor, "ranker=pepairrank", "ranker.deploy=mean", "replicas=2")
    assert served(run, here, RAW, NAMES, capsys) == pytest.approx(
        run.score(RAW, query=NAMES).to_list(), rel=1e-5, abs=1e-6
    )
    export = ["--to", "weights", "--config-dir", here, "--out"]
    network = trained(*letor, "ranker/model=mlp", "ranker.model.width=64")
    message = refused(capsys, "export", network.path, *export, tmp_path / "w.json")
    assert re.fullmatch(r"--to weights is for a linear ranker, got .* with ranker=pdgd and a network: type .*", message)
    declared = trained("dataset=own_declared")
    message = refused(capsys, "export", declared.path, *export, tmp_path / "w.json")
    assert message == "--to weights needs features that are normalised by a setting, not by the class Declared"
    assert refused(capsys, "export", run.path, *export, tmp_path / "w.csv").startswith("--out must end in .json")
    words = "export", run.path, network.path, *export, tmp_path / "w.json"
    assert refused(capsys, *words) == "--to weights is for one RUN, got 2: type its id"
    assert not (tmp_path / "w.json").exists()


@pytest.mark.parametrize("name", ["own", "letor"])
def test_a_run_is_scored_from_another_folder_than_it_ran_in(here, tmp_path, trained, monkeypatch, capsys, name):
    """Its data lie in relative paths, and are needed."""
    monkeypatch.chdir(here)
    (here / "groups.txt").write_text("0\n" * len(RAW))
    own = ["dataset=own_placed", "dataset.folder=.", "dataset.group={file: groups.txt}"]
    letor = ["dataset=letor", "dataset.path=letor", "dataset.normalise=global_zscore", "dataset.popularity={zipf: 1}"]
    run = trained(*(own if name == "own" else letor))
    expected = run.score("letor/test.txt").to_list()
    monkeypatch.chdir(tmp_path)
    assert api.Run(run.path, config_dir=here).score(here / "letor" / "test.txt").to_list() == expected
    printed(capsys, "export", run.path, "--to", "per-query", "--out", tmp_path / "values.csv", "--config-dir", here)
