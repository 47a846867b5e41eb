"""How a mistyped word of the command line becomes its message: one line that says what to type.

Each kind of mistake has a function here. `Composer` asks them in this order, Hydra before it sets values:

check_words         `ranker=pdgd, dbgd`, 'rounds=9 seed=1', `seed=0-4`, `fold=all`, `hydra.run.dir=x`: blanks, several
                    words, ranges and settings of Hydra
unreadable          `ranker=(a`: not in Hydra's grammar
uncomputable        `seed=rnge(3)`, `seed=int(abc)`: a function that does not exist, or cannot have these values
several_values      `seed=1,2` without -m
bad_choice          `ranker=pairnk`: no choice of the group
refused_by_hydra    `+rounds=5`: what only Hydra finds
unknown_name        `rouns=5`, `ranker.l3=1`: no setting
unresolved          `note=${x}`: an interpolation of a name that does not exist

Wrong values, `rounds=abc`, are found by `check_typed` in declared.py, or where objects are built by `check_settings` in
ranges.py. An option that does not exist, `--rounds`, is found by the parser of the command, which asks `meant`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ol2r_cli.config.catalogue import MEASURE, Catalogue, Choice, dotted
from ol2r_cli.config.overrides import escaped, name_of
from ol2r_cli.text.formatting import must_be_one_of, nearest, printable

# Words of papers and of other programs, with the name here or its last part.
USUAL = {
    "seeds": "replicas",
    "T": "rounds",
    "epochs": "rounds",
    "k": "positions",
    "lambda": "l2",
    "gpu": "cuda",
    "lr": "learning_rate",
    "eta": "learning_rate",
    "out": "output_dir",
    "name": "note",
    "data": "dataset",
    "algorithm": "ranker",
    "users": "click",
    "metrics": "measures",
}


def check_words(words: Sequence[str], catalogue: Catalogue) -> None:
    """Raise ValueError for words that Hydra would read as something else than what is meant, or not at all."""
    for number, word in enumerate(words):
        message = (
            undecoded(word)
            or split_by_blanks(words[number:])
            or several_settings(word)
            or without_effect(word)
            or typed_range(word, catalogue.root.values.get(word.partition("=")[0]))
            or all_folds(word)
        )
        if message:
            raise ValueError(message)


def undecoded(word: str) -> str:
    """Say what to type for a word that is no text, since the locale does not decode its bytes; empty for text."""
    try:
        word.encode()
    except UnicodeEncodeError:
        advice = "save it as UTF-8, or type PYTHONUTF8=1 before the command"
        return f"{printable(word)} has bytes that are no text in this locale: {advice}"
    return ""


def split_by_blanks(words: Sequence[str]) -> str:
    """Say what to type for `ranker=pdgd, dbgd`, of which a shell makes two words; empty where the first is a whole one.

    The words that follow without `=` belong to it if it ends in a comma, if a bracket of it is open, or if there is a
    blank around `=`, or before a comma.
    """
    whole, *others = words
    if whole.startswith("note="):
        return ""
    while others and "=" not in others[0].strip("="):
        is_open = any(whole.count(left) > whole.count(right) for left, right in ("()", "[]", "{}"))
        if not is_open and not whole.endswith((",", "=")) and not others[0].startswith((",", "=")):
            break
        whole += others.pop(0)
    if whole == words[0] or not re.fullmatch(r"[+]*[\w./@]+=[^=]+", whole):
        return ""
    typed = " ".join(words[: len(words) - len(others)])
    return f"{typed} has blanks, which separate words: type {shlex.quote(whole.rstrip(','))}"


def all_folds(word: str) -> str:
    """Say what to type for `dataset.fold=all`; empty for any other word."""
    name, _, value = word.partition("=")
    if not name.endswith(".fold") or value not in ("all", "*"):
        return ""
    return f"{word} is no number: type -m {name}=1,2,3,4,5 for a run with each of five folds"


def several_settings(word: str) -> str:
    """Say what to type for 'rounds=9 seed=1' in quotes; empty for any other word, such as a note with blanks."""
    if word.startswith("note=") or not re.match(r"""[^\s=]+=[^'"{\[]\S* [\w./]+=""", word):
        return ""
    return f"{shlex.quote(word)} is several settings: leave out the quotes around them"


def without_effect(word: str) -> str:
    """Return the message for a setting of Hydra, which `ol2r` does not read; empty for any other override."""
    name = name_of(word)
    if not name.startswith(("hydra.", "hydra/")) or name == "hydra.searchpath":
        return ""
    return f"{word} has no effect: leave it out; runs go to output_dir=DIR, and sweeps run where launcher=.. says"


def typed_range(word: str, default: Any) -> str:
    """Return the message for `seed=0-4`, `seed=1..5` and `seed=range(0-3)`; mostly empty.

    `default` is that of the setting, a whole number.
    """
    name, _, value = word.partition("=")
    ends = re.fullmatch(r"(?:range\()?(\d+)(?:-|\.\.+|:)(\d+)\)?", value)
    if type(default) is not int or not ends or int(ends[1]) >= int(ends[2]):
        return ""
    several = shlex.quote(f"{name}=range({ends[1]},{int(ends[2]) + 1})")
    return f"{word} is no number: type -m {several} for runs with each of {ends[1]} to {ends[2]}"


def unreadable(override: str) -> str:
    """Return the message for an override that is not in Hydra's grammar."""
    name, _, value = override.partition("=")
    if override == "help":
        return "help is an option: type ol2r run --help, or ol2r help run"
    if re.search(r"^[‘’“”]|=[‘’“”]", override):
        return f"{override} has quotes of typography: type them as ' or \""
    if not re.fullmatch(r"[+~]*[\w@/:-]+(\.[\w@/:-]+)*", name) or not re.match("[^=]", value):
        return f"'{override}' must be SETTING=VALUE or GROUP=CHOICE without blanks, such as rounds=1000 or ranker=pdgd"
    if any(override.count(left) != override.count(right) for left, right in ("()", "[]", "{}")):
        return f"{override} must have as many closing as opening brackets, and quotes around it all"
    with_home = re.sub(r"(^|[,\[])~(?=[/,\]]|$)", r"\1$HOME", value)  # a shell expands ~ only at the start of a word
    if "~" in value and "~" not in with_home:
        return f"{override} cannot be read: write $HOME instead of ~, type {name}={with_home}"
    if value.endswith(","):
        return f"{override} ends in a comma: leave it out"
    return f"{override} cannot be read: if the value has signs of its own, type '{name}=\"{value}\"'"


def uncomputable(override: str, reason: str, functions: Collection[str]) -> str:
    """Return the message for a call such as `range(a,b)`, by what Hydra says of it; empty where it says no such thing.

    `functions` are the names of all that there are.
    """
    failed = re.match(r"\w+ while evaluating '(\w+)\(.*': (.*)", reason)
    if not failed:
        return ""
    name, _, value = override.partition("=")
    function, why = failed.groups()
    if function not in functions:
        hint = nearest(function, functions) or f": choose from {', '.join(sorted(functions))}"
        return f"{name}: there is no function {function}{hint}; a text with brackets needs quotes, '{name}=\"{value}\"'"
    if "mismatch type" in why:
        why = f"{function} takes no such value"
    elif "not supported between" in why:
        why = f"{function} takes values of one type"
    return f"{override} cannot be computed: {why}"


def several_values(name: str, values: str, is_group: bool) -> str:
    """Return the message for `NAME=A,B` without -m, of a setting or of a group, which has one choice."""
    as_list = f", or where one list is meant type {shlex.quote(f'{name}=[{values}]')}"
    return f"{name}={values} is several runs: add -m{'' if is_group else as_list}"


def bad_choice(group: str, typed: str, choices: Mapping[str, Choice]) -> str:
    """Return the message for an override of a group that names none of its choices."""
    number = typed.removeprefix("cuda:")
    if group == "device" and number != typed:
        where = f"CUDA_VISIBLE_DEVICES={number} before ol2r, or in a sweep 'launcher.gpus=[{number}]'"
        return f"device has no number, got {typed}: type device=cuda, and {where}"
    if typed in choices:  # a file with the name of a value: null
        return f"{group}={typed} must have quotes: type \"{group}='{typed}'\""
    message = must_be_one_of(group, choices, typed, f"{group}=", USUAL.get(typed, ""))
    return message if message.endswith("?") else f"{message}: own choices: --config-dir DIR"


@dataclass(frozen=True)
class Typed:
    """The words that are typed, and the choices and settings that there are under them."""

    words: Sequence[str]
    catalogue: Catalogue

    @cached_property
    def chosen(self) -> dict[str, str | None]:
        """Return the choice of every group."""
        return self.catalogue.chosen(self.words)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return the defaults of all settings, by their names on the command line."""
        return dict(dotted(self.catalogue.tree(self.words)))

    def settings_of(self, group: str) -> list[str]:
        """Return the settings of a group, without its name."""
        prefix = _prefix(group)
        return [name.removeprefix(prefix) for name in self.settings if name.startswith(prefix)]

    def choices_with(self, group: str, setting: str) -> list[str]:
        """Return the choices of a group that have a setting."""
        choices = self.catalogue.choices[group]
        return [name for name, choice in choices.items() if setting in choice.values]


def _prefix(group: str) -> str:
    """Return how settings of a group begin: `ranker.model.` of `ranker/model`."""
    return f"{group.replace('/', '.')}."


def unknown_name(name: str, words: Sequence[str], catalogue: Catalogue) -> str:
    """Return the message for a setting or group that does not exist under these words."""
    typed = Typed(words, catalogue)
    if name in typed.settings:
        return _fixed(name, words)
    part = next((part for part in catalogue.parts if _prefix(name).startswith(_prefix(part))), "")
    if part and part not in typed.chosen:
        return _without_part(part, typed)
    group = part or name.partition(".")[0]
    if group in catalogue.elsewhere:
        return _of_another_command(name, group, typed)
    if group == name or group not in typed.chosen:
        return _no_name(name, typed)
    return _no_setting(group, name.removeprefix(_prefix(group)), typed)


def _fixed(name: str, overrides: Sequence[str]) -> str:
    """Return the message for a setting that exists, and cannot be left out or set alone."""
    if any(word.partition("=")[0] == f"~{name}" for word in overrides):
        return f"{name} cannot be left out: type no ~{name}"
    # Hydra reads the key 5 of click.tables.5.stop as text, and finds no such key where it is a number.
    above = re.split(r"\.\d+(?:\.|$)", name)[0]
    return f"{name} cannot be set alone: type '{above}={{..}}' with all that is in it"


def _without_part(part: str, typed: Typed) -> str:
    """Return the message for a part, such as `ranker/model`, that the choice of its group does not have."""
    above, _, what = part.partition("/")
    choices = typed.catalogue.choices[above]
    having = [name for name, choice in choices.items() if part in choice.brings]
    return f"{above}={typed.chosen[above]} has no {what}: choose one of {', '.join(having)}"


def _of_another_command(name: str, group: str, typed: Typed) -> str:
    """Return the message for a group, or a setting of it, that only another command has."""
    command = typed.catalogue.elsewhere[group]
    word = next((word for word in typed.words if word.lstrip("+~").startswith(name)), f"{name}=..")
    return f"{group} is a group of `ol2r {command}`: type ol2r {command} {shlex.quote(word)}"


def _no_name(name: str, typed: Typed) -> str:
    """Return the message for a name that is neither a group nor a setting of the run, nor begins with one."""
    values = [word.partition("=")[2] for word in typed.words if word.lstrip("+~").startswith(f"{name}=")]
    hint = meant(name, values[0] if values else "..", typed.words, typed.catalogue)
    near = nearest(name, [*typed.chosen, *typed.catalogue.parts, *typed.settings])
    shown = f": `ol2r list {typed.catalogue.root.name}` shows settings, `ol2r list` groups"
    return f"there is no setting or group '{name}'{hint or near or shown}"


def _no_setting(group: str, setting: str, typed: Typed) -> str:
    """Return the message for a setting that the choice of a group does not have: which one is meant, where it is, which
    choices have it, or else what this one has."""
    hint = (
        _similar_setting(group, setting, typed)
        or _same_setting(group, setting, typed)
        or _other_choices(group, setting, typed)
    )
    if not hint:
        own = dict.fromkeys(name.partition(".")[0] for name in typed.settings_of(group))
        hint = f": it has {', '.join(own) or 'none'}"
    return f"{group}={typed.chosen[group]} has no setting '{setting}'{hint}"


def _similar_setting(group: str, setting: str, typed: Typed) -> str:
    """Return `: did you mean ..?` for a similar setting of the choice of a group, or of its parts; or empty."""
    own = typed.settings_of(group)
    for part in typed.chosen:
        if part.startswith(f"{group}/"):
            for choice in typed.catalogue.choices[part].values():
                own += [f"{choice.node}.{name}".removeprefix(_prefix(group)) for name in choice.values]
    return nearest(USUAL.get(setting, setting), own, _prefix(group))


def _same_setting(group: str, setting: str, typed: Typed) -> str:
    """Return `: type ..` for the first setting of this name in another group; or empty."""
    names = [name for name in typed.settings if name.endswith(f".{setting}") and not name.startswith(_prefix(group))]
    return f": type {names[0]}=.." if names else ""


def _other_choices(group: str, setting: str, typed: Typed) -> str:
    """Return `: type GROUP=CHOICE too` with the choices of a group that have a setting; or empty."""
    having = typed.choices_with(group, setting.partition(".")[0])
    return f": type {group}=CHOICE too, of {', '.join(having)}" if having else ""


def meant(name: str, value: str, words: Sequence[str], catalogue: Catalogue) -> str:
    """Return `: type NAME=VALUE` for a usual word, or the last part of a setting, under these words; or empty."""
    if name == "cutoff":
        return f": type {shlex.quote(f'measures=[ndcg@{value}]')}"
    if value.lower() in ("true", "false") and name in catalogue.choices.get(MEASURE, {}):
        return f": type {measures_with(name)}"
    typed = Typed(words, catalogue)
    usual = USUAL.get(name, name)
    is_whole = usual in typed.chosen or usual in typed.settings
    names = [usual] if is_whole else [setting for setting in typed.settings if setting.endswith(f".{usual}")]
    if names:
        return f": type {' or '.join(_typed(full_name, value) for full_name in names)}"
    for group in typed.chosen:
        having = typed.choices_with(group, usual)
        if having:
            return f": type {_typed(f'{group}.{usual}', value)} and {group}=CHOICE, of {', '.join(having)}"
    return ""


def measures_with(name: str) -> str:
    """Return the override, as a shell takes it, by which a run has NDCG and another measure."""
    return shlex.quote(f"measures=[{','.join(dict.fromkeys(['ndcg', name]))}]")


def _typed(name: str, value: str) -> str:
    """Return an override as a shell takes it; `..` stands for a value that is not known."""
    return f"{name}={value}" if value == ".." else shlex.quote(f"{name}={value}")


def refused_by_hydra(message: str, words: Sequence[str], catalogue: Catalogue) -> str:
    """Return the message for what Hydra refuses, by its own one, of which the first line says what is wrong."""
    absent = re.search(r"Could not (?:override|delete)[^']* '([\w./@]+)'", message)
    if absent:
        return unknown_name(absent[1], words, catalogue)
    present = re.search(r"(?:Multiple values for|An item is already at) '?([\w./]+\w)'?", message)
    if present:
        name = present[1]
        plain = next((word.lstrip("+") for word in words if word.startswith(f"+{name}=")), f"{name}=..")
        return f"{name} has a value already: type {plain}, once and without +"
    return message.partition("\n")[0]


def unresolved(name: str, value: Any, reason: str) -> str:
    """Return the message for an interpolation, as in `note=${x}`, that cannot be resolved."""
    message = f"{name} cannot be resolved: {reason}"
    if not isinstance(value, str) or "${" not in value:
        return message
    return f"{message}; for the text itself type {_typed(name, escaped(value))}"
