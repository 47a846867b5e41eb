"""`ol2r recommend` as a user meets it: directories, resume, sweeps, reports, verification, explanations, messages."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from ol2r_cli.commands.data import main as data
from ol2r_cli.commands.report import main as report
from ol2r_cli.config.composer import Composer
from ol2r_cli.plugins.look_after.verify import main as verify
from ol2r_cli.plugins.page import html_page
from ol2r_cli.plugins.recommend import fit as fit_module
from ol2r_cli.plugins.recommend.baselines import BPRMF, MostPopular
from ol2r_cli.plugins.recommend.evaluation import rankings
from ol2r_cli.plugins.recommend.explained import _rule
from ol2r_cli.plugins.recommend.fact import FacT
from ol2r_cli.plugins.recommend.fit import PER_USER, Fit
from ol2r_cli.plugins.recommend.recommend import main
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.plugins.recommend.users import Users
from ol2r_cli.report.estimates import of_values, paired_t, unit_values
from ol2r_cli.run.recomputed import differences
from ol2r_cli.run.run import Run, find_runs
from tests.finished import printed, refused
from tests.plugins.recommend.small import model

SMALL = ["reviews.users=60", "reviews.items=40", "reviews.of_user=12"]
STEPS = "model=bprmf", "model.steps=20"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def fitted(*words):
    assert main([*SMALL, *words]) == 0
    return Run.read_finished(max(find_runs("outputs"), key=lambda path: (path / "run.json").stat().st_mtime_ns))


def contents(of):
    files = {path.name: path.read_bytes() for path in of.path.iterdir()}
    return {name: content for name, content in files.items() if name not in ("run.json", "log.txt", "config.yaml")}


def test_a_fit_has_its_files_and_is_found_by_the_same_command(capsys):
    first = fitted(*STEPS)
    assert first.path.parent.name == "generated"
    assert re.fullmatch(r"bprmf-[0-9a-f]{10}", first.path.name)
    names = {"config.yaml", "evaluation.parquet", "model.npz", "per_user.parquet", "run.json", "summary.json"}
    assert {path.name for path in first.path.iterdir()} == names | {"log.txt"}
    assert len(first.evaluation) == 20
    means = first.table(PER_USER).drop("user").mean().row(0, named=True)
    assert {name: of["mean"] for name, of in first.summary.items()} == pytest.approx(means)
    out = printed(capsys, "recommend", *SMALL, *STEPS, "note=again")
    assert f"{first.summary['test_ndcg_10']['mean']:.4f}" in out
    assert out.endswith("(done before: force=true fits it again)\n")
    before = contents(first)
    assert contents(fitted(*STEPS, "force=true")) == before, "the same seed gives the same bytes"
    assert fitted(*STEPS, "seed=1").path != first.path


def test_where_numpy_draws_other_numbers_a_fit_is_another(monkeypatch):
    composition = Composer(root="recommend")([*SMALL, "model=bprmf"])
    before = Fit(composition.settings, composition.choices).id
    monkeypatch.setattr(fit_module, "other_numbers", lambda: [0.5])
    assert Fit(composition.settings, composition.choices).id != before


@pytest.mark.parametrize(
    ("error", "code", "state"), [(KeyboardInterrupt, 130, "interrupted"), (MemoryError, 1, "failed")]
)
def test_a_fit_that_was_killed_starts_again_to_the_same_files(error, code, state, monkeypatch):
    whole = contents(fitted(*STEPS))
    fit, calls = BPRMF.scores, []

    def dies(self, users):
        calls.append(1)
        if len(calls) == 2:
            raise error
        return fit(self, users)

    with monkeypatch.context() as context:
        context.setattr(BPRMF, "scores", dies)
        assert main([*SMALL, *STEPS, "force=true"]) == code
    (path,) = find_runs("outputs")
    assert Run.read(path).state == state
    assert contents(fitted(*STEPS)) == whole


SWEEP = ["-m", *SMALL, "model=most_popular,nmf", "seed=0,1", "launcher.jobs=2"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The folder of a sweep, and of fits to other splits."""
    folder = f"output_dir={tmp_path_factory.mktemp('swept')}"
    assert main([*SWEEP, folder]) == 0
    for name, split in ("most_popular", 1), ("nmf", 1), ("most_popular", 2):
        assert main([*SMALL, f"model={name}", f"reviews.split={split}", folder]) == 0
    return folder.partition("=")[2]


