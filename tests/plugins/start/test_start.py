"""Warm starts: what rankers do with given parameters, which labels are fitted, and which runs can be started from."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from ol2r_cli import cli
from ol2r_cli.plugins.start.start import some_labels, startable
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.tensor.streams import Streams
from tests.choices import SEEDS, play, seen, simulation
from tests.dataset.letor_files import TINY
from tests.reference import objective as plain
from tests.worlds import handmade

L2 = 0.05
LETOR = ["run", "dataset=letor", f"dataset.path={TINY}", "dataset.fold=1", "ranker=pdgd", "rounds=5"]
CENTRED = ["ranker.reduction=mean", "ranker.reduction=sum", "ranker.window=3", "ranker.discount=0.8"]


def parameters(size: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(len(SEEDS), size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_start_at_the_initial_parameters_changes_nothing():
    """Zeros, or the network as it is drawn: the same rounds to the last bit, for every ranker that can be started."""
    for name in startable():
        usual = simulation((f"ranker={name}",))
        initial = usual.ranker.deploy()
        started = simulation((f"ranker={name}",), start=lambda context, initial=initial: initial)
        with torch.inference_mode():
            assert seen(play(started)) == seen(play(usual)), name
        assert torch.equal(started.ranker.deploy(), usual.ranker.deploy()), name


def test_the_first_lists_and_evaluation_are_those_of_the_start():
    for name in startable():
        size = simulation((f"ranker={name}",)).context.parameters
        given = parameters(size)
        with torch.inference_mode():
            running = simulation((f"ranker={name}",), start=lambda context, given=given: given)
            before, (first,) = running.ranker.deploy(), play(running, 1)
            scores = running.ranker.score(given.to(before.dtype), first.candidates)  # [B, query of B, D]
            own = torch.stack([scores[b, b] for b in range(len(SEEDS))]) / getattr(running.ranker, "temperature", 1)
        assert torch.equal(before.unflatten(1, (-1, size))[:, 0], given.to(before.dtype)), name
        real = first.candidates.mask
        torch.testing.assert_close(first.prediction.scores[:, 0][real], own[real], msg=name)


@pytest.mark.parametrize("form", ["together", "singly"])
@pytest.mark.parametrize("setting", CENTRED)
def test_pairrank_is_at_the_optimum_around_its_start(setting, form):
    """PairRank is at the optimum of the penalty around its start.

    Within the guarantee of ranker/pairrank/newton.py, by scipy; PePairRank without noise as well.
    """
    given = parameters(4)
    for ranker in ("pairrank", "pepairrank"):
        overrides = [f"ranker={ranker}", f"ranker.l2={L2}", setting]
        overrides += ["ranker.label_noise_variance=0"] if ranker == "pepairrank" else []
        running = simulation(tuple(overrides), rounds=30, start=lambda context: given, regret=False)
        with torch.inference_mode():
            for t, _ in running.play() if form == "singly" else running.play_until(lambda t: t % 7 == 0):
                history, reduction = running.ranker.history, running.ranker.solver.reduction
                for b in range(len(SEEDS)) if t % 7 == 0 else ():
                    count, first = int(history.count[b]), int(history.first[b])
                    weights = history.weights(b, slice(first, count)) if history.forgets else torch.ones(count)
                    pairs = list(zip(history.rows[b, first:count].numpy(), weights.tolist(), strict=True))
                    found, theta_0 = running.ranker.deploy()[b].numpy(), given[b].numpy()
                    least, best = centred_optimum(pairs, reduction, theta_0)
                    excess = centred(found, pairs, reduction, theta_0) - least
                    assert excess <= 1e-3 + 1e-5 * least, (ranker, t, b, found, best)


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


def centred_optimum(pairs: plain.Pairs, reduction: str, theta_0: np.ndarray) -> tuple[float, np.ndarray]:
    found = minimize(centred, theta_0, (pairs, reduction, theta_0), method="BFGS", options={"gtol": 1e-9})
    return found.fun, found.x


def test_regression_and_networks_are_held_at_their_start():
    """Relevance regression and networks are held at their start."""
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
    for held in (True, False):
        overrides = ("ranker=olranknet", f"ranker.l2={1e9 if held else 1e-9}")
        given = parameters(simulation(overrides).context.parameters)
        running = simulation(overrides, start=lambda context, given=given: given)
        with torch.inference_mode():
            play(running)
        assert torch.allclose(running.ranker.deploy().double(), given, atol=1e-4) is held


def test_labels_are_a_share_of_the_queries_with_random_errors():
    oracle = handmade([[0, 1, 2, 3, 4] * 5] * 400).oracle()
    drawn = [some_labels(oracle, share, 0.0, 5, Streams(torch.tensor([7])).at("start", 0)) for share in (0.1, 0.5, 1)]
    assert [len(one.start) for one in drawn] == [40, 200, 400]
    starts = [set(one.start.tolist()) for one in drawn]
    assert starts[0] < starts[1] < starts[2], "more labels are the same ones and others"
    other = some_labels(oracle, 0.1, 0.0, 5, Streams(torch.tensor([8])).at("start", 0))
    assert set(other.start.tolist()) != starts[0]
    noisy = some_labels(oracle, 0.1, 0.3, 5, Streams(torch.tensor([7])).at("start", 0))
    changed = noisy.labels != oracle.labels
    assert torch.equal(noisy.start, drawn[0].start)
    assert float(changed.double().mean()) == pytest.approx(0.3 * 4 / 5, abs=4 * (0.24 * 0.76 / 10_000) ** 0.5)
    assert torch.bincount(noisy.labels[changed & (oracle.labels == 0)].long(), minlength=5)[1:].min() > 80
    assert torch.equal(drawn[0].labels, oracle.labels)


WORDS = ["run", "dataset.queries.train=20", "dataset.documents=8", "rounds=30", "evaluate_every=30"]


def started(folder, *words: str) -> Run:
    assert cli.main([*WORDS, *words, f"output_dir={folder}"]) == 0
    return Run.read_finished(next(find_runs(folder)))


def test_a_run_begins_where_another_ended(tmp_path, capsys):
    """By seed; a copy of the other run, elsewhere, is the same start, and so is its id."""
    source = started(tmp_path / "source", "ranker=pdgd", "replicas=2")
    copied = shutil.copytree(source.path, tmp_path / "copied" / source.path.name)
    runs = [
        started(tmp_path / f"{number}", "ranker=pairrank", "seed=1", f"start.run={where}")
        for number, where in enumerate((source.path, copied, tmp_path / "source" / source.id))
    ]
    printed = capsys.readouterr()
    assert "at the start" in printed.out
    assert printed.err.count("warning: the start counts as 0.02 observations") == 3
    assert len({run.id for run in runs}) == 1
    ended, began = source.evaluation.filter(seed=1, round=30), runs[0].evaluation.filter(round=0)
    assert began["ndcg_10"].to_list() == ended["ndcg_10"].to_list()
    others = [
        started(tmp_path / f"other{number}", *words).id
        for number, words in enumerate(
            ([], ["start.labels=0.5"], ["start.labels=0.5", "start.noise=0.5"], ["start.labels=0.6"])
        )
    ]
    assert len({*others, runs[0].id}) == 5
    capsys.readouterr()
    wrong = {
        f"start.run={source.path} replicas=3": "seed, with this start.run, must be one of 0, 1, got 2",
        f"start.run={source.path} dataset.features=9": "of a ranker of 9 features, as synthetic has, got",
        f"start.run={source.path} ranker=olranknet": "with the same model (MLP, 13700), got",
        f"start.run={source.path} ranker=toprank": "cannot be started: type ranker=coltr, dbgd, ",
        f"start.run={tmp_path / 'no'}": "start.run must be the directory of a run or an id below",
        f"start.run={tmp_path}": "start.run must fit runs of one experiment, got",
        "start.labels=0.1 ranker=offline_ranknet": "with OfflineRankNet and its settings",
        f"start.labels=0.1 start.run={source.path}": "start.run must be null with start.labels",
        "start.noise=0.1": "start.noise must be 0 without start.labels",
    }
    for words, message in wrong.items():
        assert cli.main([*WORDS, *words.split(), f"output_dir={tmp_path / 'wrong'}"]) == 2, words
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line, line
    assert not list(find_runs(tmp_path / "wrong"))
    assert cli.main([*LETOR, f"output_dir={tmp_path / 'letor'}"]) == 0
    (letor,) = find_runs(tmp_path / "letor")
    assert cli.main([*LETOR, f"output_dir={tmp_path / 'wrong'}", f"start.run={letor}", "dataset.normalise=none"]) == 2
    assert "must be of a run with dataset.normalise=none, got" in capsys.readouterr().err


def test_a_start_is_found_by_data_and_seed(tmp_path, capsys):
    """In a folder, or by a ranker with settings below output_dir; the id is that of a start by directory.

    Runs that were started themselves are not meant, so that the same words find the same start later.
    """
    folder = tmp_path / "both"
    zero, one = (started(tmp_path / f"{seed}", "ranker=pdgd", f"seed={seed}") for seed in (0, 1))
    for run in (zero, one):
        shutil.copytree(run.path, folder / "synthetic" / run.path.name)
    words = ["ranker=sgd_ranknet", "seed=1"]
    by_path = started(tmp_path / "a", *words, f"start.run={one.path}")
    assert started(tmp_path / "b", *words, f"start.run={folder}").id == by_path.id
    shutil.copytree(folder, tmp_path / "c")
    started(tmp_path / "c", "ranker=pdgd", "seed=1", "start.run=pdgd")
    for name in ("pdgd", "'pdgd ranker.learning_rate=0.1'", f"'{folder} ranker=pdgd'"):
        assert cli.main([*WORDS, *words, f"output_dir={tmp_path / 'c'}", f"start.run={name}"]) == 0
    found = [run for run in map(Run.read_finished, find_runs(tmp_path / "c")) if run.choices["ranker"] == "sgd_ranknet"]
    assert [run.id for run in found] == [by_path.id]
    assert found[0].manifest["start"]["choices"]["ranker"] == "pdgd"
    of_both = started(tmp_path / "d", "ranker=sgd_ranknet", "replicas=2", f"start.run={folder}")
    assert of_both.manifest["start"]["seeds"] == [0, 1]
    for run in (zero, one):
        ended = run.evaluation.filter(round=30)["ndcg_10"].to_list()
        assert of_both.evaluation.filter(seed=run.seeds[0], round=0)["ndcg_10"].to_list() == ended
    started(tmp_path / "e", "ranker=pdgd", "seed=1", "ranker.learning_rate=1")
    shutil.copytree(tmp_path / "e", folder, dirs_exist_ok=True)
    capsys.readouterr()
    wrong = {
        "start.run=pdgd seed=5": "with seed 5, got pdgd: their seeds are 0, 1",
        "start.run=pdgd seed=0 dataset.seed=9": "got pdgd: there is none of these data",
        "start.run=pdgd seed=1": "start.run must fit runs of one experiment, got pdgd, which fits pdgd-informational-",
        "start.run=dbgd": "start.run=dbgd fits no run: ranker must be one of pdgd, got dbgd",
        "start.run=0123456789": "start.run must be the directory of a run or an id below",
    }
    for words, message in wrong.items():
        assert cli.main([*WORDS, "ranker=sgd_ranknet", *words.split(), f"output_dir={folder}"]) == 2, words
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line, line
        assert "fits pdgd" not in line or re.search(r"""type "start.run='pdgd ranker.learning_rate=.*'"$""", line)
