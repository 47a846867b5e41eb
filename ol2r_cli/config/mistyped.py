"""How a mistyped word of the command line becomes its message: one line that says what to type.

Each kind of mistake has a function here. `Composer` asks them in this order, Hydra before it sets values:

check_words         `rounds = 9`, `seed=0-4`, `hydra.run.dir=x`: blanks, ranges and settings of Hydra without an effect
unreadable          `ranker=(a`: not in Hydra's grammar
several_values      `seed=1,2` without -m
bad_choice          `ranker=pairnk`: no choice of the group
refused_by_hydra    `+rounds=5`: what only Hydra finds
unknown_name        `rouns=5`, `ranker.l3=1`: no setting
unresolved          `note=${x}`: an interpolation of a name that does not exist

Wrong values, `rounds=abc`, are found later, where objects are built, by `check_settings` in ranges.py. An option that
does not exist, `--rounds`, is found by the parser of the command, which asks `meant`.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ol2r_cli.config.catalogue import MEASURE, ROLES, Catalogue, Choice, dotted
from ol2r_cli.config.overrides import as_typed, escaped
from ol2r_cli.formatting import must_be_one_of, nearest, one_of, printable, shown_path

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
NETWORKS = {"pairrank": "olranknet", "pepairrank": "p2neurrank"}  # the ranker that does the same with a network
_FIRST = {"dataset": ("letor", "mq2008")}  # choices that are named where many have a setting
_FEW = 8  # choices that are named; of more, those of `_FIRST` or the first ones
# Settings of Hydra that have no effect, by the beginning of their name, with what to type.
_OF_HYDRA = {
    "hydra/launcher": "sweeps run where launcher=processes or launcher=slurm says",
    "hydra/sweeper": "`ol2r run -m` makes all combinations, `ol2r search` draws settings",
    "hydra.sweeper.params": "type the values themselves, such as seed=1,2, behind `ol2r run -m`",
    "hydra.run": "type output_dir=DIR: a run has the folder of its id below it",
    "hydra.sweep": "type output_dir=DIR: a run has the folder of its id below it",
    "hydra.output_subdir": "settings and command are in config.yaml and run.json of the run",
    "hydra.job.chdir": "the working folder does not change: leave it out",
    "hydra.verbose": "the log is log.txt of the run: leave it out",
    "hydra/job_logging": "the log is log.txt of the run: leave it out",
    "hydra/hydra_logging": "the log is log.txt of the run: leave it out",
}


def check_words(words: Sequence[str], catalogue: Catalogue) -> None:
    """Raise ValueError for words that Hydra would read as something else than what is meant, or not at all."""
    for word in words:
        _raise_if(undecoded(word))
    rejoined = misplaced(words, {*catalogue.choices, *catalogue.root.values})
    if rejoined:
        raise ValueError(f"{shlex.join(words)} has blanks or quotes in the wrong places: type {rejoined}")
    for word in words:
        _raise_if(without_effect(word))
        _raise_if(misread_number(word, catalogue.root.values.get(word.partition("=")[0])))


def _raise_if(message: str) -> None:
    """Raise ValueError if there is a message."""
    if message:
        raise ValueError(message)


def undecoded(word: str) -> str:
    """Say what to type for a word that is no text, since the locale does not decode its bytes; empty for text."""
    try:
        word.encode()
    except UnicodeEncodeError:
        is_utf8 = sys.getfilesystemencoding() == "utf-8"
        advice = "save it as UTF-8" if is_utf8 else "type PYTHONUTF8=1 before the command"
        return f"{printable(word)} has bytes that are no text in this locale: {advice}"
    return ""


def misplaced(words: Sequence[str], names: Collection[str]) -> str:
    """Return what to type for `rounds = 9`, `rounds 9`, `seed=1, 2`, `a={b: 1}` or 'rounds=9 seed=1'; mostly empty.

    `names` are those of groups and settings of the run.
    """
    joined = _joined(words, names)
    separate = [part for word in joined for part in _separated(word)]
    if len(separate) > len(joined) and all("=" in part and _is_known(part, names) for part in separate):
        return " ".join(separate)
    return shlex.join(joined) if len(joined) < len(words) else ""


def _joined(words: Sequence[str], names: Collection[str]) -> list[str]:
    """Return words of which those are one that belong together, such as `rounds`, `=` and `9`."""
    joined: list[str] = []
    for word in words:
        last = joined[-1] if joined and not re.match("note=.", joined[-1]) else ""
        if last.count("{") > last.count("}") or last.count("[") > last.count("]"):
            joined[-1] = f"{last} {word}"
        elif last.endswith(","):
            joined[-1] = last + word
        elif _lacks_value(last, names) and _may_be_value(word):
            has_equals = last.endswith("=") or word.startswith("=")
            joined[-1] = last + word if has_equals else f"{last}={word}"
        else:
            joined.append(word)
    return joined


def _separated(word: str) -> list[str]:
    """Return the parts of a word between blanks; a note is one."""
    return [word] if word.startswith("note=") else word.split(" ")


def _is_known(word: str, names: Collection[str]) -> bool:
    """Return whether a word begins with one of the names of groups and settings."""
    return re.split(r"[./=]", word.lstrip("+~"))[0] in names


def _lacks_value(word: str, names: Collection[str]) -> bool:
    """Return whether a word is a known name without a value: `rounds` or `rounds=`."""
    return "=" not in word[:-1] and _is_known(word, names)


def _may_be_value(word: str) -> bool:
    """Return whether a word can be the value of a name before it: `9` or `=9`."""
    return word.startswith("=") or not re.search(r"=|^[~+]", word)


def without_effect(word: str) -> str:
    """Return the message for a setting of Hydra, which `ol2r` does not read; empty for any other override."""
    name = word.lstrip("+~").partition("=")[0]
    if not name.startswith(("hydra.", "hydra/")) or name == "hydra.searchpath":
        return ""
    advice = next((advice for start, advice in _OF_HYDRA.items() if name.startswith(start)), "leave it out")
    return f"{word} has no effect: {advice}"


def misread_number(word: str, default: Any) -> str:
    """Return the message for `seed=0-4`, `seed=1..5`, `seed=range(0-3)` and `rounds=5,000`; mostly empty.

    `default` is that of the setting, a whole number.
    """
    if isinstance(default, bool) or not isinstance(default, int):
        return ""
    name, _, value = word.partition("=")
    ends = re.fullmatch(r"(?:range\()?(\d+)(?:-|\.\.+|:)(\d+)\)?", value)
    if ends and int(ends[1]) < int(ends[2]):
        several = shlex.quote(f"{name}=range({ends[1]},{int(ends[2]) + 1})")
        return f"{word} is no number: type -m {several} for runs with each of {ends[1]} to {ends[2]}"
    if re.fullmatch(r"\d{1,3}(,\d{3})+", value) and re.search(r",0\d\d", value):  # no list of numbers has a 000
        return f"{word} is several numbers: type {name}={value.replace(',', '')}"
    return ""


def unreadable(override: str) -> str:
    """Return the message for an override that is not in Hydra's grammar."""
    name, _, value = override.partition("=")
    if "=" not in override or not re.fullmatch(r"[+~]*[\w@/:-]+(\.[\w@/:-]+)*", name):
        return f"'{override}' must be SETTING=VALUE or GROUP=CHOICE, such as rounds=1000 or ranker=pairrank"
    if value.startswith("="):
        return f"{override} has = twice: type {_typed(name, value.lstrip('='))}"
    if any(override.count(left) != override.count(right) for left, right in ("()", "[]", "{}")):
        return f"{override} must have as many closing as opening brackets, and quotes around it all"
    with_home = re.sub(r"(^|[,\[])~(?=[/,\]]|$)", r"\1$HOME", value)  # a shell expands ~ only at the start of a word
    if "~" in value and "~" not in with_home:
        return f"{override} cannot be read: write $HOME instead of ~, type {name}={with_home}"
    return f"{override} cannot be read: if the value has signs of its own, type '{name}=\"{value}\"'"


