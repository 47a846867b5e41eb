"""`ol2r recommend` as a user meets it: directories, resume, sweeps, reports, verification, explanations, messages."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from ol2r_cli.commands.data import main as data
from ol2r_cli.commands.list import main as listed
from ol2r_cli.commands.report import main as report
from ol2r_cli.commands.run import main as run
from ol2r_cli.commands.status import main as status
from ol2r_cli.config.composer import Composer
from ol2r_cli.plugins.look_after.verify import main as verify
from ol2r_cli.plugins.page import html_page
from ol2r_cli.plugins.recommend import fit as fit_module
from ol2r_cli.plugins.recommend.baselines import BPRMF, MostPopular
from ol2r_cli.plugins.recommend.evaluation import rankings
from ol2r_cli.plugins.recommend.fact import FacT
from ol2r_cli.plugins.recommend.fit import PER_USER, Fit
from ol2r_cli.plugins.recommend.recommend import main
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.plugins.recommend.users import Users
from ol2r_cli.report.estimates import of_values, paired_t, unit_values
from ol2r_cli.run.run import Run, find_runs
from tests.plugins.recommend.small import mean_ndcg, model
from tests.plugins.recommend.small import reviews as small

SMALL = ["reviews.users=60", "reviews.items=40", "reviews.of_user=12"]
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fitted(*words: str) -> Run:
    assert main([*SMALL, *words]) == 0
    return Run.read_finished(max(find_runs("outputs"), key=lambda path: (path / "run.json").stat().st_mtime_ns))


def contents(of: Run) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in of.path.iterdir()}
    return {name: content for name, content in files.items() if name not in ("run.json", "log.txt", "config.yaml")}


def test_a_fit_has_its_files_and_is_found_by_the_same_command(capsys: Output):
    first = fitted("model=bprmf", "model.steps=20")
    assert first.path.parent.name == "generated"
    assert re.fullmatch(r"bprmf-[0-9a-f]{10}", first.path.name)
    names = {"config.yaml", "evaluation.parquet", "model.npz", "per_user.parquet", "run.json", "summary.json"}
    assert {path.name for path in first.path.iterdir()} == names | {"log.txt"}
    assert len(first.evaluation) == 20
    means = first.table(PER_USER).drop("user").mean().row(0, named=True)
    assert {name: of["mean"] for name, of in first.summary.items()} == pytest.approx(means)
    capsys.readouterr()
    assert main([*SMALL, "model=bprmf", "model.steps=20", "note=again"]) == 0
    out = capsys.readouterr().out
    assert f"{first.summary['test_ndcg_10']['mean']:.4f}" in out
    assert out.endswith("(done before: force=true fits it again)\n")
    before = contents(first)
    assert main([*SMALL, "model=bprmf", "model.steps=20", "force=true"]) == 0
    assert contents(first) == before, "the same seed gives the same bytes"
    assert main([*SMALL, "model=bprmf", "model.steps=20", "seed=1"]) == 0
    assert len(list(find_runs("outputs"))) == 2


def test_the_stored_model_has_the_stored_values():
    stored = fitted("model=nmf", "model.factors=4")
    of = small(60, 40)
    assert stored.fingerprint != of.fingerprint, "these have fewer reviews of each user"

    composition = Composer(root="recommend")([*SMALL, "model=nmf", "model.factors=4"])
    fit = Fit(composition.settings, composition.choices)
    assert mean_ndcg(fit.reviews, fit.restored()) == pytest.approx(stored.summary["test_ndcg_10"]["mean"], rel=1e-6)


def test_where_numpy_draws_other_numbers_a_fit_is_another(monkeypatch: pytest.MonkeyPatch):
    composition = Composer(root="recommend")([*SMALL, "model=bprmf"])
    before = Fit(composition.settings, composition.choices).id
    monkeypatch.setattr(fit_module, "other_numbers", lambda: [0.5])
    assert Fit(composition.settings, composition.choices).id != before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_was_killed_starts_again_to_the_same_files(
    error: type, monkeypatch: pytest.MonkeyPatch, capsys: Output
):
    words = [*SMALL, "model=bprmf", "model.steps=20"]
    whole = contents(fitted(*words[3:]))
    fit, calls = BPRMF.scores, []

    def dies(self: BPRMF, users: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise error
        return fit(self, users)

    with monkeypatch.context() as context:
        context.setattr(BPRMF, "scores", dies)
        assert main([*words, "force=true"]) == (130 if error is KeyboardInterrupt else 1)
    (path,) = find_runs("outputs")
    assert Run.read(path).state == ("interrupted" if error is KeyboardInterrupt else "failed")  # type: ignore[union-attr]
    assert main(words) == 0
    assert contents(Run.read_finished(path)) == whole


SWEEP = ["-m", *SMALL, "model=most_popular,nmf", "seed=0,1", "launcher.jobs=2"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a sweep, and of fits to other splits."""
    folder = f"output_dir={tmp_path_factory.mktemp('swept')}"
    assert main([*SWEEP, folder]) == 0
    for name, split in ("most_popular", 1), ("nmf", 1), ("most_popular", 2):
        assert main([*SMALL, f"model={name}", f"reviews.split={split}", folder]) == 0
    return folder.partition("=")[2]


