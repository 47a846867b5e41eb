"""`ol2r list`: every choice, setting, default and comment of the configuration files."""

from __future__ import annotations

import pytest
import yaml

from ol2r_cli.config.catalogue import Catalogue, config_dir
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import translate
from tests import cases
from tests.finished import printed, refused


def lines(capsys, *arguments: str) -> list[str]:
    return printed(capsys, "list", *arguments).splitlines()


def test_every_choice_has_one_line_with_its_description(capsys):
    listed = lines(capsys, "--all")
    catalogue = Catalogue()  # without Hydra's own groups, and without recipes, which are no choices
    for path in [choice.path for group in catalogue.groups for choice in catalogue.choices[group].values()]:
        comments = [line.lstrip("# ") for line in path.read_text().splitlines() if line.startswith("#")]
        first = next(line for line in comments if not line.startswith("@package"))
        typed = f"{path.parent.relative_to(config_dir())}={path.stem}"
        typed = typed.replace(f"measure={path.stem}", f"measures=[{path.stem}]")
        (line,) = [line for line in listed if typed in line.split()[:2]]
        assert first.rstrip(":") in line


def test_defaults_are_marked_and_parts_stand_behind_their_groups(capsys):
    listed, catalogue = lines(capsys, "--all"), Catalogue()
    own = ("measures=", *(f"{group}=" for group in catalogue.groups))  # those of other commands are behind them
    listed = [line for line in listed if line[3:].startswith(own)]
    starred = {line.split()[1] for line in listed if line.startswith("*  ")}
    chosen = {f"{group}={name}" for group, name in catalogue.chosen([]).items() if name}
    assert starred == chosen | {"measures=[ndcg]", "measures=[blocks]", "measures=[unfairness]"}
    assert "exploration=confidence" in starred, "the ranker of run.yaml brings it along"
    overview = [line.split()[0] for line in listed if line.startswith(" ")]
    assert overview[overview.index("ranker/model=linear") - 1].startswith("ranker="), "behind the group it is below"


def test_groups_have_a_line_each_and_say_what_to_type(capsys):
    """Without arguments every group has one line, with what it is, within one screen."""
    listed = lines(capsys)
    assert len(listed) <= 24
    assert max(map(len, listed[: listed.index("")])) <= 80
    catalogue = Catalogue()
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in listed[1 : listed.index("")]}
    assert {group: int(count) for group, (count, _) in rows.items()} == {
        group: len(catalogue.choices[group]) for group in catalogue.groups
    }
    assert all(len(rest.split()) > 1 for _, rest in rows.values()), "what it is stands behind the default"
    assert rows["ranker"][1].split()[0] == "pairrank"
    assert rows["measure"][1].startswith("3 of them")
    assert any(line.endswith("ol2r run ranker=pdgd click=navigational") for line in listed)


def test_a_group_has_a_line_for_each_choice_and_no_settings(capsys):
    listed = lines(capsys, "ranker")
    of_all = [line.split() for line in lines(capsys, "--all") if line[3:].startswith("ranker=")]
    assert [line.split() for line in listed[: listed.index("")]] == of_all
    assert listed[-1] == "* is a default; settings: `ol2r list ranker CHOICE`, such as `ol2r list ranker pairrank`"
    assert not lines(capsys, "experiment")[-1].startswith("*"), "no preset is a default"


WORDS = """
pdgd | pdgd is a choice of ranker: type ol2r list ranker pdgd
mlp | mlp is a choice of ranker/model: type ol2r list ranker/model mlp
none | ol2r list exploration none or ol2r list fairness none or ol2r list intent none
rounds | rounds is a setting: type ol2r list run
rankr | GROUP rankr: did you mean ranker?
ranker pdg | CHOICE pdg: did you mean pdgd?
ranker/model mpl | CHOICE mpl: did you mean mlp?
--config-dir nowhere | --config-dir must be a folder, got nowhere, which does not exist
"""


@pytest.mark.parametrize(("words", "told"), cases.lines(WORDS))
def test_a_word_that_is_no_group_is_told_where_it_is(capsys, words, told):
    assert refused(capsys, "list", *words.split()).endswith(told)


def rows(lines: list[str]) -> dict[str, list[str]]:
    """The default and the comment of each setting by its name."""
    return {name: rest for name, *rest in (line.split(maxsplit=2) for line in lines if line.startswith("  "))}


def test_settings_of_a_choice_have_defaults_and_comments(capsys):
    listed = lines(capsys, "ranker", "pairrank")
    assert listed[0] == "ranker=pairrank (default)"
    assert "  brings exploration=confidence" in listed
    default, comment = rows(listed)["ranker.l2"]
    assert f"l2: {default}  # {comment}\n" in (config_dir() / "ranker" / "pairrank.yaml").read_text()