def test_a_sweep_makes_each_fit_once(swept, capsys):
    assert "4 new" in printed(capsys, "recommend", *SWEEP, "--dry-run")
    assert "4 finished before" in printed(capsys, "recommend", *SWEEP, f"output_dir={swept}")
    assert "3 runs: 3 finished" in printed(capsys, "status", swept, "model=nmf")
    assert verify([swept]) == 0


BASELINE = ["--baseline", "most_popular", "--metric", "test_ndcg_10"]


def of_users(root, name):
    """Means over seeds, by split and user."""
    runs = [Run.read_finished(path) for path in find_runs(root) if path.name.startswith(name)]
    frames = [of.table(PER_USER).with_columns(split=of.settings["reviews"]["split"]) for of in runs]
    return pl.concat(frames).drop_nulls("test_ndcg_10").group_by("split", "user").agg(pl.col("test_ndcg_10").mean())


def test_differences_are_paired_over_users(swept, capsys):
    """A user of two splits is one unit."""
    (row,) = json.loads(printed(capsys, "report", swept, *BASELINE, "--json", "--differences"))
    pairs = of_users(swept, "nmf").join(of_users(swept, "most_popular"), on=["user", "split"])
    difference = pl.col("test_ndcg_10") - pl.col("test_ndcg_10_right")
    values = {(user, split): value for user, split, value in pairs.select("user", "split", difference).iter_rows()}
    estimate, p = of_values(values, Users().independent), paired_t(unit_values(values, Users().independent))
    assert estimate.units < estimate.n
    expected = {"difference": estimate.mean, "difference_half_width": estimate.half_width, "p": p, "pairs": estimate.n}
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert f"{estimate.n} of {estimate.units} users" in " ".join(printed(capsys, "report", swept, *BASELINE).split())


@pytest.mark.parametrize(("words", "told"), [
    (BASELINE, "with the users as units (degrees of freedom: users - 1), whatever the number of splits"),
    (BASELINE, "Not all (user, split) are in both rows of 1 comparison."),
    (["--metric", "test_ndcg_10", "--format", "latex"], r"\caption{Test NDCG@10 on generated: means $\pm$ half"),
    (["--select", "validation", "--overrides"], "reviews=generated model=nmf"),
])  # fmt: skip
def test_a_report_is_about_users(swept, capsys, words, told):
    assert told in " ".join(printed(capsys, "report", swept, *words).split())


def test_figures_have_intervals_over_users(swept, capsys):
    assert report([swept, "--figure", "bar"]) == 0
    assert "No intervals" not in capsys.readouterr().err, "there are enough users"


def test_a_page_has_fits_by_split_and_seed(swept):
    assert report([swept, "--out", "report.html"]) == 0
    page = re.sub(r"(\s|<[^>]*>)+", " ", Path("report.html").read_text())
    assert re.search(r"2 groups of 7 runs: .* values of each metric", page)
    assert re.search(r"ranker nmf seeds of fold 0 0–1 seeds of fold 1 0 ", page)
    assert "generated: the highest mean" in page


def test_verify_names_a_summary_that_is_not_that_of_the_users():
    of = fitted("model=most_popular")
    of.summary_file["metrics"]["test_ndcg_10"]["mean"] += 0.01
    assert [*differences(of)] == ["summary.json: metrics are not the means of per_user.parquet"]


