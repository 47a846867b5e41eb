"""Families of methods can be deleted as plug-ins can: nothing else imports them, and a copy without one works."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from tests.plugins.test_removal import ROOT, run, used, without
from tests.test_architecture import graph, name

CONFIGS = {
    "dueling bandits": "ranker/dbgd ranker/mgd ranker/nsgd exploration/team_draft exploration/probabilistic_*",
    "counterfactual": "ranker/coltr ranker/intervention_aware ranker/ips_regression experiment/grid_fairco",
    "click bandits": "ranker/batchrank ranker/cascade_* ranker/toprank exploration/stated",
    "networks": "ranker/ol* ranker/p2neurrank ranker/offline_network ranker/model/mlp* exploration/neural_confidence",
    "PairRank": "ranker/pairrank ranker/pepairrank experiment/grid_pairrank_window experiment/fair_*",
    "fairness": "fairness/fair* fairness/mcfair experiment/fair_* experiment/grid_fair* experiment/grid_mcfair",
}
MODULES = {
    "dueling bandits": "ranker/dueling_bandits exploration/interleaving",
    "counterfactual": "ranker/counterfactual ranker/ips_regression.py",
    "click bandits": "ranker/bandits.py ranker/batchrank.py",
    "networks": "ranker/refitted.py ranker/model/mlp.py exploration/neural_confidence.py",
    "PairRank": "ranker/pairrank",
    "fairness": "fairness/fairexp.py",  # fairness=none is in the file of the others, by its name in every id
}


def files(family: str) -> list[str]:
    """What belongs to a family, as patterns below the repository: modules, choices, and grids of its rankers."""
    configs = CONFIGS[family].split()
    grids = [f"experiment/grid_{each.removeprefix('ranker/')}" for each in configs if each.startswith("ranker/")]
    return [
        *(f"ol2r_cli/{each}" for each in MODULES[family].split()),
        *(f"configs/{each}.yaml" for each in (*configs, *grids)),
    ]


def modules(family: str) -> set[str]:
    """The modules of a family, by their names below the package."""
    paths = chain.from_iterable(ROOT.glob(each) for each in files(family) if each.startswith("ol2r_cli"))
    return {name(each) for path in paths for each in (path.rglob("*.py") if path.is_dir() else [path])}


@pytest.mark.parametrize("family", MODULES)
def test_nothing_else_imports_a_family(family: str):
    own = modules(family)
    assert own
    assert {module: found for module in {*graph()} - own if (found := own & graph()[module])} == {}


@pytest.mark.parametrize("family", CONFIGS)
def test_choices_of_a_family_are_there(family: str):
    """Patterns of files that are renamed would leave them behind."""
    assert [each for each in CONFIGS[family].split() if not [*ROOT.glob(f"configs/{each}.yaml")]] == []


@pytest.mark.parametrize("family", CONFIGS)
def test_no_other_choice_brings_one_of_a_family(family: str):
    """But `ol2r run` brings PairRank where no ranker is typed, and a recipe names the rankers of its table."""
    own = {path for pattern in files(family) for path in ROOT.glob(pattern) if path.suffix == ".yaml"}
    others = {*ROOT.glob("configs/*/**/*.yaml")} - own
    recipes = {path for path in others if path.relative_to(ROOT / "configs").parts[0] in ("benchmark", "reproduce")}
    choices = {f"{path.parent.name}: {path.stem}" for path in own}
    named = re.compile(r"^ *- +(?:override +/)?(?:\w+/)*(\w+)(?:@\S+)?: +(\w+)", re.MULTILINE)
    found = {
        path.name: brought
        for path in others - recipes
        if (brought := choices & {f"{group}: {choice}" for group, choice in named.findall(path.read_text())})
    }
    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize("family", CONFIGS)
def test_a_copy_without_a_family_works(family: str, copy):
    """Lists do not name its choices, nor does what is said where one is typed. The default ranker is another than
    PairRank."""
    without(files(family), copy)
    root = copy / "configs" / "run.yaml"
    root.write_text(root.read_text().replace("ranker: pairrank", "ranker: pdgd"))
    said = used(copy, ranker="pdgd")
    gone = [path.stem for pattern in files(family) for path in ROOT.glob(pattern) if path.parent.name == "ranker"]
    listed = {line.split()[0] for line in said.splitlines() if line.startswith("  ")}
    assert listed & {*gone} == set()
    for ranker in gone:
        code = f"from ol2r_cli import cli; raise SystemExit(cli.main(['run', 'ranker={ranker}', 'rounds=20']))"
        answer = run(copy, code)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert (answer.stderr.startswith("ol2r run: ranker"), answer.stderr.count("\n")) == (True, 1)
        offered = re.sub(rf"ranker={ranker}: |'{ranker}'", "", answer.stderr)
        assert {*re.findall(r"\w+", offered)} & {*gone} == set()
