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
from typing import Any

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf
from torch import nn

from ol2r_cli.config.catalogue import Catalogue, Choice
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build, import_target
from ol2r_cli.config.ranges import Steps, check_settings
from ol2r_cli.plugins.check.constructors import setting_faults
from ol2r_cli.ranker.pdgd import PDGD
from ol2r_cli.run.experiment import RunSettings
from tests import cases
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
INFINITE = float("inf")
A_LIST = "a list [..,..] of which each is a number"


@pytest.mark.parametrize("others", [{}, {"number": 2, "either": 1, "perhaps": 4, "numbers": (), "anything": object()}])
def test_settings_of_every_kind_are_accepted(others):
    check_settings(Part, GOOD | others, "part")


# What is written in YAML, and what is allowed in its place.
OTHER_KINDS = """
number: '0.5' | a number, got '0.5'
number: true | a number, got True
number: null | a number, got None
number: .nan | a number, got nan
number: .inf | finite, got inf
whole: 3.0 | a whole number, got 3.0: type part.whole=3
switch: 1 | true or false, got 1
switch: 'no' | true or false, got 'no'
text: 5 | text, got 5
either: [1] | a number or text, got [1]
either: .inf | finite, got inf
perhaps: x | null or a whole number, got 'x'
numbers: 1 | a list [..,..] of which each is a number, got 1
numbers: [1, x] | a list [..,..] of which each is a number, got [1, 'x']
numbers: '12' | a list [..,..] of which each is a number, got '12'
numbers: [1, .inf] | finite, got [1, inf]
table: [1] | settings in quotes, '{name: value, ..}', got [1]
"""


@pytest.mark.parametrize(("typed", "told"), cases.lines(OTHER_KINDS))
def test_a_value_of_another_kind_is_refused(typed, told):
    ((name, bad),) = yaml.safe_load(typed).items()
    with pytest.raises(ValueError, match=f"^{re.escape(f'part.{name} must be {told}')}$"):
        check_settings(Part, GOOD | {name: bad}, "part")


@pytest.mark.parametrize(
    ("bad", "allowed"), [(["x"], A_LIST), (5, A_LIST), ([1, INFINITE], "finite")], ids=["text", "no list", "infinite"]
)
def test_a_value_of_another_kind_in_a_table_is_refused(bad, allowed):
    with pytest.raises(ValueError, match=f"^{re.escape(f'part.table.2 must be {allowed}, got {bad!r}')}$"):
        check_settings(Part, GOOD | {"table": {1: [1], 2: bad}}, "part")


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


NO_WHOLE = {name: value for name, value in GOOD.items() if name != "whole"}


@pytest.mark.parametrize(
    ("target", "settings", "group", "message"),
    [
        (Part, GOOD | {"numbr": 1}, "part", "Part has no setting 'numbr': did you mean part.number?"),
        (Part, NO_WHOLE, "", "whole is missing: Part needs it, type whole=VALUE"),
        (nn.Module, {"a": 1}, "part", "Module has no setting 'a': it has none"),
        (Open, {"size": 1, "rest": 2}, "ranker", "Open has no setting 'rest': it has size, model"),
    ],
    ids=["mistyped", "missing", "no settings", "open"],
)
def test_unknown_and_missing_settings(target, settings, group, message):
    check_settings(nn.Module, {}, "part")
    check_settings(Open, {"size": 1, "model": None}, "ranker")
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_settings(target, settings, group)


@pytest.mark.parametrize("bad", [5, [1], {"width": 5}, None])
def test_a_part_that_is_no_choice_is_refused(bad):
    settings = {"_target_": TARGET, "learning_rate": 0.1, "decay": 1.0, **({"model": bad} if bad else {})}
    chosen = r"^ranker\.model must be chosen: type ranker/model=CHOICE, with the methods .*, got "
    with pytest.raises(ValueError, match=f"{chosen}{re.escape(repr(bad))}$"):
        build(settings, "ranker")


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


