"""Many configurations at once are those that Hydra composes one by one."""

from __future__ import annotations

from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf

from ol2r_cli.compose import config_dir
from ol2r_cli.sweep.compositions import Composer, plain, split_launcher

pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

LINES = [
    "",
    "ranker=pdgd ranker.learning_rate=0.3 seed=4",
    "ranker.l2=1e-3 exploration.alpha=${ranker.l2}",
    "ranker=pdgd ranker/model=mlp ranker.model.width=7",
    "ranker=pepairrank exploration=ensemble click=navigational",
    "experiment=grid_dbgd ranker.learning_rate=0.5",
    "experiment=smoke dataset.queries={train:5,validation:2,test:2} evaluate_on=[test]",
    "seed=1 seed=2 ++seed=3",
    "checkpoint_rounds=null output_dir='a_b' ~ranker.l2 +ranker.l2=3",
    "dataset=mq2008 dataset.path=/nowhere dataset.fold=3",
    "ranker=oracle click=perfect",
    "ranker={l2:3} seed=1",
]


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer.alone()


@pytest.mark.parametrize("line", LINES)
def test_the_result_is_hydras_own(line: str, composer: Composer):
    words = line.split()
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        whole = hydra.compose("run", words, return_hydra_config=True)
    choices = {group: name for group, name in whole.hydra.runtime.choices.items() if name is not None}
    grid = tuple(whole.hydra.sweeper.params or ())
    OmegaConf.set_readonly(whole, False)
    OmegaConf.set_struct(whole, False)
    del whole["hydra"]
    composed = composer(words)
    assert plain(composed.config) == plain(whole)
    assert (dict(composed.choices), composed.grid) == (choices, grid)
    assert list(composed.config) == list(whole), "in the same order"


def test_one_configuration_does_not_show_in_the_next(composer: Composer):
    assert composer(["ranker.l2=5", "seed=3"]).config.ranker.l2 == 5
    assert composer(["seed=3"]).config.ranker.l2 != 5


def test_a_set_of_choices_is_composed_once(composer: Composer, monkeypatch: pytest.MonkeyPatch):
    composer(["ranker=dbgd", "seed=0"])
    monkeypatch.setattr(composer, "_loader", None)  # there is nothing left to compose with
    assert composer(["ranker=dbgd", "seed=7", "ranker.learning_rate=0.2"]).config.seed == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ranker=pairnk"], "did you mean ranker=pairrank?"),
        (["ronds=3"], "did you mean rounds?"),
        (["+ronds=3"], "did you mean rounds?"),
        (["ranker=oracle", "ranker.l2=1"], "ranker=oracle has no setting 'l2'"),
        (["seed=1,2"], "seed=1,2 is several runs: add -m"),
        (["rounds==3"], "rounds==3 cannot be read"),
        (["exploration.alpha=${nope}"], "exploration.alpha cannot be resolved"),
    ],
)
def test_mistakes_in_the_words_of_the_command_line(words: list[str], told: str, composer: Composer):
    with pytest.raises(ValueError) as error:
        composer(words)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_choices_of_ones_own(tmp_path: Path):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text("_target_: ol2r_cli.ranker.oracle.OracleRanker\n")
    composer = Composer.alone(["seed=1", "--config-dir", str(tmp_path)])
    assert composer(["ranker=mine"]).choices["ranker"] == "mine"
    assert composer.options() == ["--config-dir", str(tmp_path)]


def test_where_jobs_run_is_told_from_what_they_are():
    words = ["click=per", "launcher=slurm", "+launcher=slurm", "launcher.jobs=2", "++launcher.x=1", "seed=launcher"]
    job, where = split_launcher(words)
    assert job == ["click=perfect", "seed=launcher"]
    assert where == ["launcher=slurm", "launcher=slurm", "launcher.jobs=2", "++launcher.x=1"]