def test_users_with_a_hit_are_fewer_and_come_with_a_warning(capsys):
    alone = fitted("model=most_popular", "users=with_hit").table(PER_USER).drop_nulls("test_ndcg_10")
    assert "a model can gain by having fewer hits" in capsys.readouterr().err
    everybody = fitted("model=most_popular").table(PER_USER).drop_nulls("test_ndcg_10")
    hits = everybody.filter(pl.col("test_ndcg_100") > 0)
    assert alone["test_ndcg_10"].to_list() == hits["test_ndcg_10"].to_list()


class _Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.texts = []

    def handle_data(self, data):
        self.texts += [data.strip()] if data.strip() else []


def test_new_users_are_ranked_by_rules_and_known_reviews():
    """Also with the stored model; what is observed is not recommended; with planted rules more reviews help FacT."""
    large, means = ["reviews.users=400", "reviews.items=60"], {}
    for name, observed in (("most_popular", 0), ("fmf", 3), ("fact", 0), ("fact", 5)):
        words = *large, f"model={name}", f"reviews.observed={observed}"
        stored, composition = fitted(*words), Composer(root="recommend")([*SMALL, *words])
        fit = Fit(composition.settings, composition.choices)
        model, of = fit.restored(), fit.reviews
        profiles = of.user_profile(of.observed)
        for user, value in stored.table(PER_USER).drop_nulls("test_ndcg_10").select("user", "test_ndcg_10").iter_rows():
            relevant, known = (of.item[rows[of.user[rows] == user]] for rows in (of.test, of.observed))
            scores = model.fold_in(profiles[user]).astype(float)
            scores[known] = -np.inf
            hits = np.isin(np.argsort(-scores, kind="stable")[:10], relevant)
            discount = 1 / np.log2(np.arange(2, 12))
            assert len(known) == observed
            if name != "most_popular":  # whose equal counts are in an order of their own
                assert value == pytest.approx((hits * discount).sum() / discount[: len(relevant)].sum())
        known = of.user[of.train][:1].astype(np.int64)  # a user who is not new has the list of the model
        np.testing.assert_array_equal(
            fit.recommended(model, known, "test", 10), rankings(model.scores, of, "test", 10, known)
        )
        means[name, observed] = stored.summary["test_ndcg_10"]["mean"]
        assert stored.summary["test_ndcg_10"]["n"] == 20
    assert means["fact", 5] > means["fact", 0] + 0.05
    assert means["fact", 5] > means["most_popular", 0]


@pytest.fixture(scope="module")
def fact(tmp_path_factory):
    """The words of a fit of FacT, which is made once, in a folder of its own."""
    few = ["model.start_epochs=20", "model.epochs=2", "model.alternations=1"]
    words = ["recommend", *SMALL, "model=fact", *few, f"output_dir={tmp_path_factory.mktemp('fact')}"]
    assert main(words[1:]) == 0
    return words


@pytest.fixture
def explained(fact, capsys):
    """The words that explain the first item of a user, and what is said as JSON and as text."""
    listed = json.loads(printed(capsys, *fact, "explain.user=7", "--json"))
    words = [*fact, "explain.user=7", f"explain.item={listed['recommended'][0]['item']}"]
    return words, json.loads(printed(capsys, *words, "--json")), printed(capsys, *words)


HOLDS = {"left": "at least", "right": "below", "unknown": "never mentioned"}


def test_an_explanation_has_its_rules_and_contributions(explained):
    explanation, text = explained[1]["explanation"], explained[2]
    for rule in chain(*explanation["paths"].values()):
        assert re.search(rf"└─ {rule['feature']}: .*{HOLDS[rule['branch']]}", text)
    added = zip(explanation["features"], explanation["contributions"], strict=True)
    told = [f"{feature} +{number:.2g}" for feature, number in added]
    assert told
    assert [words for words in (explanation["sentence"], explanation["by"], *told) if words not in text] == []


def test_shares_of_mentions_are_told_as_shares(explained):
    """Also where a user mentions one feature only: its share is 1."""
    rules = explained[1]["explanation"]["paths"]
    assert {"share" in rule for rule in rules["user"]} <= {True}
    assert not any("share" in rule for rule in rules["item"])
    rule = {"feature": "battery", "threshold": 0.25, "value": 1.0, "branch": "left"}
    assert _rule("user", rule | {"share": True}) == "battery: share of mentions 100%, at least 25%"
    assert _rule("item", rule | {"threshold": 2.0, "branch": "right"}) == (
        "battery: good minus bad mentions 1, below 2"
    )


