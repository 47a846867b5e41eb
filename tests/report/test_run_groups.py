"""Runs below folders, their settings, and groups in which every (fold, seed) counts once."""

from __future__ import annotations

import shlex
import statistics
from itertools import product
from shutil import copytree

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from omegaconf import OmegaConf

from ol2r_cli.config.overrides import names_of
from ol2r_cli.report import load
from ol2r_cli.report.collection import collect
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.finished_run import start_setting
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import group_runs
from ol2r_cli.report.tasks import find_row, tasks
from ol2r_cli.run import run as run_module
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import Run, parse_settings
from tests.manifests import manifest
from tests.report.runs import groups_below, make, only


def test_each_run_is_found_once_and_others_are_counted(tmp_path):
    done = make(tmp_path / "a")
    make(tmp_path / "a", status="interrupted")
    make(tmp_path / "b", status="failed")
    make(tmp_path / "b", status="running")  # without a lock: killed
    found = collect([tmp_path / "a", tmp_path / "b", done, tmp_path / "a" / ".." / "a"])
    assert [run.path for run in found.runs] == [done]
    assert (found.unfinished, found.damaged) == ({tmp_path / "a": 1, tmp_path / "b": 2}, [])


def test_a_copied_folder_counts_once(tmp_path):
    make(tmp_path / "a")
    copytree(tmp_path / "a", tmp_path / "b")
    make(tmp_path / "b", test={1: 0.5})
    found = collect([tmp_path / "a", tmp_path / "b"])
    assert len(found.runs) == 2
    assert found.left_out == [f"1 run below {tmp_path / 'b'} left out, copies of others in this report"]


@pytest.mark.parametrize("folders", [("", "search"), ("search", "")])
def test_what_is_named_beside_its_parent_is_not_left_out(tmp_path, folders):
    make(tmp_path)
    make(tmp_path / "search", test={1: 0.5})
    found = collect([tmp_path / folder for folder in folders])
    assert (len(found.runs), found.left_out) == (2, [])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", "{"),
        ("run.json", '{"status": "finished"}'),
        ("summary.json", '{"metrics": {"test_ndcg_10": {"mean": 0.5}}}'),
        ("summary.json", None),
        ("config.yaml", None),
        ("config.yaml", "a: [1"),
        ("config.yaml", "no mapping"),
    ],
)
def test_a_damaged_run_is_told_in_one_line(tmp_path, name, content):
    done, bad = make(tmp_path), make(tmp_path)
    if content is None:
        (bad / name).unlink()
    else:
        (bad / name).write_text(content)
    found = collect([tmp_path])
    assert [run.path for run in found.runs] == [done]
    (line,) = found.damaged
    assert line.startswith(str(bad))
    assert "\n" not in line


def test_settings_have_dotted_names_if_they_change_results(tmp_path):
    make(tmp_path, "ranker.l2=1e-5", "rounds=10", "force=true", "exploration.alpha=2.0")
    (run,) = collect([tmp_path]).runs
    expected = {"ranker.l2": 1e-5, "exploration.alpha": 2, "rounds": 10}
    assert run.settings.items() >= expected.items()
    assert repr(run.settings["exploration.alpha"]) == "2"
    never = {"force", "output_dir", "data_dir", "seed", "dataset.fold", "dataset.data_dir", "device.name"}
    assert not (never | {"device.threads"}) & run.settings.keys()
    assert {"device.dtype", "dataset.normalise", "click.stop"} <= run.settings.keys()
    assert run.typed >= {"ranker.l2", "rounds", "force", "exploration.alpha"}


def test_what_was_typed_is_recorded_and_before_was_the_command(tmp_path):
    """A value may have words like settings. A command from elsewhere need not end its quotes."""
    words = ["ranker=pdgd", "start.run='pairrank ranker.l2=1'", "~fairness=none", "--config-dir=choices"]
    command = f"ol2r run {shlex.join(words)}"
    assert names_of(words) == ["ranker", "start.run", "fairness"]
    assert Run(tmp_path, manifest("finished", command=command)).typed == {*names_of(words)}
    assert Run(tmp_path, manifest("finished", command=command, typed=["seed"])).typed == {"seed"}
    assert Run(tmp_path, manifest("finished", command="ol2r run seed=1 note='it")).typed == {"seed", "note"}


LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9)
TREES = st.dictionaries(st.from_regex(r"\A[a-z_]{1,6}\Z"), LEAVES | st.lists(LEAVES, max_size=2), max_size=3)


