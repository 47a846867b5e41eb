from __future__ import annotations

import copy
import os
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from inspect import signature
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from torch import nn

from ol2r_cli import api as ol2r
from ol2r_cli.config.catalogue import Catalogue, Choice
from ol2r_cli.config.composer import Composer, Composition, compose
from ol2r_cli.config.instantiate import build, import_target
from ol2r_cli.config.ranges import check_settings
from ol2r_cli.formatting import nearest
from ol2r_cli.ranker.pdgd import PDGD
from ol2r_cli.run.experiment import RunSettings
from tests.choices import typed

CATALOGUE = Catalogue()
CHOICES = [c for group in CATALOGUE.groups for c in CATALOGUE.choices[group].values() if "_target_" in c.content]


class Part(nn.Module):
    """One setting of every kind that YAML knows."""

    def __init__(
        self,
        number: float,
        whole: int,
        switch: bool,
        text: str,
        either: float | str,
        perhaps: int | None,
        numbers: Sequence[float],
        table: Mapping[int, Sequence[float]],
        anything: Any = 1,
    ):
        super().__init__()


GOOD: dict[str, Any] = {
    "number": 0.5, "whole": 3, "switch": True, "text": "a", "either": "theory", "perhaps": None,
    "numbers": [1, 0.5], "table": {2: [0, 1.0]},
}  # fmt: skip


def test_a_class_says_its_settings_also_where_python_prefers_those_of_new():
    """Without `__signature__` Python 3.11.2 takes (*arguments, **settings), those of `Configured.__new__`."""

    class Mine(PDGD):
        def __init__(self, temperature: float = 0.5):
            super().__init__(learning_rate=0.1)

    assert list(Mine.__signature__.parameters) == ["temperature"]
    assert list(PDGD.__signature__.parameters) == list(signature(PDGD.__init__).parameters)[1:]


def test_settings_that_fit():
    check_settings(Part, GOOD, "part")
    others = {"number": 2, "either": 1, "perhaps": 4, "numbers": (), "table": {}, "anything": object()}
    check_settings(Part, GOOD | others, "part")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("number", "0.5", "a number"),
        ("number", True, "a number"),
        ("number", None, "a number"),
        ("whole", 3.0, "a whole number"),
        ("switch", 1, "true or false"),
        ("switch", "no", "true or false"),
        ("text", 5, "text"),
        ("either", [1], "a number or text"),
        ("perhaps", "x", "null or a whole number"),
        ("numbers", 1, "a list [..,..] of which each is a number"),
        ("numbers", [1, "x"], "a list [..,..] of which each is a number"),
        ("numbers", "12", "a list [..,..] of which each is a number"),
        ("table", [1], "settings in quotes, '{name: value, ..}'"),
        ("number", float("-inf"), "finite"),
        ("number", float("nan"), "a number"),
        ("either", float("inf"), "finite"),
        ("numbers", [1, float("inf")], "finite"),
    ],
)
def test_settings_of_another_kind(name: str, value: object, allowed: str):
    with pytest.raises(ValueError) as error:
        check_settings(Part, GOOD | {name: value}, "part")
    assert str(error.value) == f"part.{name} must be {allowed}, got {value!r}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({1: [1], 2: ["x"]}, "part.table.2 must be a list [..,..] of which each is a number, got ['x']"),
        ({2: 5}, "part.table.2 must be a list [..,..] of which each is a number, got 5"),
        ({2: [float("nan")]}, "part.table.2 must be a list [..,..] of which each is a number, got [nan]"),
        ({2: [float("inf")]}, "part.table.2 must be finite, got [inf]"),
    ],
)
def test_the_entry_of_a_mapping_that_does_not_fit_is_named(table: object, message: str):
    with pytest.raises(ValueError) as error:
        check_settings(Part, GOOD | {"table": table}, "part")
    assert str(error.value) == message


