"""The fixed ranker: its lists are those of its source by the definition, whatever the file, and it never learns."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import pairwise, product

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli import api, cli
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.letor import names_of_rows
from ol2r_cli.plugins.check import role_laws
from ol2r_cli.run.run import find_runs
from tests.choices import held
from tests.dataset.letor_files import write_fold
from tests.worlds import TINY, handmade, offline_ndcg, simulate, tiny

LISTS = [[0, 2, 1], [1, 0, 3, 0, 0, 2], [2], [0, 1, 0, 4]]
GAINS = 2.0 ** np.array([label for labels in LISTS for label in labels]) - 1
FEATURES, SEEDS = 4, [3, 4]
WEIGHTS = [0.5, -2.0, 0.25, 1.0]
WORDS = ["run", *TINY, "ranker=fixed", "click=perfect", "rounds=40", "evaluate_every=20", "--quiet"]


def frame():
    """A score for each document of the lists, in another order than theirs."""
    query = [str(q) for q, labels in enumerate(LISTS) for _ in labels]
    scores = np.random.default_rng(1).random(len(query))
    table = pl.DataFrame({"query": query, "document": range(len(query)), "score": scores})
    return table.sample(fraction=1, shuffle=True, seed=2)


def write_scores(file, query, document, scores):
    pl.DataFrame({"query": query, "document": document, "score": scores}).write_csv(file)


def fixed(*words, seeds=SEEDS, rounds=30, dataset=None, **more):
    return simulate(
        tiny("ranker=fixed", *words), seeds, rounds, dataset or handmade(LISTS, FEATURES), regret=False, **more
    )


def sorted_by(scores):
    """The rows of each query by these scores [N], best first."""
    offsets = np.cumsum([0, *map(len, LISTS)])
    return {start: (start + np.argsort(-scores[start:end])).tolist() for start, end in pairwise(offsets)}


SOURCES = {  # what is typed: how its file is written
    "feature=2": None,
    "feature=-2": None,
    f"weights={WEIGHTS}".replace(" ", ""): None,
    "weights=FILE.txt": lambda file: file.write_text("".join(f"{weight}\n" for weight in WEIGHTS)),
    "weights=FILE.npy": lambda file: np.save(file, np.array(WEIGHTS, np.float32)),
    "weights=FILE.json": lambda file: file.write_text(json.dumps({"normalise": "none", "weights": {"7": WEIGHTS}})),
    "scores=FILE.csv": lambda file: frame().write_csv(file),
    "scores=FILE.parquet": lambda file: frame().write_parquet(file),
}


def scores_of(source):
    """The scores [N] of a source by the definition."""
    features = handmade(LISTS, FEATURES).features.double().numpy()
    if source.startswith("scores"):
        return frame().sort("document")["score"].to_numpy()
    return features @ WEIGHTS if source.startswith("weights") else features[:, 1] * (-1 if "-" in source else 1)


@pytest.mark.parametrize("source", SOURCES)
def test_lists_and_ndcg_are_those_of_each_source(tmp_path, source):
    if write := SOURCES[source]:
        write(tmp_path / f"s.{source.rpartition('.')[2]}")
    running, best = fixed(f"ranker.{source}".replace("FILE", str(tmp_path / "s"))), sorted_by(scores_of(source))
    assert running.together is not None
    shown = set()
    for _, one in running.play():
        rows = one.candidates.document.gather(1, one.ranking)
        shown |= {tuple(row[kept].tolist()) for row, kept in zip(rows, one.shown, strict=True)}
    assert shown == {tuple(rows) for rows in best.values()}
    ndcg = [dcg(rows) / dcg(sorted(rows, key=lambda row: -GAINS[row])) for rows in best.values()]
    evaluate = offline_ndcg(handmade(LISTS, FEATURES), "test", torch.tensor(SEEDS))
    found = evaluate(running.ranker, running.ranker.deploy()[None])[0, :, 3]
    assert found.tolist() == pytest.approx([np.mean(ndcg)] * len(SEEDS))


def dcg(rows):
    return sum(GAINS[row] / np.log2(place + 2) for place, row in enumerate(rows))


@pytest.mark.parametrize("source", ["weights", "scores"])
def test_what_is_given_in_a_file_keeps_the_laws(tmp_path, source):
    """Also those of loops and of resumption; every world of the laws has its queries and documents in this file."""
    names = list(product(range(40), range(130)))
    write_scores(tmp_path / "scores", *zip(*names, strict=True), np.random.default_rng(0).permutation(len(names)))
    (tmp_path / "weights").write_text("".join(f"{weight}\n" for weight in WEIGHTS))
    laws = [role_laws.stages, role_laws.single_precision, role_laws.short_queries, role_laws.labels]
    laws += [role_laws.snapshots, role_laws.order_of_documents, role_laws.run_and_resume]
    report = held(("ranker=fixed", f"ranker.{source}={tmp_path / source}"), laws)
    assert report.ok, report.explanations()
    assert len(report.passed) == len(laws), report


def test_each_seed_has_its_own_weights_of_a_run(tmp_path):
    by_seed = {str(seed): [float(seed), 0.0, 0.0, 1.0] for seed in SEEDS}
    (tmp_path / "w.json").write_text(json.dumps({"weights": by_seed}))
    deployed = fixed(f"ranker.weights={tmp_path / 'w.json'}").ranker.deploy()
    assert deployed.tolist() == [*by_seed.values()]
    with pytest.raises(ValueError, match=r"has weights of the seeds 3, 4, got seed 5$"):
        fixed(f"ranker.weights={tmp_path / 'w.json'}", seeds=[5])


def booster(package, folder, features=FEATURES):
    """The file of a small model of a package, and its scores of the documents."""
    library, documents = pytest.importorskip(package), handmade(LISTS, features).features.numpy()
    dataset, is_lightgbm = handmade(LISTS * 20, features), package == "lightgbm"
    data = library.Dataset if is_lightgbm else library.DMatrix
    settings = {"objective": "binary", "verbosity": -1} if is_lightgbm else {"objective": "binary:logistic"}
    model = library.train(settings, data(dataset.features.numpy(), dataset.labels.numpy() > 0.0), 3)
    file = folder / f"{package}.{'txt' if is_lightgbm else 'ubj'}"
    model.save_model(file)
    if is_lightgbm:
        return file, model.predict(documents, raw_score=True)
    return file, model.predict(data(documents), output_margin=True)


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_a_model_of_trees_scores_as_its_library_does(tmp_path, package):
    file, scores = booster(package, tmp_path)
    running = fixed(f"ranker.model_file={file}")
    assert running.ranker.packages == (package,)
    for _, one in running.play():
        rows, mask = one.candidates.document, one.candidates.mask
        found = one.prediction.scores[:, 0]
        assert found[mask].numpy() == pytest.approx(np.asarray(scores)[rows[mask].numpy()], abs=1e-6)
    assert len({*np.round(scores, 6).tolist()}) > 3, "the model says something"


def test_a_model_of_other_data_is_refused(tmp_path):
    file, _ = booster("lightgbm", tmp_path, features=6)
    with pytest.raises(ValueError, match=r"^ranker.model_file must be a model of 4 features, .* got \S+ of 6$"):
        fixed(f"ranker.model_file={file}")
    file.write_text("tree\nand no more")
    with pytest.raises(ValueError, match=r"^ranker.model_file must be a model of lightgbm, got "):
        fixed(f"ranker.model_file={file}")


@pytest.mark.parametrize(("package", "first"), [("lightgbm", "tree\n"), ("xgboost", "{}")])
def test_a_model_of_an_absent_package_says_what_to_type(tmp_path, without_package, package, first):
    (tmp_path / "model").write_text(first)
    without_package(package)
    with pytest.raises(ValueError, match=rf"needs {package} \(.*\): type pip install 'ol2r\[{package}\]'$"):
        fixed(f"ranker.model_file={tmp_path / 'model'}")


CASES = {  # what is typed, a file, and the error
    "none": ("", "", r"one of ranker.feature, .* given, got none: type such as ranker.feature=1"),
    "two": ("feature=1 weights=[1]", "", "one of .* must be given, got ranker.feature and ranker.weights"),
    "no file": ("scores=FILE.", "", r"ranker.scores must be a file, got \S+: No such file or directory"),
    "a folder": ("weights=/tmp", "", "ranker.weights must be a file, got /tmp: .*"),
    "feature 0": ("feature=0", "", "ranker.feature must be from 1 to 6, the features of the data, or .*, got 0"),
    "feature 7": ("feature=-7", "", "ranker.feature must be from 1 to 6, the features of the data, or .*, got -7"),
    "few weights": ("weights=[1,2]", "", "ranker.weights must be 6 numbers, one for each feature of the data, got 2"),
    "many weights": ("weights=FILE", "1\n" * 7, "ranker.weights must be 6 numbers, .*, got 7"),
    "words": ("weights=FILE", "one\ntwo\n", r"ranker.weights must be a file with a number a line, .*, got \S+: .*"),
    "a table": ("weights=FILE", "1 2\n3 4\n", r"ranker.weights must be a file with .*: they are not one list"),
    "nan": ("weights=FILE", "1\n2\n3\n4\n5\nnan\n", "ranker.weights must give finite numbers, got nan"),
    "no columns": ("scores=FILE", "query,doc\n1,2\n", r"ranker.scores must have the .* without document, score .*"),
    "no csv": ("scores=FILE", "query,document\n1,2,3\n", "ranker.scores must be a csv or parquet file, got .*"),
    "no number": ("scores=FILE", "query,document,score\n1,2,3\n1,3,x\n", "ranker.scores .*, got x in line 3 of .*"),
    "two scores": (
        "scores=FILE",
        "query,document,score\n1,2,.5\n1,2,.5\n1,2,.6\n",
        "ranker.scores must have one score for each document, got two for document 2 of query 1 in .*",
    ),
    "missing": (
        "scores=FILE",
        "query,document,score\n1,2,.5\n",
        r"ranker.scores must have a score for each document of all splits, got none for \d+ of \d+, such as "
        r"document 0 of query \S+, in \S+: a document is called by .*",
    ),
    "no model": ("model_file=FILE", "a,b\n", r"ranker.model_file must be a text file of LightGBM, or .*, got \S+"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_bad_source_is_refused_in_one_line(tmp_path, capsys, name):
    typed, content, expected = CASES[name]
    (tmp_path / "file").write_text(content)
    words = [f"ranker.{word}".replace("FILE", str(tmp_path / "file")) for word in typed.split()]
    assert cli.main([*WORDS, *words, f"output_dir={tmp_path / 'outputs'}"]) == 2
    assert re.fullmatch(f"ol2r run: {expected}\n", capsys.readouterr().err)
    assert not (tmp_path / "outputs").exists()


def test_documents_are_found_by_their_names(tmp_path):
    """By those of their LETOR comments; other documents of the file are left out, and so are equal rows."""
    line = "{} qid:{} 1:{} 2:1 # docid = {}\n"
    data = write_fold(
        tmp_path / "data",
        train="".join(line.format(d % 2, "q 1"[::2], d, f"d{d}") for d in range(5)),
        test="".join(line.format(d % 2, 9, d, f"d{d}") for d in range(3)),
    )
    names = [("q1", d) for d in range(5)] + [("9", d) for d in range(3)]
    rows = [f"{query},d{d},{d if query == '9' else -d}" for query, d in names]
    rows = ["query,document,score,more", *(f"{row},1" for row in [*rows, *rows, "q1,ad,9"])]
    (tmp_path / "s.csv").write_text("\n".join(rows))
    words = ["dataset=letor", f"dataset.path={data}", f"cache_dir={tmp_path}", f"output_dir={tmp_path / 'out'}"]
    words += ["measures=[ndcg]", "ranker=fixed", f"ranker.scores={tmp_path / 's.csv'}", "rounds=2", "--quiet"]
    assert cli.main(["run", *words, "click=perfect", "save_interactions=true", "positions=5"]) == 0
    (path,) = find_runs(tmp_path / "out")
    shown = pl.read_parquet(path / "interactions.parquet").filter(pl.col("round") == 1)
    assert shown["document"].to_list() == [0, 1, 2, 3, 4]


def test_the_content_of_a_file_decides_the_id(tmp_path):
    """Not where it is."""
    ids, content = [], "1\n2\n3\n4\n5\n"
    for name, last in ("w.txt", "6\n"), ("elsewhere.txt", "6\n"), ("w.txt", "7\n"):
        (tmp_path / name).write_text(content + last)
        outputs = tmp_path / str(len(ids))
        assert cli.main([*WORDS, f"ranker.weights={tmp_path / name}", f"output_dir={outputs}"]) == 0
        ids += [path.name for path in find_runs(outputs)]
    assert ids[0] == ids[1] != ids[2]
    loaded = api.load(*(tmp_path / str(number) for number in range(3)))
    assert loaded["group"].to_list() == [0, 0, 1], "so that a content is one row"


def test_a_file_that_is_written_anew_is_another_row(tmp_path, capsys):
    """Of reports, whose words choose one content; while a file has one content, no row says so."""
    file, contents = tmp_path / "w.txt", ("1\n2\n3\n4\n5\n6\n", "6\n5\n4\n3\n2\n1\n")
    names = []
    for content in contents:
        file.write_text(content)
        assert cli.main([*WORDS, f"ranker.weights={file}", f"output_dir={tmp_path / 'out'}"]) == 0
        names.append(hashlib.sha256(content.encode()).hexdigest()[:12])
        loaded = api.load(tmp_path / "out")
        assert ("ranker.weights.sha256" in loaded.columns) == (len(names) == 2)
    assert loaded["group"].n_unique() == 2
    assert {*loaded["ranker.weights.sha256"]} == {*names}
    assert len(api.load(tmp_path / "out", f"ranker.weights.sha256={names[0]}")) == 1
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in names), printed
    assert cli.main(["diff", *(str(path) for path in find_runs(tmp_path / "out"))]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ranker.weights.sha256")]
    assert {*line.split()[1:]} == {*names}


def test_what_it_deploys_is_exported_where_it_is_linear(tmp_path, capsys):
    """Its weights are exported, and those of a file serve again as the same ranker; scores of documents are refused."""
    words = [*WORDS, "ranker.weights=[1,2,3,4,5,6]", "replicas=2", "seed=3", f"output_dir={tmp_path / 'list'}"]
    assert cli.main(words) == 0
    (path,) = find_runs(tmp_path / "list")
    assert cli.main(["export", str(path), "--to", "weights", "--out", str(tmp_path / "w.json")]) == 0
    again = [f"ranker.weights={tmp_path / 'w.json'}", "replicas=2", "seed=3", f"output_dir={tmp_path / 'file'}"]
    assert cli.main([*WORDS, *again]) == 0
    (other,) = find_runs(tmp_path / "file")
    for file in "trace.parquet", "evaluation.parquet":
        assert (path / file).read_bytes() == (other / file).read_bytes()
    query, document = names_of_rows(build(tiny().dataset).load())
    write_scores(tmp_path / "s.csv", query, document, range(len(query)))
    assert cli.main([*WORDS, f"ranker.scores={tmp_path / 's.csv'}", f"output_dir={tmp_path / 'scores'}"]) == 0
    (scored,) = find_runs(tmp_path / "scores")
    capsys.readouterr()
    assert cli.main(["score", str(scored), str(tmp_path / "s.csv"), "--out", str(tmp_path / "x.csv")]) == 2
    assert "RUN must be of a ranker that can score new queries" in capsys.readouterr().err
