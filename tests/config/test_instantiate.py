"""Settings are checked against annotations, and modules of the user's are imported with a line for what is wrong in
them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import reduce
from inspect import signature
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from torch import nn

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build, import_target
from ol2r_cli.config.ranges import Steps, check_settings
from ol2r_cli.plugins.check.constructors import setting_faults
from ol2r_cli.ranker.pdgd import PDGD
from ol2r_cli.run.experiment import RunSettings
from tests.choices import composition, typed

CATALOGUE = Catalogue()
CHOICES = [c for group in CATALOGUE.groups for c in CATALOGUE.choices[group].values() if "_target_" in c.content]
TARGET = "ol2r_cli.ranker.pdgd.PDGD"


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


GOOD: dict[str, Any] = {"number": 0.5, "whole": 3, "switch": True, "numbers": [1, 0.5], "table": {2: [0, 1.0]}}
GOOD |= {"text": "a", "either": "theory", "perhaps": None}
A_LIST = "a list [..,..] of which each is a number"


def test_settings_of_every_kind():
    check_settings(Part, GOOD, "part")
    others = {"number": 2, "either": 1, "perhaps": 4, "numbers": (), "table": {}, "anything": object()}
    check_settings(Part, GOOD | others, "part")
    infinite = float("inf")
    for place, allowed, bad in (
        *(("number", "a number", bad) for bad in ("0.5", True, None, float("nan"))),
        ("whole", "a whole number", 3.0),
        *(("switch", "true or false", bad) for bad in (1, "no")),
        ("text", "text", 5),
        ("either", "a number or text", [1]),
        ("perhaps", "null or a whole number", "x"),
        *(("numbers", A_LIST, bad) for bad in (1, [1, "x"], "12")),
        ("table", "settings in quotes, '{name: value, ..}'", [1]),
        *(("table.2", A_LIST, bad) for bad in (["x"], 5)),
        *((place, "finite", infinite) for place in ("number", "either")),
        *((place, "finite", [1, infinite]) for place in ("numbers", "table.2")),
    ):
        name, _, key = place.partition(".")
        with pytest.raises(ValueError) as error:
            check_settings(Part, GOOD | {name: {1: [1], int(key): bad} if key else bad}, "part")
        hint = ": type part.whole=3" if place == "whole" else ""
        assert str(error.value) == f"part.{place} must be {allowed}, got {bad!r}{hint}"


def test_a_class_says_its_settings_in_every_python():
    """A class says its settings, also where Python prefers those of `__new__`.

    Without `__signature__` Python 3.11.2 takes (*arguments, **settings), those of `Configured.__new__`.
    """

    class Mine(PDGD):
        def __init__(self, temperature: float = 0.5):
            super().__init__(learning_rate=0.1)

    assert list(Mine.__signature__.parameters) == ["temperature"]
    assert list(PDGD.__signature__.parameters) == list(signature(PDGD.__init__).parameters)[1:]


class Open(nn.Module):
    """Whatever is not named is passed on; `model` is an object, which YAML cannot write."""

    def __init__(self, size: int, model: Part | None = None, *rest: int, **others: int):
        super().__init__()


def test_unknown_and_missing_settings_and_parts():
    check_settings(nn.Module, {}, "part")
    check_settings(Open, {"size": 1, "model": None}, "ranker")
    without = {name: value for name, value in GOOD.items() if name != "whole"}
    for target, settings, group, message in (
        (Part, GOOD | {"numbr": 1}, "part", "Part has no setting 'numbr': did you mean part.number?"),
        (Part, without, "", "whole is missing: Part needs it, type whole=VALUE"),
        (nn.Module, {"a": 1}, "part", "Module has no setting 'a': it has none"),
        (Open, {"size": 1, "rest": 2}, "ranker", "Open has no setting 'rest': it has size, model"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            check_settings(target, settings, group)
    of_ranker = {"_target_": TARGET, "learning_rate": 0.1, "decay": 1.0}
    for bad in ("mlp", 5, [1], {"width": 5}, None):
        got = re.escape(repr(bad))
        chosen = r"^ranker\.model must be chosen: type ranker/model=CHOICE, with the methods .*, got "
        with pytest.raises(ValueError, match=f"{chosen}{got}$"):
            build(of_ranker | {"model": bad} if bad else of_ranker, "ranker")


def test_lists_of_anything_and_numbers_beyond_floats():
    """Neither has words of its own in an error: what a list holds, and how near a number is to infinity."""

    def target(entries: Sequence[Any], steps: Steps):
        pass

    good = {"entries": [1, "a", None], "steps": 1}
    check_settings(target, good, "")
    with pytest.raises(ValueError, match=r"^entries must be a list \[..,..\], got 5$"):
        check_settings(target, good | {"entries": 5}, "")
    with pytest.raises(ValueError, match=r"^steps must be from 1 to 100000, got 1000000"):
        check_settings(target, good | {"steps": 10**400}, "")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _numbers(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places in nested settings where a number is, or null, which may stand for a number."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return [place for key, value in items for place in _numbers(value, (*path, key))]
    is_number = tree is None or (isinstance(tree, int | float) and not isinstance(tree, bool))
    return [path] if is_number else []


MAY_BE_INFINITE = {("fairness=fairexp", "epsilon")}  # no bound


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.group}={choice.name}")
def test_every_choice_spells_out_its_settings_and_is_built(choice):
    """Every choice spells out its settings, is built, and refuses infinity and NaN.

    Counts and checksums that a dataset is compared with are no settings that a run computes with.
    """
    is_measure, name = choice.group == "measure", f"{choice.group}={choice.name}"
    node = f"measure.{choice.name}" if is_measure else choice.node
    words = (f"measures=[{choice.name}]",) if is_measure else typed(choice.group, choice.name)
    config = composition(words).config
    asked = f"measure/{choice.name}" if is_measure else choice.group
    assert list(setting_faults(OmegaConf.select(config, node), asked)) == [], name
    if choice.name != "cuda":  # cannot be built without one
        built = build(OmegaConf.select(config, node))
        assert type(built).__name__ == choice.content["_target_"].rpartition(".")[2], name
        assert all(setting.comment for setting in choice.settings if setting.name != "source"), name
    settings: Any = OmegaConf.to_container(config, resolve=True)
    group, *below = node.split(".") if not is_measure else ("measure", choice.name)
    whole = OmegaConf.create({group: settings[group]})
    for place in [each for each in _numbers(settings[group]) if [*each[: len(below)]] == below]:
        above, good = reduce(getitem, (group, *place[:-1]), whole), reduce(getitem, place, settings[group])
        for bad in (float("inf"), float("nan")) if place[0] != "expected" else ():
            above[place[-1]] = bad
            part = OmegaConf.select(whole, node if is_measure else group)
            if (name, place[-1]) in MAY_BE_INFINITE and bad > 0:
                build(part)
                continue
            prefix = f"measure.{choice.name}.{place[1]}" if is_measure else f"{group}.{place[0]}"
            with pytest.raises(ValueError, match=rf"^{re.escape(prefix)}[\w.]* must be "):
                build(part)
        above[place[-1]] = good


def test_no_number_of_a_run_may_be_infinite_or_nan():
    settings: Any = OmegaConf.to_container(compose([]).config, resolve=True)
    of_run = {field.name: settings[field.name] for field in fields(RunSettings)}
    numbers = of_run.keys() & {str(place[0]) for place in _numbers(settings)}
    assert {"seed", "rounds", "checkpoint_every", "checkpoint_rounds"} <= numbers
    for bad in (float("inf"), float("nan")):
        for name, value in [*dict.fromkeys(numbers, bad).items(), ("beta", bad), ("exposure", [1, bad])]:
            with pytest.raises(ValueError, match=rf"^{name} must be "):
                check_settings(RunSettings, {**of_run, name: value}, "")


def test_a_failed_import_is_one_line_with_file_and_number(tmp_path, monkeypatch):
    """Why something cannot be imported is one line with file and line number."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    nested = "class Outer:\n    class Inner:\n        pass\n"
    write(
        tmp_path, {"package_x/__init__.py": nested, "package_x/below.py": "import foo_x\n", "other_x.py": "\n1 / 0\n"}
    )
    assert import_target("package_x.Outer.Inner").__qualname__ == "Outer.Inner"
    assert import_target("os.path.join") is os.path.join
    for number, (code, message) in enumerate(
        (
            ("\nimport os\nimport foo_x\n", "NAME.py, line 3: ModuleNotFoundError: No module named 'foo_x'"),
            ("from os import nothing_x\n", "NAME.py, line 1: ImportError: cannot import name 'nothing_x' from 'os' "),
            ("def f():\n    return missing\n\n\nf()\n", "NAME.py, line 2: NameError: name 'missing' is not defined"),
            ("x = 1\nx = (\n", "NAME.py, line 2: SyntaxError: '(' was never closed"),
            ("import other_x\n", "other_x.py, line 2: ZeroDivisionError: division by zero"),
            ("raise SystemExit(3)\n", "NAME.py, line 1: SystemExit: 3"),
            ("class Ranger:\n    pass\n", "NAME.py has no Ranker"),
        )
    ):
        name = f"mine_x{number}"
        write(tmp_path, {f"{name}.py": code})
        reason = f"got {name}.Ranker: {message.replace('NAME', name)}"
        start = f"ranker._target_ must be a class that can be imported, {reason}"
        with pytest.raises(ValueError, match=rf"^{re.escape(start)}[^\n]*$"):
            build(OmegaConf.create({"ranker": {"_target_": f"{name}.Ranker"}}).ranker)
    for target, message in {
        "package_x.below.Ranker": r"^package_x/below\.py, line 1: ModuleNotFoundError: No module named 'foo_x'$",
        "package_x.beneath.Ranker": r"^package_x/__init__\.py has no beneath$",
        "package_y.Ranker": "^there is no module package_y$",
        "sys.nothing": "^sys has no nothing$",
        "": "^it must be names with dots",
        "package_x:Outer": "^it must be names with dots",
    }.items():
        with pytest.raises(ImportError, match=message):
            import_target(target)