def _numbers(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places in nested settings where a number is, or null, which may stand for a number."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return [place for key, value in items for place in _numbers(value, (*path, key))]
    is_number = tree is None or (isinstance(tree, int | float) and not isinstance(tree, bool))
    return [path] if is_number else []


MAY_BE_INFINITE = {("fairness=fairexp", "epsilon")}  # no bound


def chosen(choice: Choice) -> tuple[DictConfig, str]:
    """A configuration with a choice, and the node that it is there."""
    if choice.group == "measure":
        return composition((f"measures=[{choice.name}]",)).config, f"measure.{choice.name}"
    return composition(typed(choice.group, choice.name)).config, choice.node


def named(choice: Choice) -> str:
    return f"{choice.group}={choice.name}"


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_every_choice_spells_out_its_settings_and_is_built(choice):
    settings = OmegaConf.select(*chosen(choice))
    asked = f"measure/{choice.name}" if choice.group == "measure" else choice.group
    assert list(setting_faults(settings, asked)) == []
    if choice.name != "cuda":  # cannot be built without one
        assert type(build(settings)).__name__ == choice.content["_target_"].rpartition(".")[2]
        assert all(setting.comment for setting in choice.settings if setting.name != "source")


@pytest.mark.parametrize("bad", [INFINITE, float("nan")], ids=str)
@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_every_choice_refuses_infinity_and_nan(choice, bad):
    """Counts and checksums that a dataset is compared with are no settings that a run computes with."""
    config, node = chosen(choice)
    group, *below = node.split(".")
    settings: Any = OmegaConf.to_container(config, resolve=True)[group]
    whole = OmegaConf.create({group: settings})
    for place in [each for each in _numbers(settings) if [*each[: len(below)]] == below and each[0] != "expected"]:
        above, good = reduce(getitem, (group, *place[:-1]), whole), reduce(getitem, place, settings)
        above[place[-1]] = bad
        part = OmegaConf.select(whole, node if group == "measure" else group)
        if (named(choice), place[-1]) in MAY_BE_INFINITE and bad > 0:
            build(part)
        else:
            prefix = ".".join([group, *map(str, place[: 2 if group == "measure" else 1])])
            with pytest.raises(ValueError, match=rf"^{re.escape(prefix)}[\w.]* must be "):
                build(part)
        above[place[-1]] = good


@pytest.mark.parametrize("bad", [INFINITE, float("nan")], ids=str)
def test_no_number_of_a_run_may_be_infinite_or_nan(bad):
    settings: Any = OmegaConf.to_container(compose([]).config, resolve=True)
    of_run = {field.name: settings[field.name] for field in fields(RunSettings)}
    numbers = of_run.keys() & {str(place[0]) for place in _numbers(settings)}
    assert {"seed", "rounds", "checkpoint_every", "checkpoint_rounds"} <= numbers
    for name, value in [*dict.fromkeys(numbers, bad).items(), ("beta", bad), ("exposure", [1, bad])]:
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            check_settings(RunSettings, {**of_run, name: value}, "")


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """A folder with modules of the user, in which commands are typed."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "package_x").mkdir()
    nested = "class Outer:\n    class Inner:\n        pass\n"
    files = {"package_x/__init__": nested, "package_x/below": "import foo_x\n", "other_x": "\n1 / 0\n"}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield folder


BROKEN = {
    "mine_a": ("\nimport os\nimport foo_x\n", "mine_a.py, line 3: ModuleNotFoundError: No module named 'foo_x'"),
    "mine_b": ("from os import no_x\n", "mine_b.py, line 1: ImportError: cannot import name 'no_x' from 'os' "),
    "mine_c": ("def f():\n    return a\n\n\nf()\n", "mine_c.py, line 2: NameError: name 'a' is not defined"),
    "mine_d": ("x = 1\nx = (\n", "mine_d.py, line 2: SyntaxError: '(' was never closed"),
    "mine_e": ("import other_x\n", "other_x.py, line 2: ZeroDivisionError: division by zero"),
    "mine_f": ("raise SystemExit(3)\n", "mine_f.py, line 1: SystemExit: 3"),
    "mine_g": ("class Ranger:\n    pass\n", "mine_g.py has no Ranker"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_failed_import_is_one_line_with_file_and_number(modules, name):
    text, reason = BROKEN[name]
    (modules / f"{name}.py").write_text(text)
    start = f"ranker._target_ must be a class that can be imported, got {name}.Ranker: {reason}"
    with pytest.raises(ValueError, match=rf"^{re.escape(start)}[^\n]*$"):
        build(OmegaConf.create({"ranker": {"_target_": f"{name}.Ranker"}}).ranker)


NOWHERE = """
package_x.below.Ranker | package_x/below.py, line 1: ModuleNotFoundError: No module named 'foo_x'
package_x.beneath.Ranker | package_x/__init__.py has no beneath
package_y.Ranker | there is no module package_y
sys.nothing | sys has no nothing
package_x:Outer | it must be names with dots
"""


@pytest.mark.parametrize(("target", "message"), [*cases.lines(NOWHERE), ("", "it must be names with dots")])
@pytest.mark.usefixtures("modules")
def test_a_name_that_leads_nowhere_says_where_it_ends(target, message):
    with pytest.raises(ImportError, match=f"^{re.escape(message)}"):
        import_target(target)


@pytest.mark.usefixtures("modules")
def test_names_lead_into_classes_and_modules():
    assert import_target("package_x.Outer.Inner").__qualname__ == "Outer.Inner"
    assert import_target("os.path.join") is os.path.join
