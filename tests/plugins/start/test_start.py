"""Warm starts: what rankers do with given parameters, which labels are fitted, and which runs can be started from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from ol2r_cli.config.composer import compose
from ol2r_cli.interfaces import Oracle
from ol2r_cli.plugins.start.start import L2 as OFFLINE_L2
from ol2r_cli.plugins.start.start import some_labels, startable
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.tensor.streams import Streams
from tests.choices import SEEDS, play, seen, simulation
from tests.dataset.letor_files import TINY
from tests.finished import refused, run_in
from tests.reference import objective as plain
from tests.worlds import handmade

L2 = 0.05
CENTRED = ["ranker.reduction=mean", "ranker.reduction=sum", "ranker.window=3", "ranker.discount=0.8"]


def parameters(size: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(len(SEEDS), size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", startable())
def test_a_start_at_the_initial_parameters_changes_nothing(name):
    """Zeros, or the network as it is drawn: the same rounds to the last bit, for every ranker that can be started."""
    usual = simulation((f"ranker={name}",))
    initial = usual.ranker.deploy()
    started = simulation((f"ranker={name}",), start=lambda context: initial)
    with torch.inference_mode():
        assert seen(play(started)) == seen(play(usual))
    assert torch.equal(started.ranker.deploy(), usual.ranker.deploy())


@pytest.mark.parametrize("name", startable())
def test_the_first_lists_and_evaluation_are_those_of_the_start(name):
    size = simulation((f"ranker={name}",)).context.parameters
    with torch.inference_mode():
        running = simulation((f"ranker={name}",), start=lambda context: parameters(size))
        before, (first,) = running.ranker.deploy(), play(running, 1)
        given = parameters(size).to(before.dtype)
        scores = running.ranker.score(given, first.candidates)  # [B, query of B, D]
        own = torch.stack([scores[b, b] for b in range(len(SEEDS))]) / getattr(running.ranker, "temperature", 1)
    assert torch.equal(before.unflatten(1, (-1, size))[:, 0], given)
    real = first.candidates.mask
    torch.testing.assert_close(first.prediction.scores[:, 0][real], own[real])


@pytest.mark.parametrize("form", ["together", "singly"])
@pytest.mark.parametrize("setting", CENTRED)
@pytest.mark.parametrize("ranker", ["pairrank", "pepairrank ranker.label_noise_variance=0"])
def test_pairrank_is_at_the_optimum_around_its_start(ranker, setting, form):
    """By scipy, within the guarantee of ranker/pairrank/newton.py."""
    given, overrides = parameters(4), (*f"ranker={ranker} ranker.l2={L2}".split(), setting)
    running = simulation(overrides, rounds=30, start=lambda context: given, regret=False)
    history, reduction = running.ranker.history, running.ranker.solver.reduction
    with torch.inference_mode():
        for t, _ in running.play() if form == "singly" else running.play_until(lambda t: t % 7 == 0):
            for b in range(len(SEEDS)) if t % 7 == 0 else ():
                count, first = int(history.count[b]), int(history.first[b])
                weights = history.weights(b, slice(first, count)) if history.forgets else torch.ones(count)
                pairs = list(zip(history.rows[b, first:count].numpy(), weights.tolist(), strict=True))
                found, theta_0 = running.ranker.deploy()[b].numpy(), given[b].numpy()
                least = centred_optimum(pairs, reduction, theta_0)
                assert centred(found, pairs, reduction, theta_0) - least <= 1e-3 + 1e-5 * least, (t, b, found)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("pairrank", "0.02"),
        ("pairrank ranker.l2=0.45", "0.9"),
        ("pairrank ranker.l2=0.5", ""),
        ("pairrank ranker.reduction=sum ranker.l2=9", "9"),
        ("pairrank ranker.reduction=sum ranker.l2=10", ""),
        ("pepairrank", ""),
        ("pdgd", ""),
    ],
)
def test_a_start_that_few_observations_outweigh_is_told(words, count):
    """The penalty is l2 of a sum, and 2 l2 n of a mean over n pairs, which no number of pairs outweighs from .5 on."""
    overrides = tuple(f"ranker={words}".split())
    assert not simulation(overrides).ranker.warnings
    told = simulation(overrides, start=lambda context: parameters(4)).ranker.warnings
    assert [line.partition(" observations")[0] for line in told] == [f"the start counts as {count}"] * bool(count)
    for line in told:
        assert "type ranker.reduction=sum ranker.l2=100 " in line


def test_a_start_counts_alike_in_the_fit_and_in_the_confidence():
    """With a sum both have the precision l2 of the prior N(start, I / l2), for exploration.l2 follows ranker.l2."""
    overrides = ("ranker=pairrank", "ranker.reduction=sum", "ranker.l2=100")
    running = simulation(overrides, start=lambda context: parameters(4))
    matrix = running.exploration.matrix[0]
    assert torch.equal(matrix, 100 * torch.eye(4, dtype=matrix.dtype))
    assert float(running.ranker.solver.l2_for(torch.ones(1))) == 100


def centred(theta: np.ndarray, pairs: plain.Pairs, reduction: str, theta_0: np.ndarray) -> float:
    """The objective of tests/reference with |theta - theta_0|^2 in place of |theta|^2."""
    factor = plain.penalty(pairs, L2, reduction)
    return plain.objective(theta, pairs, L2, reduction) + factor * (theta_0 @ theta_0 / 2 - theta_0 @ theta)


def centred_optimum(pairs: plain.Pairs, reduction: str, theta_0: np.ndarray) -> float:
    found = minimize(centred, theta_0, (pairs, reduction, theta_0), method="BFGS", options={"gtol": 1e-9})
    return found.fun


def test_relevance_regression_is_held_at_its_start():
    given = parameters(4)
    with torch.inference_mode():
        running = simulation(("ranker=ips_regression", f"ranker.l2={L2}"), start=lambda context: given)
        happened = play(running)
    for b in range(len(SEEDS)):
        left, right = L2 * np.eye(4), L2 * given[b].numpy()
        for one in happened:
            for place, document in enumerate(one.ranking[b][one.shown[b]].tolist()):
                x = one.candidates.features[b, document].numpy()
                left += np.outer(x, x)
                right = right + float(one.clicks[b, place]) * (place + 1) * x  # the exposure of a place is 1 / rank
        assert running.ranker.deploy()[b].numpy() == pytest.approx(np.linalg.solve(left, right), abs=1e-9)


@pytest.mark.parametrize(("l2", "held"), [(1e9, True), (1e-9, False)])
def test_a_network_is_held_at_its_start_by_l2(l2, held):
    overrides = "ranker=olranknet", f"ranker.l2={l2}"
    given = parameters(simulation(overrides).context.parameters)
    running = simulation(overrides, start=lambda context: given)
    with torch.inference_mode():
        play(running)
    assert torch.allclose(running.ranker.deploy().double(), given, atol=1e-4) is held


ORACLE = handmade([[0, 1, 2, 3, 4] * 5] * 400).oracle()


def drawn(share: float, noise: float = 0.0, seed: int = 7) -> Oracle:
    return some_labels(ORACLE, share, noise, 5, Streams(torch.tensor([seed])).at("start", 0))


def test_labels_are_a_random_share_of_the_queries():
    labelled = [drawn(share) for share in (0.1, 0.5, 1)]
    starts = [set(one.start.tolist()) for one in labelled]
    assert [len(one.start) for one in labelled] == [40, 200, 400]
    assert starts[0] < starts[1] < starts[2], "more labels are the same ones and others"
    assert set(drawn(0.1, seed=8).start.tolist()) != starts[0]
    assert torch.equal(labelled[0].labels, ORACLE.labels)


def test_noise_replaces_labels_by_uniform_grades():
    noisy = drawn(0.1, noise=0.3)
    changed = noisy.labels != ORACLE.labels
    assert torch.equal(noisy.start, drawn(0.1).start)
    assert float(changed.double().mean()) == pytest.approx(0.3 * 4 / 5, abs=4 * (0.24 * 0.76 / 10_000) ** 0.5)
    assert torch.bincount(noisy.labels[changed & (ORACLE.labels == 0)].long(), minlength=5)[1:].min() > 80


WORDS = ["dataset.queries.train=20", "dataset.documents=8", "rounds=30", "evaluate_every=30"]


def started(folder: Path, *words: str) -> Run:
    return run_in(folder, *WORDS, *words)


def id_of(*words: str) -> str:
    """The id of the run of a command, which is not run."""
    composition = compose([*WORDS, *words])
    return Experiment(composition.settings, composition.choices).id


def ndcg(run: Run, seed: int, round: int) -> list[float]:
    return run.evaluation.filter(seed=seed, round=round)["ndcg_10"].to_list()


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Run:
    """A run of the seeds 0 and 1."""
    return started(tmp_path_factory.mktemp("pair"), "ranker=pdgd", "replicas=2")


@pytest.fixture(scope="module")
def apart(tmp_path_factory) -> Path:
    """A folder with a run of seed 0 and one of seed 1."""
    root = tmp_path_factory.mktemp("apart")
    for seed in "01":
        run = started(root / seed, "ranker=pdgd", f"seed={seed}")
        shutil.copytree(run.path, root / "both" / run.path.name)
    return root / "both"


@pytest.fixture(scope="module")
def several(apart, tmp_path_factory) -> Path:
    """A folder with these runs, and one of seed 1 with another setting."""
    folder = tmp_path_factory.mktemp("several")
    started(folder, "ranker=pdgd", "seed=1", "ranker.learning_rate=1")
    return shutil.copytree(apart, folder, dirs_exist_ok=True)


def test_a_run_begins_where_another_ended(pair, tmp_path, capsys):
    run = started(tmp_path, "seed=1", f"start.run={pair.path}")
    printed = capsys.readouterr()
    assert "at the start" in printed.out
    assert "warning: the start counts as 0.02 observations" in printed.err
    assert ndcg(run, 1, 0) == ndcg(pair, 1, 30)


def test_a_run_with_all_labels_begins_at_the_offline_ranker(tmp_path):
    run = started(tmp_path / "run", "ranker=sgd_ranknet", "start.labels=1")
    offline = started(tmp_path / "offline", "ranker=offline_ranknet", f"ranker.l2={OFFLINE_L2}")
    assert ndcg(run, 0, 0) == pytest.approx(ndcg(offline, 0, 30), abs=1e-6)


def test_the_id_of_a_run_says_what_it_starts_from(pair, tmp_path):
    """A copy of a run elsewhere is the same start, as its id below a folder is."""
    copied = shutil.copytree(pair.path, tmp_path / pair.path.name)
    same = {id_of("seed=1", f"start.run={where}") for where in (pair.path, copied, pair.path.parents[1] / pair.id)}
    others = "", "start.labels=0.5", "start.labels=0.5 start.noise=0.5", "start.labels=0.6"
    assert len(same) == 1
    assert len({*same, *(id_of("seed=1", *words.split()) for words in others)}) == 5


def test_a_start_is_found_by_seed_in_a_folder(apart, tmp_path):
    run = started(tmp_path, "ranker=sgd_ranknet", "replicas=2", f"start.run={apart}")
    assert run.manifest["start"]["seeds"] == [0, 1]
    for before in map(Run.read_finished, find_runs(apart)):
        (seed,) = before.seeds
        assert ndcg(run, seed, 0) == ndcg(before, seed, 30)


def test_a_start_is_found_by_its_ranker(apart, tmp_path):
    """Below output_dir or a folder, alone or with settings; the id is that of a start by directory.

    A run that was started itself is not meant, so that the same words find the same start later.
    """
    words, outputs = ("ranker=sgd_ranknet", "seed=1"), tmp_path / "outputs"
    (one,) = (path for path in find_runs(apart) if Run.read_finished(path).seeds == [1])
    expected = id_of(*words, f"start.run={one}")
    started(outputs, "ranker=pdgd", "seed=1", f"start.run='{apart} ranker=pdgd'")
    shutil.copytree(apart, outputs / "more")
    names = "pdgd", "'pdgd ranker.learning_rate=0.1'", f"'{apart} ranker=pdgd'"
    ids = [id_of(*words, f"output_dir={outputs}", f"start.run={name}") for name in names]
    assert ids == [expected] * 3
    assert id_of(*words, f"start.run={apart}") == expected
    run = started(tmp_path / "another", *words, f"start.run='{apart} ranker=pdgd'")
    assert (run.id, run.manifest["start"]["choices"]["ranker"]) == (expected, "pdgd")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("start.run={pair} replicas=3", "seed, with this start.run, must be one of 0, 1, got 2"),
        ("start.run={pair} dataset.features=9", "of a ranker of 9 features, as synthetic has, got"),
        ("start.run={pair} ranker=olranknet", "with the same model (MLP, 13700), got"),
        ("start.run={pair} ranker=toprank", "cannot be started: type ranker=coltr, dbgd, "),
        ("start.run={several}/no", "start.run must be the directory of a run or an id below"),
        ("start.run={several} seed=1", "start.run must fit runs of one experiment, got"),
        (
            "start.run=pdgd seed=1",
            "which fits pdgd-informational- .. type \"start.run='pdgd ranker.learning_rate=",
        ),
        ("start.run=pdgd seed=5", "with seed 5, got pdgd: their seeds are 0, 1"),
        ("start.run=pdgd seed=0 dataset.seed=9", "got pdgd: there is none of these data"),
        ("start.run=dbgd", "start.run=dbgd fits no run: ranker must be one of pdgd, got dbgd"),
        ("start.run=0123456789", "start.run must be the directory of a run or an id below"),
        ("start.labels=0.1 ranker=offline_ranknet", "with OfflineRankNet and its settings"),
        ("start.labels=0.1 start.run={pair}", "start.run must be null with start.labels"),
        ("start.noise=0.1", "start.noise must be 0 without start.labels"),
    ],
)
def test_a_start_that_does_not_fit_is_one_line(words, told, pair, several, capsys):
    given = words.format(pair=pair.path, several=several).split()
    line = refused(capsys, "run", *WORDS, *given, f"output_dir={several}")
    assert all(part in line for part in told.split(" .. "))
    assert len(list(find_runs(several))) == 3, "nothing was written"


def test_a_start_on_other_features_is_refused(tmp_path, capsys):
    letor = ["dataset=letor", f"dataset.path={TINY}", "dataset.fold=1", "ranker=pdgd", "rounds=5"]
    run = run_in(tmp_path / "letor", *letor)
    words = [*letor, f"start.run={run.path}", "dataset.normalise=none", f"output_dir={tmp_path}"]
    assert "must be of a run with dataset.normalise=none, got" in refused(capsys, "run", *words)
