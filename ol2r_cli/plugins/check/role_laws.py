"""The laws of every choice, whose YAML file agrees with the constructor and whose runs resume to the same files, and
those of rankers, explorations, fairness and click models: one configuration, played in the small world."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Candidates, Interaction, Ranker, Role
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.metrics.exposure import exposure_of
from ol2r_cli.plugins.check.constructors import SHIPPED, setting_faults
from ol2r_cli.plugins.check.small_world import (
    GRADES,
    LISTS,
    POSITIONS,
    ROUNDS,
    SEEDS,
    Broken,
    Law,
    NotApplicable,
    Played,
    Stopped,
    Subject,
    check_rounds,
    check_same,
    check_shown,
    chosen,
    clicking,
    seen,
    world,
)
from ol2r_cli.run import DONE
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.runner import Runner
from ol2r_cli.simulation import Simulation

_INTERRUPTED_IN = 7  # the round; the last checkpoint is then two rounds old
_SETTINGS: dict[str, Any] = {"rounds": 10, "replicas": 2, "seed": 3, "positions": 5, "evaluate_every": 4}
_SETTINGS |= {"checkpoint_rounds": 5, "save_interactions": True, "block_rounds": [], "exposure": "reciprocal"}
_SETTINGS |= {"beta": 0.5, "force": False}
_RESULTS = (".parquet", ".pt")
_LEARNING = 60  # rounds in which every ranker of ol2r becomes better with perfect clicks
_TOLERANCE = 1e-7  # relative and absolute, of scores in float64
_STAGED = 40  # rounds that are played together
_RECORDED = ("queries", "numbers of pairs", "sums of scores", "grades", "documents", "clicks")  # as Measurement has it


def settings(subject: Subject) -> None:
    """The YAML file has every keyword of the constructor, which reads each (for choices of your own, a note)."""
    for group in subject.groups:
        node = OmegaConf.select(subject.composition.config, group.replace("/", "."))
        for fault in setting_faults(node, group):
            if str(node._target_).startswith(SHIPPED):
                raise Broken(f"{group}={subject.composition.choices.get(group)}", fault)
            subject.notes.append(fault)


class _Interrupted(Runner):
    """A runner that is interrupted, as by Ctrl-C."""

    def record(self, interaction: Interaction | None) -> None:
        super().record(interaction)
        if int(self.simulation.round) >= _INTERRUPTED_IN:
            raise KeyboardInterrupt


def run_and_resume(subject: Subject) -> None:
    """A run writes its files, and one that is interrupted goes on from its checkpoint to the same files."""
    running = subject.simulation()
    deployed = running.ranker.deploy()
    kept = deployed.clone()
    subject.go_on(running)
    if not torch.equal(deployed, kept):
        raise Broken("the small world", "`deploy` must return a copy, got a tensor that changed in the rounds after it")
    expected = files_of_run(subject, subject.graded(world()), "undisturbed")
    files_of_run(subject, subject.graded(world()), "interrupted", _Interrupted)
    found = files_of_run(subject, subject.graded(world()), "interrupted")
    for name, content in expected.items():
        if found.get(name) != content:
            words = f"a run of {_SETTINGS['rounds']} rounds with seeds 3 4, interrupted in round {_INTERRUPTED_IN}"
            raise Broken(words, f"{name} is not the file of an undisturbed run")


def files_of_run(
    subject: Subject,
    dataset: Dataset,
    folder: str,
    runner: type[Runner] = Runner,
    settings: Mapping[str, Any] = _SETTINGS,
) -> dict[str, bytes]:
    """Return the files with results, by name, of a run of the subject's choices on a dataset; it may be a resumed one.

    Stopped if the run fails. ValueError for a bad setting.
    """
    config: DictConfig = subject.config.copy()
    OmegaConf.set_readonly(config, False)
    config.update({**settings, "output_dir": str(subject.folder / folder)})
    config.device.name = "cpu"
    made = {"dataset": SimpleNamespace(load=lambda: dataset)}
    plain: Any = OmegaConf.to_container(config, resolve=True)
    experiment = Experiment(plain, subject.composition.choices, lambda node, name: made.get(name) or build(node, name))
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed), experiment.directory:
        code = runner(experiment, []).run()
    if runner is Runner and code != DONE:
        what = (printed.getvalue().strip() or f"exit code {code}").splitlines()[0]
        raise Stopped(f"a run of {settings['rounds']} rounds on {dataset.name}", what)
    files = experiment.directory.path.iterdir()
    return {path.name: path.read_bytes() for path in files if path.suffix in _RESULTS or path.name == "summary.json"}


def shapes(subject: Subject) -> None:
    """Every method returns the records, shapes and dtypes that interfaces.py states."""
    _ = subject.ordinary  # whatever is returned is checked there


def _of_rounds(name: str, statement: str) -> Law:
    """Return a law of each round of the ordinary run, by its name in `check_rounds`."""

    def law(subject: Subject) -> None:
        check_rounds(subject.ordinary, name)

    law.__name__, law.__doc__ = name, statement
    return law


scores = _of_rounds("scores", "The scores of all documents are finite, and padding has no NaN.")
order = _of_rounds("order", "Every order that is proposed or served has every document once.")
padding_last = _of_rounds("padding_last", "In every order that is proposed or served, documents come before padding.")
clicks = _of_rounds("clicks", "Clicks are on documents that are shown.")


def repeatable(subject: Subject) -> None:
    """The same seeds give the same lists, clicks and measures, and other seeds others."""
    again = subject.played("the small world, a second time")
    check_shown(again, subject.ordinary, ("in a second run", "in the first"))
    check_same(again.simulation.measurement.measures()[1], subject.ordinary_measures, "measures", again.place(-1, 0))
    others = subject.played("the small world with other seeds", seeds=(20, 21, 22))
    if seen(others.rounds) == seen(subject.ordinary.rounds):
        raise Broken("seeds 3 4 11 and 20 21 22", "lists and clicks are the same for all rounds")


def replicas(subject: Subject) -> None:
    """A replica shows alone what it shows in a batch, where lists are padded (float64, on a CPU)."""
    batch = subject.ordinary
    for replica, seed in list(enumerate(SEEDS))[1:]:
        name = f"one replica, compared with seeds {' '.join(map(str, SEEDS))}"
        alone = subject.played(name, seeds=(seed,), lists=batch.lists)
        check_shown(alone, batch, ("alone", "in a batch"), [(0, replica)])


def state_in_buffers(subject: Subject) -> None:
    """A run that is saved, loaded and continued gives what it gives undisturbed: all state is in buffers."""
    half = ROUNDS // 2
    through, saved = subject.simulation(), io.BytesIO()
    subject.go_on(through, half)
    through.measurement.measures()
    torch.save(through.state_dict(), saved)
    expected = subject.go_on(through)
    resumed = subject.simulation(f"the small world, loaded after round {half}")
    saved.seek(0)
    resumed.load_state_dict(torch.load(saved, weights_only=True))
    found = subject.go_on(resumed)
    check_shown(found, expected, ("after loading", "undisturbed"))
    place, measures = found.place(-1, 0), through.measurement.measures()[1]
    check_same(resumed.measurement.measures()[1], measures, "measures", place)
    check_same(resumed.state_dict(), through.state_dict(), "buffers", place)


def stages(subject: Subject) -> None:
    """Compiled stages, where it has some, show the lists, get the clicks and learn the numbers of its methods."""
    by_stages, by_methods = (_with_stages(subject) for _ in range(2))
    by_methods.ranker.learn_round = by_methods.ranker.learn  # type: ignore[method-assign]  # without its stage
    for _ in by_stages.play_until(lambda t: False):
        pass
    for _ in by_methods.play():
        pass
    recorded = dict(zip(_RECORDED, zip(*map(_recorded, (by_stages, by_methods)), strict=True), strict=True))
    differs = {
        name: ~torch.isclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE)
        for name, (found, expected) in recorded.items()
    }
    bad = torch.stack([each.view(_STAGED, len(SEEDS), -1).any(2) for each in differs.values()]).any(0)
    if bad.any():
        at = tuple(bad.nonzero()[0].tolist())
        values = [
            f"{name} {recorded[name][0][at].tolist()} and {recorded[name][1][at].tolist()}"
            for name, each in differs.items()
            if each[at].any()
        ]
        raise Broken(f"seed {SEEDS[at[1]]}, round {at[0] + 1}", f"by stages and by methods: {'; '.join(values)}")
    place = f"rounds 1 to {_STAGED}"
    found, expected = (each.measurement.measures()[1] for each in (by_stages, by_methods))
    check_same(found, expected, "measures by stages and by methods", place, _TOLERANCE)
    for group in ("ranker", "exploration"):
        found, expected = (getattr(each, group).state_dict() for each in (by_stages, by_methods))
        check_same(found, expected, f"buffers of the {group} by stages and by methods", place, _TOLERANCE)


def _recorded(played: Simulation) -> list[Tensor]:
    """Return what is recorded of the rounds, with documents where a place shows one."""
    *others, documents, clicks = (values[:_STAGED] for values in played.measurement.of_rounds)
    shown = torch.arange(documents.shape[2]) < played.measurement.length[others[0]][..., None]
    return [*others, documents * shown, clicks]


def _with_stages(subject: Subject) -> Simulation:
    """Return a simulation whose rounds are played together, in which every document is a group, so that the record has
    it.

    Roles that are not asked about are some with stages, where they need not go with those that are. NotApplicable where
    methods play, without a reason where those that are asked about have no stages.
    """
    config, asked = subject.config.copy(), {group.partition("/")[0] for group in subject.groups}
    OmegaConf.set_readonly(config, False)
    if "fairness" not in asked:
        config.fairness = chosen("fairness", "none")
    if not asked & {"ranker", "exploration"}:
        ranker = {name: value for name, value in chosen("ranker", "sgd_ranknet").items() if name != "defaults"}
        config.ranker = {**ranker, "model": chosen("ranker/model", "linear")}
        config.exploration = chosen("exploration", "none")
    dataset = subject.graded(world())
    dataset = dataclasses.replace(dataset, group=torch.arange(len(dataset.labels)).to(torch.int8))
    exposure = exposure_of(dataset, build(config.click), POSITIONS, "reciprocal", "parity")
    blocks = {"blocks": build(chosen("measure", "blocks"))}
    how: dict[str, Any] = {"rounds": _STAGED, "measures": blocks, "exposure": exposure, "dataset": dataset}
    running = subject.unchecked_simulation("rounds played together", config=config, **how)
    for group in ("ranker", "exploration", "fairness", "click"):
        role: Role = getattr(running, group)
        of_class = role.stages() if "stages" in vars(type(role)) else None
        if of_class is None and group in asked:
            raise NotApplicable
        if of_class is not None and (method := role.method_without_stage(of_class)):
            raise NotApplicable(f"its stages do not stand for its `{method}`: its methods play")
    if running.together is None:
        raise NotApplicable("the roles that it plays with have no stages: all methods play")
    return running


def single_precision(subject: Subject) -> None:
    """It works in single precision: scores and deployed parameters are float32 and finite."""
    played = subject.played("the small world in float32", dtype=torch.float32)
    check_rounds(played)
    _check_deployed(played, torch.float32)


def short_queries(subject: Subject) -> None:
    """It survives queries of one document, fewer documents than places, one place, and many places."""
    for world_name, (lists, positions) in _SHORT.items():
        _survives(subject, world_name, lists=lists, positions=positions)


def nothing_relevant(subject: Subject) -> None:
    """It survives queries in which nothing is relevant."""
    _survives(subject, "queries with nothing relevant", lists=((0,) * 7, (0,) * 3, (0,) * 9))


def no_clicks(subject: Subject) -> None:
    """It survives users who never click."""
    for interaction in _survives(subject, "users who never click", click=clicking(0.0)).rounds:
        if interaction.preferences.valid.any():
            raise Broken("users who never click", "there are preferences")


def labels(subject: Subject) -> None:
    """Other labels under the same clicks change nothing, unless a role declares `needs_labels`."""
    same, other = under_both_labels(subject)
    roles = (same.simulation.ranker, same.simulation.exploration, same.simulation.fairness)
    for role in roles:
        if role.needs_labels:
            raise NotApplicable(f"{type(role).__name__} needs labels")
    check_shown(other, same, ("with reversed labels", "with these"))


def snapshots(subject: Subject) -> None:
    """`score` gives a query the same scores alone and among others, but for rounding."""
    running = subject.ordinary.simulation
    _needs_score(running.ranker)
    deployed = running.ranker.deploy().repeat(2, 1)
    candidates, _ = running.train_split.serve(torch.arange(len(LISTS)))
    together = running.ranker.score(deployed, candidates)
    if together.shape != (len(deployed), *candidates.mask.shape):
        shape = [len(deployed), *candidates.mask.shape]
        raise Broken("deployed parameters of 6 snapshots", f"scores must be {shape}, got {list(together.shape)}")
    for query, labels in enumerate(LISTS):
        alone_candidates, _ = running.train_split.serve(torch.tensor([query]))
        alone = running.ranker.score(deployed[:1], alone_candidates)[0, 0]
        _check_close(alone, together[0, query, : len(labels)], query, ("alone", "among others"))


def order_of_documents(subject: Subject) -> None:
    """`score` gives a document the same score wherever it stands in its list, but for rounding."""
    running = subject.ordinary.simulation
    _needs_score(running.ranker)
    deployed = running.ranker.deploy()[:1]
    for query in range(len(LISTS)):
        given, _ = running.train_split.serve(torch.tensor([query]))
        group = None if given.group is None else given.group.flip(1)
        backwards = Candidates(given.query, given.document.flip(1), given.features.flip(1), given.mask, group)
        turned = running.ranker.score(deployed, backwards).flip(2)[0, 0]
        _check_close(turned, running.ranker.score(deployed, given)[0, 0], query, ("in the reverse list", "as given"))


def learns(subject: Subject) -> None:
    """With perfect clicks the deployed ranker becomes better than it was untrained; if not, it is a warning."""
    dataset = world(LISTS[-1:] * 8)
    dataset.features[:, 0] += dataset.labels
    running = subject.simulation("perfect clicks", dataset=dataset, rounds=_LEARNING, click=chosen("click", "perfect"))
    _needs_score(running.ranker)
    untrained = running.ranker.deploy().clone()
    subject.go_on(running, _LEARNING)
    deployed = torch.stack([untrained, running.ranker.deploy()])
    if torch.equal(*deployed):
        raise NotApplicable("clicks do not change what the ranker deploys")
    ndcg = {"ndcg": build(chosen("measure", "ndcg"))}
    evaluate = Evaluator(dataset, "test", torch.tensor(SEEDS), "zero", untrained.dtype, ndcg)
    before, after = evaluate(running.ranker, deployed)["ndcg_10"].mean(1).tolist()
    if after <= before:
        change = f"NDCG@10 is {before:.2f} untrained and {after:.2f} after {_LEARNING} rounds with perfect clicks"
        subject.warnings.append(change)
        raise NotApplicable(f"{change}, which is a warning")


_SHORT = {
    "queries of one document": (((0,), (3,), (1,)), POSITIONS),
    "queries shorter than the number of places": (((0, 1), (2, 0, 1), (1, 0)), POSITIONS),
    "one place": (LISTS, 1),
    "more places than documents": (LISTS, 15),
}

_BY_METHODS = (shapes, scores, order, padding_last, clicks, repeatable, replicas, state_in_buffers)
_IN_PLAY = (*_BY_METHODS, stages, single_precision)
_HARD = (short_queries, nothing_relevant, no_clicks, labels)
ROLE_LAWS: tuple[Law, ...] = (*_IN_PLAY, *_HARD, snapshots, order_of_documents)


def under_both_labels(subject: Subject) -> tuple[Played, Played]:
    """Return runs on the labels of the small world and on reversed ones, under clicks that ignore them."""
    reverse = tuple(tuple(GRADES - 1 - label for label in labels) for labels in LISTS)
    same = subject.played("clicks that ignore labels", click=clicking(0.5))
    other = subject.played("clicks that ignore labels, which are reversed", click=clicking(0.5), lists=reverse)
    return same, other


def _survives(subject: Subject, world_name: str, positions: int = POSITIONS, **more: Any) -> Played:
    """Return a run in a hard world; Broken for a list, a measure or a parameter that is not what it should be."""
    played = subject.played(world_name, positions=positions, **more)
    check_rounds(played, where=f"{world_name}, ")
    for name, ndcg in played.simulation.measurement.measures()[1].items():
        if name.startswith("online_ndcg") and not ((ndcg >= 0) & (ndcg <= 1 + 1e-12)).all():
            raise Broken(world_name, f"online NDCG must be from 0 to 1, got {float(ndcg.min())} to {float(ndcg.max())}")
    _check_deployed(played, torch.float64)
    return played


def _check_deployed(played: Played, dtype: torch.dtype) -> None:
    """Raise Broken if what the ranker deploys is not finite and [B, P]; in single precision also for another dtype."""
    deployed, place = played.simulation.ranker.deploy(), f"after {played.place(-1, 0)}"
    if deployed.ndim != 2 or len(deployed) != len(played.seeds):
        raise Broken(place, f"`deploy` must return [B, P], here [{len(played.seeds)}, P], got {list(deployed.shape)}")
    if dtype is torch.float32 and deployed.dtype != dtype:
        raise Broken(place, f"`deploy` must return {dtype}, got {deployed.dtype}")
    if not deployed.isfinite().all():
        raise Broken(place, "the deployed parameters are not finite")


def _needs_score(ranker: Ranker) -> None:
    if not ranker.generalises and type(ranker).score is Ranker.score:
        raise NotApplicable(f"{type(ranker).__name__} does not generalise, and has no `score`")


def _check_close(found: Tensor, expected: Tensor, query: int, named: tuple[str, str]) -> None:
    """Raise Broken unless the scores of one query, both [D], are finite and equal but for rounding."""
    input = f"deployed parameters, query {query} with {len(LISTS[query])} documents"
    if not found.isfinite().all():
        raise Broken(input, f"`score` returns {found.tolist()} {named[0]}, which is not finite")
    if not torch.allclose(found, expected.to(found.dtype), rtol=_TOLERANCE, atol=_TOLERANCE):
        document = int((found - expected).abs().argmax())
        values = f"{float(found[document])} {named[0]}, and {float(expected[document])} {named[1]}"
        raise Broken(input, f"the score of document {document} is {values}")