def test_an_explanation_may_be_a_page(explained, capsys, tmp_path):
    words, content, _ = explained
    assert main([*words[1:], "explain.out=a.txt", f"output_dir={tmp_path}"]) == 2
    assert "explain.out must end in .html or .json, got a.txt" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # refused before the fit
    printed(capsys, *words, "explain.out=page.html")
    page, html = _Texts(), Path("page.html").read_text()
    page.feed(html)
    named = [item["name"] for item in content["recommended"]]
    assert len(named) == 10
    assert {content["explanation"]["sentence"], *named} <= set(page.texts)
    assert Path(html_page.__file__).with_name("page.css").read_text() in html, "the style of report.html"


def test_the_rules_of_users_are_a_file(explained):
    words, content, _ = explained
    (path,) = find_runs(next(word for word in words if word.startswith("output_dir=")).partition("=")[2])
    tree = json.loads((path / "tree.json").read_text())
    assert tree["user"]["feature"] == content["explanation"]["paths"]["user"][0]["feature"]


@pytest.mark.parametrize("name", ["most_popular", "nmf", "bprmf", "efm", "fmf", "fact", "mter"])
def test_large_numbers_of_users_and_no_mentions_at_all(name, capsys):
    """Reviews without a word, of users with numbers from 1.9e9 on: all models fit, and results have these numbers."""
    cells = [(user, item) for user in range(20) for item in range(15) if (user + item) % 3 == 0]
    lines = [f"{1_900_000_000 + user},{item},{1 + (user + item) % 5}," for user, item in cells]
    for split, part in (("train", lines[:90]), ("test", lines[90:])):
        Path(f"{split}.entry").write_text("\n".join(part) + "\n")
    (Path("mine") / "reviews").mkdir(parents=True)
    named = Composer(root="recommend")(["reviews=amazon_cellphones"]).settings["reviews"]
    own = named | {"path": ".", "data_dir": ".", "files": {"train": "train.entry", "test": "test.entry"}}
    Path("mine/reviews/mine.yaml").write_text(yaml.safe_dump(own))
    few = {"fact": ["model.start_epochs=20", "model.epochs=2"], "mter": ["model.steps=4", "model.validate_every=4"]}
    words = ["recommend", "--config-dir", "mine", "reviews=mine", f"model={name}", *few.get(name, [])]
    assert json.loads(printed(capsys, *words, "explain.user=1900000003", "--json"))["user"] == 1_900_000_003
    (path,) = find_runs("outputs")
    tested = {1_900_000_000 + user for user, _ in cells[90:]}
    assert set(Run.read_finished(path).table(PER_USER).drop_nulls("test_ndcg_10")["user"]) == tested
    told = "explain.user must be from 1900000000 to 1900000019, got 3"
    assert refused(capsys, *words, "explain.user=3") == told


LISTED = re.compile(r"^ +\d+ item (\d+)$", re.MULTILINE)


def test_a_list_has_the_numbers_that_explain_item_takes(explained, fact, capsys):
    out = printed(capsys, *fact, "explain.user=7")
    assert "explain.item=NUMBER" in out
    content = explained[1]
    listed = [item["item"] for item in content["recommended"]]
    assert [int(number) for number in LISTED.findall(out)] == listed
    assert (content["item"], content["name"]) == (listed[0], f"item {listed[0]}")
    words = "recommend", *SMALL, "model=most_popular", "explain.user=7"
    assert "explain.item=" not in printed(capsys, *words), "none explains"