@settings_of_hypothesis(max_examples=20, deadline=None)
@given(TREES, TREES)
def test_settings_parsed_in_pieces_equal_those_parsed_as_a_whole(tree, inner):
    text = yaml.safe_dump({"all": 1, "with": inner} | tree, allow_unicode=True, sort_keys=False)
    assert parse_settings(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", ["# all\na: [1]\nb: [1]\n", "---\na: [1]\nb: [1]\n", "{a: [1], b: [1]}", "? a\n: [1]\nb: [1]\n"]
)
def test_settings_in_other_forms_of_yaml_are_parsed(text):
    assert parse_settings(text) == {"a": [1], "b": [1]}


@pytest.mark.parametrize("text", ["", "word", "a: 1\n- b", "a: [1", "a: &x [1]\nb: *x\n"])
def test_text_that_is_no_settings_is_refused(text):
    with pytest.raises(ValueError):
        parse_settings(text)


def test_what_runs_share_is_parsed_once(monkeypatch):
    parsed, parse = [], run_module.parse_yaml
    monkeypatch.setattr(run_module, "parse_yaml", lambda text: parsed.append(text) or parse(text))
    for n in range(100):
        tree = {"click": {"stop": 0.5}, "ranker": {"l2": n // 10, "why": "this test"}, "seed": n % 10}
        assert parse_settings(OmegaConf.to_yaml(OmegaConf.create(tree))) == tree
    assert len(parsed) <= 10 + 10 + 1


def test_seeds_replicas_and_folds_are_repetitions(tmp_path):
    make(tmp_path, test={0: 0.1, 1: 0.2, 2: 0.4})
    make(tmp_path, test={3: 0.8}, validation={3: 0.1})
    make(tmp_path, "dataset.fold=2", test={0: 0.3, 3: 0.5})
    make(tmp_path, "force=true", "output_dir=x", "device.threads=4", "dataset.data_dir=there", test={4: 0.9})
    group = only(tmp_path)
    assert (group.seeds, group.n) == ({1: {0, 1, 2, 3, 4}, 2: {0, 3}}, 7)
    first, second = {0: 0.1, 1: 0.2, 2: 0.4, 3: 0.8, 4: 0.9}, {0: 0.3, 3: 0.5}
    by_pair = {(1, seed): value for seed, value in first.items()} | {(2, seed): value for seed, value in second.items()}
    assert group.values("test_ndcg_10") == pytest.approx(by_pair, abs=1e-6)
    estimate, folds = group.estimate("test_ndcg_10"), (2.4 / 5, 0.4)  # every fold counts the same
    found = estimate.mean, estimate.n, estimate.clusters, estimate.between
    assert found == pytest.approx((sum(folds) / 2, 7, 2, statistics.stdev(folds)), abs=1e-6)
    assert group.values("validation_ndcg_10") == pytest.approx({(1, 3): 0.1}, abs=1e-6)
    assert group.estimate("regret") is None


def test_equal_numbers_make_one_group(tmp_path):
    """As they have one id, also in a list."""
    for seed, numbers in enumerate(("1", "1.0")):
        make(tmp_path, f"click.stop={numbers}", f"click.click=[0,{numbers}]", test={seed: 0.5})
    assert only(tmp_path).n == 2


def test_values_are_in_the_order_of_fold_and_seed(tmp_path):
    """Not in that of the ids of runs, which differs from group to group: units of two groups stand side by side."""
    for fold in (2, 3, 1):
        make(tmp_path, f"dataset.fold={fold}", test={1: 0.1, 0: 0.2})
    group = only(tmp_path)
    group.runs.sort(key=lambda run: run.path, reverse=True)
    assert list(group.values("test_ndcg_10")) == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]


def test_any_other_setting_makes_another_group(tmp_path):
    make(tmp_path)
    others = ("ranker.l2=1", "click.stop=1", "dataset.normalise=none", "rounds=3", "device.dtype=float32")
    for number, other in enumerate((*others, "ranker=pdgd"), 2):
        make(tmp_path, other, fingerprint="other data" if other.startswith("dataset") else None)
        assert len(groups_below(tmp_path)) == number, other


@pytest.mark.parametrize(
    "other",
    ["evaluate_every=50", "trace_cosine=true", "save_interactions=true", "block_rounds=[1]", "measures=[ndcg,err]"],
)
def test_what_is_recorded_makes_no_group(tmp_path, other):
    make(tmp_path, test={0: 0.1, 1: 0.3, 2: 0.5})
    make(tmp_path, other, test={0: 0.1, 1: 0.3}, validation={0: 0.2, 1: 0.6})
    group = only(tmp_path)
    assert [*group.values("test_ndcg_10").values()] == pytest.approx([0.1, 0.3, 0.5])
    assert [*group.values("validation_ndcg_10").values()] == pytest.approx([0.2, 0.6]), "not recorded by the larger run"
    assert Labels([group]).settings[group] == {}


def test_taking_a_measure_makes_no_group_but_its_settings_do(tmp_path):
    make(tmp_path)
    make(tmp_path, "measure.err.cutoff=5", "measure.ndcg.discount=0.9995", test={1: 0.5})
    assert only(tmp_path).n == 2
    make(tmp_path, "measure.ndcg.discount=0.9")
    groups = groups_below(tmp_path)
    names = [Labels(groups).short(group) for group in groups]
    assert names == ["", "measure.ndcg.discount=0.9995", "measure.ndcg.discount=0.9"]


def test_a_measure_has_one_name_with_its_usual_cutoff_or_without(tmp_path):
    make(tmp_path, "measure.ndcg.discount=0.9", "measure.ndcg.cutoff=10")
    make(tmp_path, "measure.ndcg@10.discount=0.5", "measure.ndcg@10.cutoff=10")
    assert len(groups_below(tmp_path)) == 2


def started(root, source, *words: str, seeds: tuple[int, ...], recorded: bool = True, **more):
    """A run of SGD RankNet that was started from another, by seeds of that."""
    start = Run.read_finished(source).as_start() | {"seeds": list(seeds)}
    words = ("ranker=sgd_ranknet", "exploration=none", f"start.run={source}", *words)
    return make(root, *words, start=start if recorded else None, **more)


def test_a_start_is_a_setting_of_the_row(tmp_path):
    """It has one name in every fold, seed and folder, and the task is that of a ranker without a start."""
    for fold in (1, 2):
        for seed in (0, 1):
            words = (f"dataset.fold={fold}", "ranker.l2=0.01")
            source = make(tmp_path / f"{fold}{seed}", *words, test={seed: 0.2 + 0.1 * seed})
            make(tmp_path / "both", *words, test={seed: 0.2 + 0.1 * seed})
            started(tmp_path / "both", source, words[0], seeds=(seed,), test={seed: 0.5}, recorded=fold == 1)
    groups = groups_below(tmp_path / "both")
    labels = Labels(groups)
    names = {labels.ranker(group): labels.short(group) for group in groups}
    assert names == {"pairrank": "", "sgd_ranknet": "start=pairrank"}
    assert [group.n for group in groups] == [4, 4]
    assert len(tasks(groups)) == 1
    assert labels.overrides(groups[1]).endswith(" start.run=pairrank")
    for words, number in ((("start.run=pairrank",), 1), ((), 2)):
        assert len(group_runs(collect([tmp_path / "both"], words=words).runs)) == number
    paired = compare(groups, labels, ["test_ndcg_10"], "ranker=pairrank")
    assert (len(paired.differences), paired.alone) == (1, [])


def test_a_start_is_called_by_what_is_not_usual(tmp_path):
    """Settings of its ranker that are no defaults, and others that are not those of the started run."""
    usual = make(tmp_path / "a", "ranker.l2=0.01")
    start = Run.read_finished(usual).as_start() | {"seeds": [0]}
    cases = {
        "pairrank ranker.l2=1": make(tmp_path / "b", "ranker.l2=1", "exploration.l2=1"),
        "pairrank click=cascade": make(tmp_path / "c", "ranker.l2=0.01", "click=cascade"),
        "pairrank rounds=9": make(tmp_path / "d", "ranker.l2=0.01", "rounds=9"),
        "pairrank dataset.fold=2": make(tmp_path / "e", "ranker.l2=0.01", "dataset.fold=2"),
        "pairrank fairness=fairco": make(tmp_path / "f", "ranker.l2=0.01", "fairness=fairco"),
        "pairrank start.run=pairrank": make(tmp_path / "g", "ranker.l2=0.01", f"start.run={usual}", start=start),
    }
    for name, source in cases.items():
        started(tmp_path / "started", source, seeds=(0,))
        assert start_setting(Run.read_finished(source)) == ({"start.run": "pairrank"} if "start" in name else {})
    names = {group.settings["start.run"] for group in groups_below(tmp_path / "started")}
    assert names == cases.keys()


NAMED = {  # the starts of a report, and what each is called there
    "one": {"ranker.l2=1": "start=pairrank"},
    "one with a note": {"ranker.l2=1 note=production": "start=production"},
    "two": {"ranker.l2=1": "start='pairrank ranker.l2=1'", "ranker.l2=2": "start='pairrank ranker.l2=2'"},
    "two, one with a note": {"ranker.l2=1": "start=pairrank", "ranker.l2=2 note=production": "start=production"},
}


@pytest.mark.parametrize("case", NAMED)
def test_a_start_is_called_by_its_ranker_or_note_where(tmp_path, case):
    """--baseline knows it by this name, and by the one by which start.run finds it."""
    make(tmp_path / "runs", "ranker=sgd_ranknet", "exploration=none", test={0: 0.4})
    for number, typed in enumerate(NAMED[case]):
        word, _, note = typed.partition(" note=")
        source = make(tmp_path / str(number), word, note=note, test={0: 0.1})
        started(tmp_path / "runs", source, seeds=(0,), test={0: 0.5})
    groups = groups_below(tmp_path / "runs")
    labels = Labels(groups)
    assert {labels.short(group) for group in groups} == {"", *NAMED[case].values()}
    assert len(tasks(groups)) == 1
    for group in groups[1:]:
        long = shlex.quote(f"start.run={group.settings['start.run']}")
        for words in f"sgd_ranknet {labels.short(group)}", f"sgd_ranknet {long}":
            assert find_row(words, groups, labels) is group
    with pytest.raises(ValueError, match=r" or 'sgd_ranknet .*start="):
        find_row("sgd_ranknet", groups, labels)


def test_one_start_for_all_seeds_is_a_row_of_its_own(tmp_path):
    source = make(tmp_path / "source", "ranker.l2=0.01", test={0: 0.2, 1: 0.3})
    for seed in (0, 1):
        started(tmp_path / "runs", source, seeds=(0,), test={seed: 0.25})
    assert [group.n for group in groups_below(tmp_path / "runs")] == [2], "which of them is all there is"
    started(tmp_path / "runs", source, seeds=(0, 1), test={0: 0.25, 1: 0.5})
    groups = groups_below(tmp_path / "runs")
    labels = Labels(groups)
    told = {labels.short(group): group.values("test_ndcg_10") for group in groups}
    both = {"start.seed=0": {(1, 0): 0.25, (1, 1): 0.25}, "start.seed=own": {(1, 0): 0.25, (1, 1): 0.5}}
    assert told == both, "the run of seed 0 is of both"
    assert "start.seed" not in labels.overrides(groups[0])
    assert load(tmp_path / "runs")["start.seed"].null_count() == 0


def test_a_seed_of_several_runs_counts_once(tmp_path):
    """A seed that several runs have counts once, as in the largest."""
    make(tmp_path, test={1: 0.3})  # differs in its last bits, on a GPU or another machine
    make(tmp_path, test={0: 0.1, 1: 0.2, 2: 0.4})
    make(tmp_path, test={1: 0.3, 5: 0.9})  # overlaps in part
    by_pair = {(1, 0): 0.1, (1, 1): 0.2, (1, 2): 0.4, (1, 5): 0.9}
    for metric in ("test_ndcg_10", "online_ndcg"):
        assert only(tmp_path).values(metric) == pytest.approx(by_pair)


def test_groups_have_the_same_data(tmp_path):
    make(tmp_path, "dataset.path=here", fingerprint="one")
    make(tmp_path, "dataset.path=there", "dataset.fold=2", fingerprint="two")
    assert len(groups_below(tmp_path)) == 2, "without a common fold, other places are other data"
    make(tmp_path, "dataset.path=there", test={1: 0.5}, fingerprint="one")
    assert only(tmp_path).n == 3


def test_where_one_fold_is_of_other_data_so_is_the_place(tmp_path):
    """Which another ranker shares, and the folds stay in one row."""
    for place, fold in product("ab", (1, 2, 3)):
        words, data = (f"dataset.path={place}", f"dataset.fold={fold}"), f"{fold}, {place if fold == 2 else ''}"
        make(tmp_path, "ranker=pdgd", *words, fingerprint=data)
        if place == "a":
            make(tmp_path, *words, fingerprint=data)
    assert [group.n for group in groups_below(tmp_path)] == [3, 3, 3]


def test_only_the_fold_whose_files_were_replaced_is_another_row(tmp_path):
    for fold, data in ((1, "one"), (2, "before"), (2, "after"), (3, "three")):
        make(tmp_path, f"dataset.fold={fold}", fingerprint=data)
    groups = groups_below(tmp_path)
    assert [(group.n, group.settings.get("dataset.fingerprint")) for group in groups] == [
        (2, None),
        (1, "before"),
        (1, "after"),
    ]


def test_files_that_were_replaced_are_other_data(tmp_path):
    make(tmp_path, test={0: 0.1}, fingerprint="before the files were replaced")
    make(tmp_path, test={1: 0.2}, fingerprint="after")
    groups = groups_below(tmp_path)
    assert [group.n for group in groups] == [1, 1]
    assert len({group.settings["dataset.fingerprint"] for group in groups}) == 2


def test_groups_have_the_same_version_of_results(tmp_path):
    make(tmp_path)
    manifest = make(tmp_path, test={1: 0.5}) / "run.json"
    version = f'"results_version": {RESULTS_VERSION}'
    manifest.write_text(manifest.read_text().replace(version, '"results_version": 999'))
    assert sorted(group.settings["results_version"] for group in groups_below(tmp_path))[1] == 999