def several_values(name: str, values: str, catalogue: Catalogue) -> str:
    """Return the message for `NAME=A,B` without -m."""
    default = dict(dotted(catalogue.tree([]))).get(name)
    if isinstance(default, list):
        return f"{name}={values} is several runs: add -m, or type {shlex.quote(f'{name}=[{values}]')} for a list"
    if isinstance(default, int) and re.fullmatch(r"\d{1,3}(,\d{3})+", values):
        number = values.replace(",", "")
        return f"{name}={values} is several runs: type {name}={number} for one number, or add -m for several"
    return f"{name}={values} is several runs: add -m"


def bad_choice(group: str, typed: str, value: Any, choices: Mapping[str, Choice]) -> str:
    """Return the message for an override of a group that names none of its choices. `value` is what Hydra reads."""
    number = typed.removeprefix("cuda:")
    if group == "device" and number != typed:
        where = f"CUDA_VISIBLE_DEVICES={number} before ol2r, or in a sweep 'launcher.gpus=[{number}]'"
        return f"device has no number, got {typed}: type device=cuda, and {where}"
    if typed in choices:  # a file with the name of a value: null
        quoted = f"\"{group}='{typed}'\""
        return f"{group}={typed} is no name of a choice: rename {shown_path(choices[typed].path)}, or type {quoted}"
    if not isinstance(value, str) or "${" in value:
        return f"{group} must be one of {', '.join(choices)}, got {typed}"
    message = must_be_one_of(group, choices, value, f"{group}=", USUAL.get(value, ""))
    if message.endswith("?"):
        return message
    new = f"ol2r new {group} NAME, or " if group in ROLES else ""
    return f"{message}: own choices: {new}--config-dir DIR"


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
        return [name for name, choice in choices.items() if setting in self.catalogue.values(choice)]


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
    keys = name.split(".")
    first = next((place for place, key in enumerate(keys) if key.isdigit()), len(keys) - 1)
    value = "{" + ":{".join(keys[first:]) + ":VALUE" + "}" * (len(keys) - first)
    return f"{name} cannot be set alone: type {_typed('.'.join(keys[:first]), value)}"