def test_names_of_items_and_features_are_made_printable(fact, monkeypatch, capsys, typed):
    ask = FacT.interview

    def interview(self, answer):
        self.names = tuple(f"{name}\x1b[31m\n\ud800" for name in self.names)
        return ask(self, answer)

    monkeypatch.setattr(FacT, "interview", interview)
    monkeypatch.setattr(Reviews, "item_name", lambda self, item: f"bell\x07 and\nline \udcff {item}")
    typed(*"1" * 20)
    out = printed(capsys, *fact, "interview=true", "explain.user=3")
    assert all(char.isprintable() for line in out.split("\n") for char in line)
    assert re.search(r"feature \d\\x1b\[31m\\n\\ud800\?", out)
    assert len(re.findall(r"^ +\d+ item \d+: bell\\x07 and\\nline \\udcff \d+$", out, re.MULTILINE)) == 20


def test_an_interview_recommends_and_ends_with_its_input(fact, capsys, typed):
    typed("7", "a lot", *"3" * 20)
    out = printed(capsys, *fact, "interview=true")
    assert "How do you like this" in out
    assert "type a number from 1 to 3" in out
    assert len(LISTED.findall(out)) == 10
    typed()
    printed(capsys, *fact, "interview=true")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain.user=60"], "explain.user must be from 0 to 59, got 60"),
        (["explain.user=1", "explain.item=40"], "explain.item must be from 0 to 39, got 40"),
        (["explain.item=4"], "explain.item needs a user: type explain.user=NUMBER"),
        (
            ["explain.user=1", "explain.item=4"],
            "explain.item needs a model that has it, one of mter, fact, got MostPopular",
        ),
        (["interview=true"], "interview=true needs a model that has it, one of fact, got MostPopular"),
        (["-m", "explain.user=1,2"], "explain and interview are for one fit: leave out -m"),
        (["users=some"], "users must be one of all, with_hit, got 'some'"),
        (["model=nmf", "model.l2=-1"], "model.l2 must be 0 or more, got -1"),
        (["model=mine"], "model must be one of "),
        (["rounds=9"], "there is no setting or group 'rounds'"),
        (["device=cuda"], "device must be cpu, since fits run on a CPU, got cuda"),
        (["reviews.observed=2", "model=bprmf"], "needs a model that has it, one of most_popular, fmf, fact, got BPRMF"),
        (["reviews.training=0.0001"], "reviews must have some in each split, got none for train"),
        (["ranker=pairrank"], "ranker is a group of `ol2r run`: type ol2r run ranker=pairrank"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_type(words, message, capsys):
    assert message in refused(capsys, "recommend", *SMALL, *words)


def test_an_item_without_a_training_review_is_refused(capsys):
    few = "recommend", *SMALL, "reviews.training=0.02", "model=fact", "explain.user=0", "explain.item=0"
    told = r"explain\.(user|item) must have a training review, got 0, which has none"
    assert re.search(told, refused(capsys, *few))


def test_scores_that_are_not_finite_fail_with_what_to_change(capsys):
    assert main([*SMALL, "model=bprmf", "model.learning_rate=1e6"]) == 1
    assert "model=bprmf diverged" in capsys.readouterr().err


def test_other_commands_say_where_it_is(capsys):
    told = "model is a group of `ol2r recommend`: type ol2r recommend model=fact"
    assert refused(capsys, "run", "model=fact") == told
    assert "model.factors" in printed(capsys, "list", "model", "nmf")
    assert "output_dir" in printed(capsys, "list", "recommend")
    assert data(["check", "reviews=generated"]) == 2
    job = printed(capsys, "recommend", "--cfg", "job", "model=nmf")
    assert "_target_: ol2r_cli.plugins.recommend.baselines.NMF" in job
    assert isinstance(model("model=most_popular"), MostPopular)


def test_models_are_listed_apart_from_the_choices_of_runs(capsys):
    runs, *_, fits = printed(capsys, "list").split("\n\n")
    assert not {"model", "reviews"} & {line.split()[0] for line in runs.splitlines()}
    assert "batch fits on reviews without rounds and clicks" in fits
    assert "\n*  model=most_popular " in printed(capsys, "list", "model")
    assert refused(capsys, "list", "fact").endswith("fact is a choice of model: type ol2r list model fact")