def _numbers(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places in nested settings where a number is, or null, which may stand for a number."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return [place for key, value in items for place in _numbers(value, (*path, key))]
    is_number = tree is None or (isinstance(tree, int | float) and not isinstance(tree, bool))
    return [path] if is_number else []


MAY_BE_INFINITE = {("fairness=fairexp", "epsilon")}  # no bound


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.group}={choice.name}")
def test_no_number_of_any_choice_may_be_infinite_or_nan(choice: Choice):
    """Counts and checksums that a dataset is compared with are no settings that a run computes with."""
    group = choice.group.partition("/")[0]
    settings: Any = OmegaConf.to_container(_composed(choice).config, resolve=True)
    below = [choice.name] if group == "measure" else choice.group.split("/")[1:]
    places = [p for p in _numbers(settings[group]) if [*p[: len(below)]] == below and p[0] != "expected"]
    for place in places:
        for bad in (float("inf"), float("-inf"), float("nan")):
            changed = copy.deepcopy(settings[group])
            node = reduce(getitem, place[:-1], changed)
            node[place[-1]] = bad
            if (f"{choice.group}={choice.name}", place[-1]) in MAY_BE_INFINITE and bad > 0:
                build(OmegaConf.create({group: changed})[group])
                continue
            whole = OmegaConf.create({group: changed})[group]
            prefix = f"measure.{choice.name}.{place[1]}" if group == "measure" else f"{group}.{place[0]}"
            told = rf"^{re.escape(prefix)}[\w.]* must be "
            with pytest.raises(ValueError, match=told):
                build(whole[choice.name] if group == "measure" else whole)


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_no_number_of_a_run_may_be_infinite_or_nan(bad: float):
    settings: Any = OmegaConf.to_container(compose([]).config, resolve=True)
    numbers = {field.name for field in fields(RunSettings)} & {str(place[0]) for place in _numbers(settings)}
    assert {"seed", "rounds", "checkpoint_every", "checkpoint_rounds"} <= numbers
    for name, value in [*dict.fromkeys(numbers, bad).items(), ("beta", bad), ("exposure", [1, bad])]:
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            check_settings(RunSettings, {**_of_run(settings), name: value}, "")


def _of_run(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: settings[field.name] for field in fields(RunSettings)}


@pytest.mark.parametrize("typed_number", ["1e999", "inf", "-1e999"])
def test_an_infinite_setting_is_refused_from_the_command_line_yaml_and_python(tmp_path: Path, typed_number: str):
    told = rf"^ranker\.l2 must be finite, got {float(typed_number)}$"
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "own.yaml").write_text(
        f"# @package _global_\n# Too much.\nranker: {{l2: {typed_number.replace('inf', '.inf')}}}\n"
    )
    for words in ([f"ranker.l2={typed_number}"], ["--config-dir", str(tmp_path), "experiment=own"]):
        with pytest.raises(ValueError, match=told):
            build(Composer(words)(words).config.ranker)
    with pytest.raises(ValueError, match=told):
        ol2r.experiment({"ranker.l2": float(typed_number)})


def test_unknown_and_missing_settings():
    with pytest.raises(ValueError, match=r"^Part has no setting 'numbr': did you mean part\.number\?$"):
        check_settings(Part, GOOD | {"numbr": 1}, "part")
    with pytest.raises(ValueError, match=r"^whole is missing: Part needs it, type whole=VALUE$"):
        check_settings(Part, {name: value for name, value in GOOD.items() if name != "whole"}, "")


def test_a_class_without_constructor_has_no_settings():
    class Empty(nn.Module):
        pass

    check_settings(Empty, {}, "part")
    with pytest.raises(ValueError, match=r"^Empty has no setting 'a': it has none$"):
        check_settings(Empty, {"a": 1}, "part")


class Open(nn.Module):
    """Whatever is not named is passed on."""

    def __init__(self, size: int, *rest: int, **others: int):
        super().__init__()


def test_only_settings_with_a_name_are_asked_for():
    check_settings(Open, {"size": 1}, "ranker")
    with pytest.raises(ValueError, match=r"^Open has no setting 'rest': it has size$"):
        check_settings(Open, {"size": 1, "rest": 2}, "ranker")


class Model:
    """A part of a part, which YAML cannot write."""


class Whole:
    """Has a part that is chosen, and a setting of the same name as another part."""

    def __init__(self, model: Model, layer: str):
        pass


PARTS = {"model": ["linear", "mlp"], "layer": ["thin"], "other": ["x"]}