def test_a_sweep_makes_each_fit_once(swept: str, capsys: Output):
    assert main([*SWEEP, "--dry-run"]) == 0
    assert "4 new" in capsys.readouterr().out
    assert main([*SWEEP, f"output_dir={swept}"]) == 0
    assert "4 finished before" in capsys.readouterr().out
    assert status([swept, "model=nmf"]) == 0
    assert "3 runs: 3 finished" in capsys.readouterr().out
    assert verify([swept]) == 0


BASELINE = ["--baseline", "most_popular", "--metric", "test_ndcg_10"]


def of_users(root: str, name: str) -> pl.DataFrame:
    """Means over seeds, by split and user."""
    runs = [Run.read_finished(path) for path in find_runs(root) if path.name.startswith(name)]
    frames = [of.table(PER_USER).with_columns(split=of.settings["reviews"]["split"]) for of in runs]
    return pl.concat(frames).drop_nulls("test_ndcg_10").group_by("split", "user").agg(pl.col("test_ndcg_10").mean())


def test_differences_are_paired_over_users(swept: str, capsys: Output):
    """A user of two splits is one unit."""
    assert report([swept, *BASELINE, "--json", "--differences"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    pairs = of_users(swept, "nmf").join(of_users(swept, "most_popular"), on=["user", "split"])
    difference = pl.col("test_ndcg_10") - pl.col("test_ndcg_10_right")
    values = {(user, split): value for user, split, value in pairs.select("user", "split", difference).iter_rows()}
    estimate, p = of_values(values, Users().independent), paired_t(unit_values(values, Users().independent))
    assert estimate.units < estimate.n
    expected = {"difference": estimate.mean, "difference_half_width": estimate.half_width, "p": p, "pairs": estimate.n}
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert report([swept, *BASELINE]) == 0
    assert f"{estimate.n} of {estimate.units} users" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("words", "told"), [
    (BASELINE, "with the users as units (degrees of freedom: users - 1), whatever the number of splits"),
    (BASELINE, "Not all (user, split) are in both rows of 1 comparison."),
    (["--metric", "test_ndcg_10", "--format", "latex"], r"\caption{Test NDCG@10 on generated: means $\pm$ half"),
    (["--select", "validation", "--overrides"], "reviews=generated model=nmf"),
])  # fmt: skip
def test_a_report_is_about_users(swept: str, capsys: Output, words: list[str], told: str):
    assert report([swept, *words]) == 0
    assert told in " ".join(capsys.readouterr().out.split())


def test_figures_have_intervals_over_users(swept: str, capsys: Output):
    assert report([swept, "--figure", "bar"]) == 0
    assert "No intervals" not in capsys.readouterr().err, "there are enough users"


def test_a_page_has_fits_by_split_and_seed(swept: str):
    assert report([swept, "--out", "report.html"]) == 0
    page = re.sub(r"(\s|<[^>]*>)+", " ", Path("report.html").read_text())
    assert re.search(r"2 groups of 7 runs: .* values of each metric", page)
    assert re.search(r"ranker nmf seeds of fold 0 0–1 seeds of fold 1 0 ", page)
    assert "generated: the highest mean" in page


def test_verify_names_a_summary_that_is_not_that_of_the_users(capsys: Output):
    of = fitted("model=most_popular")
    summary = json.loads((of.path / "summary.json").read_text())
    summary["metrics"]["test_ndcg_10"]["mean"] += 0.01
    (of.path / "summary.json").write_text(json.dumps(summary))
    assert verify(["outputs"]) == 1
    assert "summary.json has" in capsys.readouterr().out


def test_users_with_a_hit_are_fewer_and_come_with_a_warning(capsys: Output):
    alone = fitted("model=most_popular", "users=with_hit").table(PER_USER).drop_nulls("test_ndcg_10")
    assert "a model can gain by having fewer hits" in capsys.readouterr().err
    everybody = fitted("model=most_popular").table(PER_USER).drop_nulls("test_ndcg_10")
    hits = everybody.filter(pl.col("test_ndcg_100") > 0)
    assert alone["test_ndcg_10"].to_list() == hits["test_ndcg_10"].to_list()


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts = list[str]()

    def handle_data(self, data: str) -> None:
        self.texts += [data.strip()] if data.strip() else []


def test_new_users_are_ranked_by_rules_and_known_reviews():
    """Also with the stored model; what is observed is not recommended; with planted rules more reviews help FacT."""
    large, means = ["reviews.users=400", "reviews.items=60", "reviews.of_user=12"], {}
    for name, observed in (("most_popular", 0), ("fmf", 3), ("fact", 0), ("fact", 5)):
        assert main([*large, f"model={name}", f"reviews.observed={observed}"]) == 0
        stored = Run.read_finished(max(find_runs("outputs"), key=lambda path: (path / "run.json").stat().st_mtime_ns))
        settings = Composer(root="recommend")([*large, f"model={name}", f"reviews.observed={observed}"])
        fit = Fit(settings.settings, settings.choices)
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
def fact(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words of a fit of FacT, which is made once."""
    few = ["model.start_epochs=20", "model.epochs=2", "model.alternations=1"]
    words = [*SMALL, "model=fact", *few, f"output_dir={tmp_path_factory.mktemp('fact')}"]
    assert main(words) == 0
    return words


def printed(words: list[str], capsys: Output) -> str:
    capsys.readouterr()
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.fixture
def explained(fact: list[str], capsys: Output) -> tuple[list[str], dict[str, Any], str]:
    """The words that explain the first item of a user, and what is said as JSON and as text."""
    listed = json.loads(printed([*fact, "explain.user=7", "--json"], capsys))
    words = [*fact, "explain.user=7", f"explain.item={listed['recommended'][0]['item']}"]
    return words, json.loads(printed([*words, "--json"], capsys)), printed(words, capsys)


HOLDS = {"left": "at least", "right": "below", "unknown": "never mentioned"}


def test_the_rules_of_an_explanation_hold(explained):
    _, content, text = explained
    for rule in chain(*content["explanation"]["paths"].values()):
        value = rule["value"]
        branch = "unknown" if value is None else "left" if value >= rule["threshold"] else "right"
        assert rule["branch"] == branch
        assert re.search(rf"└─ {rule['feature']}: .*{HOLDS[branch]}", text)


def test_the_features_of_an_explanation_are_on_its_paths(explained):
    explanation, text = explained[1]["explanation"], explained[2]
    features, contributions = explanation["features"], explanation["contributions"]
    assert set() < set(features) <= {rule["feature"] for rule in chain(*explanation["paths"].values())}
    assert contributions == sorted(contributions, reverse=True)
    assert contributions[-1] > 0
    added = [f"{feature} +{number:.2g}" for feature, number in zip(features, contributions, strict=True)]
    assert [words for words in (explanation["sentence"], explanation["by"], *added) if words not in text] == []


def test_an_explanation_may_be_a_page(explained):
    words, content, _ = explained
    assert main([*words, "explain.out=page.html"]) == 0
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
def test_large_numbers_of_users_and_no_mentions_at_all(name: str, capsys: Output):
    """Reviews without a word, of users with numbers from 1.9e9 on: all models fit, and results have these numbers."""
    cells = [(user, item) for user in range(20) for item in range(15) if (user + item) % 3 == 0]
    lines = [f"{1_900_000_000 + user},{item},{1 + (user + item) % 5}," for user, item in cells]
    for split, part in (("train", lines[:90]), ("test", lines[90:])):
        Path(f"{split}.entry").write_text("\n".join(part) + "\n")
    (Path("mine") / "reviews").mkdir(parents=True)
    named = Composer(root="recommend")(["reviews=amazon_cellphones"]).settings["reviews"]
    own = named | {"path": ".", "data_dir": ".", "files": {"train": "train.entry", "test": "test.entry"}}
    Path("mine/reviews/mine.yaml").write_text(yaml.safe_dump(own))
    words = ["--config-dir", "mine", "reviews=mine", f"model={name}"]
    words += ["model.start_epochs=20", "model.epochs=2"] if name == "fact" else []
    words += ["model.steps=4", "model.validate_every=4"] if name == "mter" else []
    assert main([*words, "explain.user=1900000003", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["user"] == 1_900_000_003
    (path,) = find_runs("outputs")
    tested = {1_900_000_000 + user for user, _ in cells[90:]}
    assert set(Run.read_finished(path).table(PER_USER).drop_nulls("test_ndcg_10")["user"]) == tested
    assert main([*words, "explain.user=3"]) == 2
    assert "explain.user must be from 1900000000 to 1900000019, got 3" in capsys.readouterr().err


LISTED = re.compile(r"^ +\d+ item (\d+)$", re.MULTILINE)


def test_a_list_has_the_numbers_that_explain_item_takes(fact: list[str], capsys: Output):
    out = printed([*fact, "explain.user=7"], capsys)
    listed = [int(number) for number in LISTED.findall(out)]
    assert "explain.item=NUMBER" in out
    content = json.loads(printed([*fact, "explain.user=7", "--json"], capsys))
    assert [item["item"] for item in content["recommended"]] == listed
    content = json.loads(printed([*fact, "explain.user=7", f"explain.item={listed[1]}", "--json"], capsys))
    assert (content["item"], content["name"]) == (listed[1], f"item {listed[1]}")
    assert "explain.item=" not in printed([*SMALL, "model=most_popular", "explain.user=7"], capsys), "none explains"


def test_names_of_items_and_features_are_made_printable(
    fact: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output, typed
):
    ask = FacT.interview

    def interview(self: FacT, answer: Any) -> Any:
        self.names = tuple(f"{name}\x1b[31m\n\ud800" for name in self.names)
        return ask(self, answer)

    monkeypatch.setattr(FacT, "interview", interview)
    monkeypatch.setattr(Reviews, "item_name", lambda self, item: f"bell\x07 and\nline \udcff {item}")
    typed(*"1" * 20)
    out = printed([*fact, "interview=true", "explain.user=3"], capsys)
    assert all(char.isprintable() for line in out.split("\n") for char in line)
    assert re.search(r"feature \d\\x1b\[31m\\n\\ud800\?", out)
    assert len(re.findall(r"^ +\d+ item \d+: bell\\x07 and\\nline \\udcff \d+$", out, re.MULTILINE)) == 20


def test_an_interview_recommends_and_ends_with_its_input(fact: list[str], capsys: Output, typed):
    typed("7", "a lot", *"3" * 20)
    out = printed([*fact, "interview=true"], capsys)
    assert "How do you like this" in out
    assert "type a number from 1 to 3" in out
    assert len(LISTED.findall(out)) == 10
    typed()
    assert main([*fact, "interview=true"]) == 0


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
        (["explain.user=1", "explain.out=a.txt"], "explain.out must end in .html or .json, got a.txt"),
        (["-m", "explain.user=1,2"], "explain and interview are for one fit: leave out -m"),
        (["users=some"], "users must be one of all, with_hit, got 'some'"),
        (["model=nmf", "model.l2=-1"], "model.l2 must be 0 or more, got -1"),
        (["model=mine"], "model must be one of "),
        (["rounds=9"], "there is no setting or group 'rounds'"),
        (["device=cuda"], "device must be cpu, since fits run on a CPU, got cuda"),
        (["reviews.observed=2", "reviews.of_user=5"], "reviews.observed needs ten users and more than five reviews of"),
        (["reviews.observed=2", "model=bprmf"], "needs a model that has it, one of most_popular, fmf, fact, got BPRMF"),
        (["reviews.training=0.0001"], "reviews must have some in each split, got none for train"),
        (["reviews=amazon_cellphones", "reviews.path=nowhere"], "it is published at https://github.com/MyTHWN/MTER"),
        (["ranker=pairrank"], "ranker is a group of `ol2r run`: type ol2r run ranker=pairrank"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_type(words: list[str], message: str, capsys: Output):
    given = [] if "reviews=amazon_cellphones" in words else SMALL
    assert main([*given, *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ol2r recommend: ")
    assert message in error
    assert error.count("\n") == 1 + error.count(" has no effect: "), "of settings in SMALL that stand there again"


def test_an_item_without_a_training_review_is_refused(capsys: Output):
    few = [*SMALL, "reviews.training=0.02", "model=fact"]
    assert main([*few, "explain.user=0", "explain.item=0"]) == 2
    assert re.search(
        r"explain\.(user|item) must have a training review, got 0, which has none", capsys.readouterr().err
    )


def test_scores_that_are_not_finite_fail_with_what_to_change(capsys: Output):
    assert main([*SMALL, "model=bprmf", "model.learning_rate=1e6"]) == 1
    assert "model=bprmf diverged" in capsys.readouterr().err


def test_other_commands_say_where_it_is(capsys: Output):
    assert run(["model=fact"]) == 2
    assert capsys.readouterr().err == "ol2r run: model is a group of `ol2r recommend`: type ol2r recommend model=fact\n"
    assert listed(["model", "nmf"]) == 0
    assert "model.factors" in capsys.readouterr().out
    assert listed(["recommend"]) == 0
    assert "output_dir" in capsys.readouterr().out
    assert data(["check", "reviews=generated"]) == 2
    assert main(["--cfg", "job", "model=nmf"]) == 0
    assert "_target_: ol2r_cli.plugins.recommend.baselines.NMF" in capsys.readouterr().out
    assert isinstance(model("model=most_popular"), MostPopular)


def test_models_are_listed_apart_from_the_choices_of_runs(capsys: Output):
    assert listed([]) == 0
    runs, *_, fits = capsys.readouterr().out.split("\n\n")
    assert not {"model", "reviews"} & {line.split()[0] for line in runs.splitlines()}
    assert "batch fits on reviews without rounds and clicks" in fits
    assert listed(["model"]) == 0
    assert "\n*  model=most_popular " in capsys.readouterr().out
    assert listed(["fact"]) == 2
    assert capsys.readouterr().err.endswith("fact is a choice of model: type ol2r list model fact\n")