def _without_part(part: str, typed: Typed) -> str:
    """Return the message for a part, such as `ranker/model`, that the choice of its group does not have."""
    above, _, what = part.partition("/")
    chosen, catalogue = typed.chosen[above], typed.catalogue
    having = [name for name, choice in catalogue.choices[above].items() if part in catalogue.brings(choice)]
    network = NETWORKS.get(chosen or "")
    first_choice = f"type {above}={network}, or " if network in having else ""
    return f"{above}={chosen} has no {what}: {first_choice}choose one of {', '.join(having)}"


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
    shown = f": `ol2r list {typed.catalogue.root.name}` shows settings, `ol2r list` choices"
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
                own += [f"{choice.node}.{name}".removeprefix(_prefix(group)) for name in typed.catalogue.values(choice)]
    return nearest(USUAL.get(setting, setting), own, _prefix(group))


def _same_setting(group: str, setting: str, typed: Typed) -> str:
    """Return `: type ..` for the first setting of this name in another group; or empty."""
    names = [name for name in typed.settings if name.endswith(f".{setting}") and not name.startswith(_prefix(group))]
    return f": type {names[0]}=.." if names else ""


def _other_choices(group: str, setting: str, typed: Typed) -> str:
    """Return `: type .. too` with the choices of a group that have a setting; or empty.

    They are named where the choice of the group was not typed, and of parts, such as `ranker/model`.
    """
    is_typed = any(word.lstrip("+").partition("=")[0] == group for word in typed.words)
    having = typed.choices_with(group, setting.partition(".")[0])
    if not having or (is_typed and group not in typed.catalogue.parts):
        return ""
    named = having if len(having) <= _FEW else _FIRST.get(group, having[:_FEW])
    return f": type {one_of([f'{group}={name}' for name in named])} too"


def meant(name: str, value: str, words: Sequence[str], catalogue: Catalogue) -> str:
    """Return `: type NAME=VALUE` for a usual word, or the last parts of a setting, under these words; or empty."""
    if name == "cutoff":
        return f": type {shlex.quote(f'measures=[ndcg@{value}]')}"
    measure = name.removeprefix("trace_")
    is_flag = measure != name or value.lower() in ("true", "false")
    if is_flag and measure in catalogue.choices.get(MEASURE, {}):
        return f": type {_typed('measures', as_typed(_with_or_without(measure, value, catalogue)))}"
    typed = Typed(words, catalogue)
    usual = USUAL.get(name, name)
    names = [usual] if usual in typed.chosen or usual in typed.settings else _ending_in(usual, typed.settings)
    if names:
        return f": type {' or '.join(_typed(full_name, value) for full_name in names)}"
    for group in typed.chosen:
        having = typed.choices_with(group, usual)
        if having:
            return f": type {_typed(f'{group}.{usual}', value)} and {group}=CHOICE, of {', '.join(having)}"
    return ""


def _with_or_without(measure: str, value: str, catalogue: Catalogue) -> list[str]:
    """Return the default list of measures with one that is typed like a flag, or without it where that is false."""
    others = [name for name in catalogue.root.values["measures"] if name != measure]
    return others if value.lower() == "false" else [*others, measure]


def _ending_in(word: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the settings whose last parts are this word, without those that follow another one.

    A word may also name settings together: `queries` is `dataset.queries` of `dataset.queries.train`.
    """
    beginning = re.compile(rf"(?:.+\.|){re.escape(word)}(?=\.|$)")
    own = [name for name, default in settings.items() if "${" not in str(default)]
    matches = [match[0] for match in map(beginning.match, own) if match]
    return list(dict.fromkeys(matches))


def _typed(name: str, value: str) -> str:
    """Return an override as a shell takes it; `..` stands for a value that is not known."""
    return f"{name}={value}" if value == ".." else shlex.quote(f"{name}={value}")


def refused_by_hydra(message: str, words: Sequence[str], catalogue: Catalogue) -> str:
    """Return the message for what Hydra refuses, by its own one: of several lines, some of them for programmers."""
    absent = re.search(r"Could not (?:override|delete)[^']* '([\w./@]+)'", message)
    if absent:
        return unknown_name(absent[1], words, catalogue)
    present = re.search(r"(?:Multiple values for|An item is already at) '?([\w./]+\w)'?", message)
    if present:
        name = present[1]
        plain = next((word.lstrip("+") for word in words if word.startswith(f"+{name}=")), f"{name}=..")
        return f"{name} has a value already: type {plain}, once and without +"
    for_programmers = r"(full_key|object_type|reference_type|Set the env|See https?:)"
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line and not re.match(for_programmers, line))


def unresolved(name: str, value: Any, reason: str) -> str:
    """Return the message for an interpolation, as in `note=${x}`, that cannot be resolved."""
    message = f"{name} cannot be resolved: {reason}"
    if not isinstance(value, str) or "${" not in value:
        return message
    return f"{message}; for the text itself type {_typed(name, escaped(value))}"