@pytest.mark.parametrize("value", ["mlp", 5, None, True, [1], {"width": 5}])
def test_a_part_is_chosen_and_not_typed(value: object):
    check_settings(Whole, {"model": {"_target_": "a.Model"}, "layer": "thin"}, "ranker", PARTS)
    check_settings(Whole, {"model": Model(), "layer": "thin"}, "ranker", PARTS)
    told = r"^ranker\.model must be chosen: type ranker/model=linear or ranker/model=mlp, got "
    with pytest.raises(ValueError, match=told + re.escape(f"{value!r}$").replace(r"\$", "$")):
        check_settings(Whole, {"model": value, "layer": "thin"}, "ranker", PARTS)
    with pytest.raises(ValueError, match=f"{told}none$"):
        check_settings(Whole, {"layer": "thin"}, "ranker", PARTS)


def test_the_nearest_name():
    assert nearest("ronds", ["rounds", "seed"]) == ": did you mean rounds?"
    assert nearest("l3", ["reduction"], "ranker.") == ""


def _composed(choice: Choice) -> Composition:
    """A configuration with this choice."""
    is_measure = choice.group == "measure"
    return compose([f"measures=[{choice.name}]"] if is_measure else list(typed(choice.group, choice.name)))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.group}={choice.name}")
def test_every_file_spells_out_every_setting_of_its_class(choice: Choice):
    constructor = pkgutil.resolve_name(choice.content["_target_"])
    torch_alone = getattr(constructor.__init__, "__module__", "").startswith("torch.")
    parts = {part.rpartition("/")[2] for part in choice.brings if part.startswith(f"{choice.group}/")}
    assert {*choice.values, *parts} == set(() if torch_alone else signature(constructor).parameters)
    assert all(setting.comment for setting in choice.settings if setting.name != "source")
    if choice.name != "cuda":  # cannot be built without one
        node = f"measure.{choice.name}" if choice.group == "measure" else choice.node
        built = build(OmegaConf.select(_composed(choice).config, node))
        assert type(built).__name__ == constructor.__name__


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the user's in the working directory, which is to be written; other files of it may follow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = {*sys.modules}
    yield tmp_path / "mine_x.py"
    for name in {*sys.modules} - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("\nimport os\nimport foo_x\n", "mine_x.py, line 3: ModuleNotFoundError: No module named 'foo_x'"),
        ("from os import nothing_x\n", "mine_x.py, line 1: ImportError: cannot import name 'nothing_x' from 'os' "),
        ("def f():\n    return missing\n\n\nf()\n", "mine_x.py, line 2: NameError: name 'missing' is not defined"),
        ("x = 1\nx = (\n", "mine_x.py, line 2: SyntaxError: '(' was never closed"),
        ("import other_x\n", "other_x.py, line 2: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "mine_x.py, line 1: SystemExit: 3"),
        ("class Ranger:\n    pass\n", "mine_x.py has no Ranker"),
    ],
)
def test_why_a_module_cannot_be_imported_is_told_with_file_and_line(module: Path, code: str, told: str):
    module.write_text(code)
    module.with_name("other_x.py").write_text("\n1 / 0\n")
    with pytest.raises(ValueError) as error:
        build(OmegaConf.create({"ranker": {"_target_": "mine_x.Ranker"}}).ranker)
    told = f"ranker._target_ must be a class that can be imported, got mine_x.Ranker: {told}"
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)


def test_what_a_dotted_name_stands_for(module: Path):
    package = module.with_name("package_x")
    package.mkdir()
    (package / "__init__.py").write_text("class Outer:\n    class Inner:\n        pass\n")
    (package / "below.py").write_text("import foo_x\n")
    assert import_target("package_x.Outer.Inner").__qualname__ == "Outer.Inner"
    assert import_target("os.path.join") is os.path.join
    for target, told in {
        "package_x.below.Ranker": r"^package_x/below\.py, line 1: ModuleNotFoundError: No module named 'foo_x'$",
        "package_x.beneath.Ranker": r"^package_x/__init__\.py has no beneath$",
        "package_y.Ranker": "^there is no module package_y$",
        "sys.nothing": "^sys has no nothing$",
        "": "^it must be names with dots",
        "package_x:Outer": "^it must be names with dots",
    }.items():
        with pytest.raises(ImportError, match=told):
            import_target(target)
