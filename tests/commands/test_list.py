"""`ol2r list`: every choice, setting, default and comment of the configuration files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ol2r_cli.commands.list import main
from ol2r_cli.config.catalogue import Catalogue, config_dir
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import translate


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of the user's with a ranker of its own, and one with a name that is taken."""
    folder = tmp_path / "own"
    (folder / "ranker").mkdir(parents=True)
    (folder / "ranker" / "mine.yaml").write_text("# Mine, 2024.\ndefaults: [pairrank]\nl2: 7  # less of it\n")
    (folder / "ranker" / "oracle.yaml").write_text("# Refused.\n")
    return folder


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main([*arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_choice_has_one_line_with_its_description(capsys):
    listed = lines(capsys)
    catalogue = Catalogue()  # without Hydra's own groups, and without recipes, which are no choices
    for path in [choice.path for group in catalogue.groups for choice in catalogue.choices[group].values()]:
        comments = [line.lstrip("# ") for line in path.read_text().splitlines() if line.startswith("#")]
        first = next(line for line in comments if not line.startswith("@package"))
        typed = f"{path.parent.relative_to(config_dir())}={path.stem}"
        typed = typed.replace(f"measure={path.stem}", f"measures=[{path.stem}]")
        (line,) = [line for line in listed if typed in line.split()[:2]]
        assert first.rstrip(":") in line


def test_default_choices_are_marked(capsys):
    starred = {line.split()[1] for line in lines(capsys) if line.startswith("*  ")}
    chosen = {f"{group}={name}" for group, name in Catalogue().chosen([]).items() if name}
    assert starred == chosen | {"measures=[ndcg]", "measures=[blocks]", "measures=[unfairness]"}
    assert "exploration=confidence" in starred, "the ranker of run.yaml brings it along"


def test_a_group_with_settings_defaults_and_comments(capsys):
    listed = lines(capsys, "ranker")
    assert "ranker=pairrank (default)" in listed
    assert "  brings exploration=confidence" in listed
    own = listed[listed.index("ranker=pairrank (default)") :]
    own = own[: own.index("")]  # other rankers have a setting of this name, too
    (l2,) = [line.split(maxsplit=2) for line in own if line.strip().startswith("ranker.l2 ")]
    text = (config_dir() / "ranker" / "pairrank.yaml").read_text()
    key, default, comment = l2
    assert f"{key.removeprefix('ranker.')}: {default}  # {comment}\n" in text


def test_the_settings_of_a_run_with_defaults_and_comments(capsys):
    listed = [line.split(maxsplit=2) for line in lines(capsys, "run")[1:]]
    assert [name for name, *_ in listed] == list(Catalogue().root.values)
    text = (config_dir() / "run.yaml").read_text()
    assert "\nrounds: {}  # {}\n".format(*next(rest for name, *rest in listed if name == "rounds")) in text
    (line,) = [line for line in lines(capsys, "run") if line.strip().startswith("data_dir")]
    assert "  $OL2R_DATA or ~/.cache/ol2r/data  " in line, "as a shell has it"


def test_a_part_of_a_ranker_is_a_group_below_it(capsys):
    listed = lines(capsys, "ranker/model", "mlp")
    assert listed[0] == "ranker/model=mlp"
    settings = [line.split()[:2] for line in listed if line.startswith("    ")]
    assert settings[0] == ["ranker.model.width", "100"]
    assert "  brings ranker/model=linear" in lines(capsys, "ranker", "pdgd")
    assert "  brings ranker/model=mlp1" in lines(capsys, "ranker", "olranknet")
    overview = [line.split()[0] for line in lines(capsys) if line.startswith(" ")]
    place = overview.index("ranker/model=linear")
    assert overview[place - 1].startswith("ranker="), "behind the group that it is below"


def test_measures_come_with_their_columns_and_what_to_type(capsys):
    listed = lines(capsys, "measure", "err")
    assert listed[0] == "measures=[err]"
    assert [line.split()[:2] for line in listed if line.startswith("    ")] == [["measures=[err@CUTOFF]", "10"]]
    for typed in "measures=[err]", "measures=[err@5]":
        assert compose([typed]).settings["measures"] == [typed[10:-1]]
    assert lines(capsys, "measure", "ndcg")[0] == "measures=[ndcg] (default)"
    assert lines(capsys, "measure", "regret")[0] == "measures=[regret]", "it needs trace_regret=true"


def test_the_columns_of_a_measure_are_those_that_it_declares(capsys):
    for name in Catalogue().choices["measure"]:
        (measure,) = (build(node) for node in compose([f"measures=[{name}]"]).config.measure.values())
        (told,) = [line.strip() for line in lines(capsys, "measure", name) if line.startswith("  Columns: ")]
        tables = (", ".join(column.name for column in columns) for columns in (measure.trace, measure.evaluation))
        assert told.removeprefix("Columns: ") == "; of the evaluation ".join(filter(None, tables)), name


def test_click_models_with_short_names_and_the_probabilities_of_their_files(capsys):
    listed = lines(capsys, "click")
    assert 1 <= sum(line.strip().startswith("click.stop_without_click") for line in listed) < 6, "shared ones once"
    assert lines(capsys, "click=nav") == lines(capsys, "click", "navigational")
    for short, name in {"per": "perfect", "nav": "navigational", "inf": "informational"}.items():
        assert translate([f"click={short}"]) == [f"click={name}"]
        assert f"Short: click={short}" in "".join(lines(capsys))
    for grades in 5, 3, 2:
        start = next(place for place, line in enumerate(listed) if line.startswith(f"{grades} grades"))
        block = listed[start : listed.index("", start)]
        assert len({len(line) for line in block}) == 1, "numbers are aligned right"
        rows = {cells[0]: cells[1:] for cells in map(str.split, block[1:])}
        for path in (config_dir() / "click").glob("*.yaml"):
            table = yaml.safe_load(path.read_text())["tables"][grades]
            stop = [f"{value:.2f}" for value in table.get("stop", ())] or ["-"] * grades
            assert rows[path.stem] == [f"{value:.2f}" for value in table["click"]] + stop, path.stem


def test_presets_and_grids_come_with_the_command_to_type(capsys):
    listed = lines(capsys, "experiment")
    assert "  type: ol2r run experiment=smoke" in listed
    assert ["dataset.queries.train", "20"] in [line.split() for line in listed]
    for path in (config_dir() / "experiment").glob("grid_*.yaml"):
        grid = yaml.safe_load(path.read_text())["hydra"]["sweeper"]["params"]
        listed = lines(capsys, "experiment", path.stem)
        assert f"  type: ol2r run -m experiment={path.stem}" in listed
        assert [line.split() for line in listed if line.startswith("    ")] == [[*item] for item in grid.items()]


def test_choices_of_the_user_are_listed_and_taken_names_reported(capsys, own):
    overview = lines(capsys, "--config-dir", str(own))
    (mine,) = [line for line in overview if "ranker=mine" in line]
    assert "Mine, 2024." in mine
    assert f"(yours: {own / 'ranker' / 'mine.yaml'})" in mine
    refused = f"refused: {own / 'ranker' / 'oracle.yaml'} has the name of {config_dir() / 'ranker' / 'oracle.yaml'}"
    assert overview[-1] == f"{refused}: rename it"
    described = lines(capsys, "ranker", "mine", "--config-dir", str(own))
    settings = [line.split(maxsplit=2) for line in described if line.strip().startswith("ranker.")]
    assert settings[0] == ["ranker.l2", "7", "less of it"]
    assert "ranker.solver" in [name for name, *_ in settings], "of the choice it builds on"


def test_unknown_names_are_one_line_and_2(capsys):
    for arguments, told in (
        ("rankr", "GROUP rankr: did you mean ranker? GROUP must be one of run, "),
        ("ranker/modl", "GROUP ranker/modl: did you mean ranker/model? GROUP must be one of"),
        ("ranker/model mpl", "CHOICE mpl: did you mean mlp? CHOICE must be one of linear, mlp"),
        ("ranker pairnk", "CHOICE pairnk: did you mean pairrank? CHOICE must be one of"),
        ("--config-dir nowhere", "--config-dir must be a folder, got nowhere"),
    ):
        assert main(arguments.split()) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith(f"ol2r list: {told}")
        assert error.count("\n") == 1


def test_nothing_heavy_is_imported(tmp_path):
    heavy = "{'torch', 'numpy', 'polars', 'hydra', 'omegaconf', 'sklearn', 'rich'} & sys.modules.keys()"
    script = f"import sys; from ol2r_cli.commands.list import main; main(['click']); sys.exit(str({heavy} or ''))"
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=60)
    assert done.stderr.strip() == ""
    assert "click=perfect" in done.stdout
