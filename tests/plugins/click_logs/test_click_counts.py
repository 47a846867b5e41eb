"""Datasets of click counts: what a file says, attraction by a plain calculation, and users who click by it."""

from __future__ import annotations

import polars as pl
import pytest
import torch

from ol2r_cli import api
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.plugins.check.laws import LAWS, check_composition, law_name
from ol2r_cli.plugins.export.click_log import click_log
from tests.choices import composition
from tests.rounds import rounds
from tests.worlds import simulate

HEADINGS = "query,document,place,impressions,clicks"
EXAMINED, ATTRACTION = [1.0, 0.5, 0.2], {"x": [0.5, 0.4, 0.1, 0.2], "y": [0.01, 0.9]}  # by place; by query and document
# Impressions at places 1 to 3. A row of query y has more clicks than impressions.
SHOWN = {"x": [[100, 1000, 0], [1000, 100, 100], [0, 100, 1000], [0, 0, 50]], "y": [[0, 0, 5000], [200, 100, 0]]}


def written(folder, published=False, more="y,bad,1,10,11"):
    """A file whose click rates are attraction times examination, as this project has it or as it is published."""
    lines = [HEADINGS, more]
    for query, documents in SHOWN.items():
        for document, places in enumerate(documents):
            for place, shown in enumerate(places):
                clicks = round(shown * ATTRACTION[query][document] * EXAMINED[place])
                lines.append(f"{query},d{document},{place + 1},{shown},{clicks}")
    if published:
        rows = [line.split(",") for line in lines[1:]]
        lines = [",dict_index,pos,Impression,Click,query,url"]
        lines += [f"0,{query}_{url},{int(place) - 1},{n},{c},{query},{url}" for query, url, place, n, c in rows]
    file = folder / f"{published}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def loaded(file, *overrides):
    return build(compose(["dataset=yandex_bandit", f"dataset.path={file}", *overrides]).config.dataset).load()


def test_attraction_is_clicks_over_examinations(tmp_path):
    """Rates that are exactly attraction times examination give both back; queries and documents are by impressions."""
    dataset = loaded(written(tmp_path))
    assert dataset.query_ids == ["y", "x"]  # 5,300 and 3,450 impressions
    assert dataset.offsets.tolist() == [0, 2, 6]
    assert dataset.attraction.tolist() == pytest.approx([0.01, 0.9, 0.4, 0.5, 0.1, 0.2])
    assert dataset.labels.tolist() == [0, 1, 2, 3, 0, 1]
    assert len(dataset.warnings) == 1
    assert dataset.warnings[0].startswith("1 rows of ")
    assert loaded(written(tmp_path, published=True)).fingerprint == dataset.fingerprint
    fewer = loaded(written(tmp_path), "dataset.queries=1", "dataset.documents=2")
    assert (fewer.query_ids, fewer.grades, fewer.attraction.tolist()) == (["y"], 2, [0.01, 0.9])


def test_an_attraction_above_one_is_one(tmp_path):
    dataset = loaded(written(tmp_path, more="y,d9,3,1000000,900000"), "dataset.queries=1")  # examined 200,000 times
    assert dataset.attraction.tolist() == pytest.approx([1, 0.01, 0.9])


def test_intents_move_the_attractions_by_ranks(tmp_path):
    """Of four documents by two ranks, of two by one; the labels of the dataset can be those of an intent."""
    both = loaded(written(tmp_path), "dataset.intents=2")
    moved = [0.9, 0.01, 0.1, 0.2, 0.4, 0.5]  # of .4 .5 .1 .2: best to worst .5 .4 .2 .1, moved .2 .1 .5 .4
    assert both.intents.attraction[1].tolist() == pytest.approx(moved)
    second = loaded(written(tmp_path), "dataset.intents=2", "dataset.intent=2")
    assert second.attraction.tolist() == pytest.approx(moved)
    assert torch.equal(second.labels, both.intents.labels[1])
    assert second.fingerprint != both.fingerprint


def test_users_click_by_the_attraction_of_their_intent(tmp_path):
    """A share of clicks for every document and phase, of users who examine all that is shown: 5 standard errors."""
    words = ["intent=abrupt", "intent.every=1500", "dataset.intents=2", "ranker=random"]
    words += ["click=position_based", "click.eta=0", "positions=4", "dataset=yandex_bandit"]
    config = compose([*words, f"dataset.path={written(tmp_path)}"]).config
    dataset = build(config.dataset).load()
    clicks, shown = torch.zeros(2, 2, 6)
    for t, one in rounds(simulate(config, [0, 1], 3000, dataset)):
        document = one.candidates.document.gather(1, one.ranking)
        shown[t // 1500].scatter_add_(0, document[one.shown], torch.ones(int(one.shown.sum())))
        clicks[t // 1500].scatter_add_(0, document[one.shown], one.clicks[one.shown].float())
    p = dataset.intents.attraction
    assert ((clicks / shown - p).abs() < 5 * (p * (1 - p) / shown).sqrt()).all()


def test_an_exported_log_has_the_examination_by_attraction(tmp_path):
    """Of cascade users: nothing above attracts, by the attractions of the round's intent."""
    words = ["dataset=yandex_bandit", f"dataset.path={written(tmp_path)}", "dataset.intents=2", "ranker=random"]
    words += ["intent=abrupt", "intent.every=20", "click=cascade", "positions=4", f"output_dir={tmp_path}"]
    run = api.run(*words, rounds=40)
    table, dataset = click_log(run.path)
    for row in table.iter_rows(named=True):
        above = (pl.col("round") == row["round"]) & (pl.col("position") < row["position"])
        documents = table.filter(above)["document"].to_list()
        attraction = dataset.intents.attraction[(row["round"] - 1) // 20, documents]
        assert row["examination"] == pytest.approx(float((1 - attraction).prod())), row


@pytest.mark.parametrize(("text", "message"), [
    (f"{HEADINGS}\na,b,0,7,1", r"file, line 2: a row must have place from 1 to 1000, got .* place 0"),
    (f"{HEADINGS}\na,b,1,7,1\na,c,2,7,1", r"file: documents that were shown at both of places 1 and 2 must have c"),
    (None, r"path must be a file of click counts, got none \(looked for: .*file\); get it from https://git"),
])  # fmt: skip
def test_what_is_not_as_it_should_be_is_one_line(tmp_path, text, message):
    file = tmp_path / "file"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=message):
        loaded(file)


def test_it_keeps_the_laws(tmp_path):
    words = ("dataset=yandex_bandit", f"dataset.path={written(tmp_path)}", "dataset.intents=2")
    report = check_composition(composition(words), ("dataset",), "dataset=yandex_bandit")
    assert report.ok, report
    assert set(map(law_name, LAWS["dataset"])) - set(report.passed) == {"groups"}