def test_settings_of_a_run_have_the_order_of_its_file(capsys):
    listed = lines(capsys, "run")[1:]
    names = [line.split()[0] for line in listed]
    assert [name for name in names if "." not in name] == list(Catalogue().root.values)
    assert names[names.index("start") :][:4] == ["start", "start.run", "start.labels", "start.noise"]
    default, comment = rows(listed)["rounds"]
    assert f"\nrounds: {default}  # {comment}\n" in (config_dir() / "run.yaml").read_text()
    (line,) = [line for line in listed if line.strip().startswith("data_dir")]
    assert "  $OL2R_DATA or ~/.cache/ol2r/data  " in line, "as a shell has it"


def test_settings_of_a_part_have_the_name_of_its_whole(capsys):
    listed = lines(capsys, "ranker/model", "mlp")
    assert listed[0] == "ranker/model=mlp"
    assert rows(listed)["ranker.model.width"][0] == "100"
    assert "  brings ranker/model=mlp1" in lines(capsys, "ranker", "olranknet")


def test_measures_are_listed_with_what_to_type(capsys):
    listed = lines(capsys, "measure", "err")
    assert listed[0] == "measures=[err]"
    assert [line.split()[:2] for line in listed if line.startswith("    ")] == [["measures=[err@CUTOFF]", "10"]]
    for typed in "measures=[err]", "measures=[err@5]":
        assert compose([typed]).settings["measures"] == [typed[10:-1]]
    assert lines(capsys, "measure", "ndcg")[0] == "measures=[ndcg] (default)"
    assert lines(capsys, "measure", "regret")[0] == "measures=[regret]", "it is not in the default list"


@pytest.mark.parametrize("name", Catalogue().choices["measure"])
def test_measures_are_listed_with_the_columns_they_declare(capsys, name):
    (measure,) = (build(node) for node in compose([f"measures=[{name}]"]).config.measure.values())
    (told,) = [line.strip() for line in lines(capsys, "measure", name) if line.startswith("  Columns: ")]
    tables = (", ".join(column.name for column in columns) for columns in (measure.trace, measure.evaluation))
    assert told.removeprefix("Columns: ") == "; of the evaluation ".join(filter(None, tables))


def test_click_models_have_short_names(capsys):
    assert lines(capsys, "click=nav") == lines(capsys, "click", "navigational")
    listed = "".join(lines(capsys, "click"))
    for short, name in {"per": "perfect", "nav": "navigational", "inf": "informational"}.items():
        assert translate([f"click={short}"]) == [f"click={name}"]
        assert f"Short: click={short}" in listed


@pytest.mark.parametrize("grades", [5, 3, 2])
def test_click_models_are_listed_with_their_probabilities(capsys, grades):
    listed = lines(capsys, "click")
    start = next(place for place, line in enumerate(listed) if line.startswith(f"{grades} grades"))
    block = listed[start : listed.index("", start)]
    assert len({len(line) for line in block}) == 1, "numbers are aligned right"
    expected = {}
    for path in (config_dir() / "click").glob("*.yaml"):
        table = yaml.safe_load(path.read_text())["tables"][grades]
        stop = [f"{value:.2f}" for value in table.get("stop", ())] or ["-"] * grades
        expected[path.stem] = [f"{value:.2f}" for value in table["click"]] + stop
    assert {name: cells for name, *cells in map(str.split, block[1:])} == expected


def test_presets_and_grids_come_with_the_command_to_type(capsys):
    listed = lines(capsys, "experiment", "smoke")
    assert "  type: ol2r run experiment=smoke" in listed
    assert ["dataset.queries.train", "20"] in [line.split() for line in listed]
    path = config_dir() / "experiment" / "grid_pdgd.yaml"
    listed = lines(capsys, "experiment", "grid_pdgd")
    assert "  type: ol2r run -m experiment=grid_pdgd" in listed
    grid = yaml.safe_load(path.read_text())["hydra"]["sweeper"]["params"]
    assert [line.split() for line in listed if line.startswith("    ")] == [[*item] for item in grid.items()]


def test_choices_of_the_user_are_listed_and_taken_names_reported(capsys, tmp_path):
    own = tmp_path / "ranker"
    own.mkdir()
    (own / "mine.yaml").write_text("# Mine, 2024.\ndefaults: [pairrank]\nl2: 7  # less of it\n")
    (own / "oracle.yaml").write_text("# Refused.\n")
    overview = lines(capsys, "--all", "--config-dir", str(tmp_path))
    (mine,) = [line for line in overview if "ranker=mine" in line]
    assert mine.endswith(f"Mine, 2024. (yours: {own / 'mine.yaml'})")
    refused = f"refused: {own / 'oracle.yaml'} has the name of {config_dir() / 'ranker' / 'oracle.yaml'}"
    assert overview[-1] == f"{refused}: rename it"
    described = lines(capsys, "ranker", "mine", "--config-dir", str(tmp_path))
    assert f"  yours: {own / 'mine.yaml'}" in described
    settings = [line.split(maxsplit=2) for line in described if line.strip().startswith("ranker.")]
    assert settings[0] == ["ranker.l2", "7", "less of it"]
    assert "ranker.solver" in [name for name, *_ in settings], "of the choice it builds on"
