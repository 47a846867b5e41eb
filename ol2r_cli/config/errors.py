"""Error messages about names and words of the command line: one line that says what to type."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ol2r_cli.config.catalogue import ROLES, Catalogue, Choice, dotted
from ol2r_cli.config.overrides import escaped
from ol2r_cli.formatting import must_be_one_of, nearest, one_of, printable, shown_path

# Words of papers and of other programs, with the name here or its last part.
USUAL = {
    **{"seeds": "replicas", "T": "rounds", "epochs": "rounds", "k": "positions", "lambda": "l2", "gpu": "cuda"},
    **{"lr": "learning_rate", "eta": "learning_rate", "out": "output_dir", "name": "note", "data": "dataset"},
    **{"algorithm": "ranker", "users": "click", "metrics": "measures"},
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


def undecoded(word: str) -> str:
    """Say what to type for a word that is no text, since the locale does not decode its bytes; empty for text."""
    try:
        word.encode()
    except UnicodeEncodeError:
        is_utf8 = sys.getfilesystemencoding() == "utf-8"
        advice = "save it as UTF-8" if is_utf8 else "type PYTHONUTF8=1 before the command"
        return f"{printable(word)} has bytes that are no text in this locale: {advice}"
    return ""


def without_effect(word: str) -> str:
    """Return the message for a setting of Hydra, which `ol2r` does not read; empty for any other override."""
    name = word.lstrip("+~").partition("=")[0]
    if not name.startswith(("hydra.", "hydra/")) or name == "hydra.searchpath":
        return ""
    advice = next((advice for start, advice in _OF_HYDRA.items() if name.startswith(start)), "leave it out")
    return f"{word} has no effect: {advice}"


def unknown_name(name: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """Return the message for a setting or group that does not exist under these overrides."""
    chosen = catalogue.chosen(overrides)
    values = dict(dotted(catalogue.tree(overrides)))
    if name in values:
        return _fixed(name, overrides)
    named = f"{name.replace('/', '.')}."
    part = next((part for part in catalogue.parts if named.startswith(f"{part.replace('/', '.')}.")), "")
    if part and part not in chosen:
        return _without_part(part, chosen, catalogue)
    group = part or name.partition(".")[0]
    if other := catalogue.elsewhere.get(group):
        typed = next((word for word in overrides if word.lstrip("+~").startswith(name)), f"{name}=..")
        return f"{group} is a group of `ol2r {other}`: type ol2r {other} {shlex.quote(typed)}"
    if group not in chosen or group == name:
        value = next((word.partition("=")[2] for word in overrides if word.lstrip("+~").startswith(f"{name}=")), "..")
        hint = meant(name, value, overrides, catalogue) or nearest(name, [*chosen, *catalogue.parts, *values])
        shown = f": `ol2r list {catalogue.root.name}` shows settings, `ol2r list` choices"
        return f"there is no setting or group '{name}'{hint or shown}"
    missing = name.removeprefix(f"{group.replace('/', '.')}.")
    hint = _of_the_choice(group, missing, list(values), catalogue, chosen)
    is_default = not any(word.lstrip("+").partition("=")[0] == group for word in overrides)
    hint = hint or _of_others(group, missing, values, catalogue, is_default)
    return f"{group}={chosen[group]} has no setting '{missing}'{hint}"


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
    own = f": own choices: {f'ol2r new {group} NAME, or ' if group in ROLES else ''}--config-dir DIR"
    return message if message.endswith("?") else f"{message}{own}"


def _fixed(name: str, overrides: Sequence[str]) -> str:
    """Return the message for a setting that exists, and cannot be left out or set alone."""
    if any(word.partition("=")[0] == f"~{name}" for word in overrides):
        return f"{name} cannot be left out: type no ~{name}"
    # Hydra reads the key 5 of click.tables.5.stop as text, and finds no such key where it is a number.
    keys = name.split(".")
    first = next((place for place, key in enumerate(keys) if key.isdigit()), len(keys) - 1)
    value = "{" + ":{".join(keys[first:]) + ":VALUE" + "}" * (len(keys) - first)
    return f"{name} cannot be set alone: type {_typed('.'.join(keys[:first]), value)}"


def _without_part(part: str, chosen: dict[str, str | None], catalogue: Catalogue) -> str:
    """Return the message for a part, such as `ranker/model`, that the choice of its group does not have."""
    above, _, what = part.partition("/")
    having = [name for name, choice in catalogue.choices[above].items() if part in catalogue.brings(choice)]
    network = NETWORKS.get(chosen[above] or "")
    first_choice = f"type {above}={network}, or " if network in having else ""
    return f"{above}={chosen[above]} has no {what}: {first_choice}choose one of {', '.join(having)}"


def _of_the_choice(
    group: str, missing: str, settings: Sequence[str], catalogue: Catalogue, chosen: dict[str, str | None]
) -> str:
    """Return `: did you mean ..?` for a similar setting of the choice of a group, or of its parts; or empty."""
    prefix = f"{group.replace('/', '.')}."
    own = [setting.removeprefix(prefix) for setting in settings if setting.startswith(prefix)]
    for part in chosen:
        for choice in catalogue.choices[part].values() if part.startswith(f"{group}/") else ():
            own += [f"{choice.node}.{setting}".removeprefix(prefix) for setting in catalogue.values(choice)]
    return nearest(USUAL.get(missing, missing), own, prefix)


def _of_others(group: str, missing: str, values: dict[str, Any], catalogue: Catalogue, is_default: bool) -> str:
    """Return what to type for a setting that the choice of a group does not have: where else it is, or what it has.

    Other choices are named where this one was not typed, and of parts, such as `ranker/model`.
    """
    prefix = f"{group.replace('/', '.')}."
    elsewhere = [setting for setting in values if setting.endswith(f".{missing}") and not setting.startswith(prefix)]
    if elsewhere:
        return f": type {elsewhere[0]}=.."
    first = missing.partition(".")[0]
    having = [name for name, choice in catalogue.choices[group].items() if first in catalogue.values(choice)]
    if len(having) > _FEW:
        having = list(_FIRST.get(group, having[:_FEW]))
    if having and (is_default or group in catalogue.parts):
        return f": type {one_of([f'{group}={name}' for name in having])} too"
    own = [setting.removeprefix(prefix).partition(".")[0] for setting in values if setting.startswith(prefix)]
    return f": it has {', '.join(dict.fromkeys(own)) or 'none'}"


def meant(name: str, value: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """Return `: type NAME=VALUE` for a usual word, or the last parts of a setting, under these overrides; or empty."""
    if name == "cutoff":
        return f": type {shlex.quote(f'measures=[ndcg@{value}]')}"
    chosen, word = catalogue.chosen(overrides), USUAL.get(name, name)
    values = dict(dotted(catalogue.tree(overrides)))
    if word in (*chosen, *values):
        return f": type {_typed(word, value)}"
    ends = re.compile(rf"(?:.+\.|){re.escape(word)}(?=\.|$)")  # dataset.queries of dataset.queries.train
    own = [setting for setting, default in values.items() if "${" not in str(default)]  # none that follows another
    found = dict.fromkeys(match[0] for match in map(ends.match, own) if match)
    if found:
        return f": type {' or '.join(_typed(setting, value) for setting in found)}"
    for group in chosen:
        choices = catalogue.choices[group].items()
        if having := [name for name, choice in choices if word in catalogue.values(choice)]:
            return f": type {_typed(f'{group}.{word}', value)} and {group}=CHOICE, of {', '.join(having)}"
    return ""


def _typed(name: str, value: str) -> str:
    """Return an override as a shell takes it; `..` stands for a value that is not known."""
    return f"{name}={value}" if value == ".." else shlex.quote(f"{name}={value}")


def misplaced(words: Sequence[str], names: Collection[str]) -> str:
    """Return what to type for `rounds = 9`, `rounds 9`, `seed=1, 2`, `a={b: 1}` or 'rounds=9 seed=1'; mostly empty.

    `names` are those of groups and settings of the run.
    """

    def known(word: str) -> bool:
        return re.split(r"[./=]", word.lstrip("+~"))[0] in names

    typed: list[str] = []
    for word in words:
        last = typed[-1] if typed and not re.match("note=.", typed[-1]) else ""
        if last.count("{") > last.count("}") or last.count("[") > last.count("]"):
            typed[-1] = f"{last} {word}"
        elif last.endswith(","):
            typed[-1] = last + word
        elif "=" not in last[:-1] and known(last) and (word.startswith("=") or not re.search(r"=|^[~+]", word)):
            typed[-1] = last + ("" if "=" in (last[-1], word[:1]) else "=") + word
        else:
            typed.append(word)
    parts = [part for word in typed for part in (word.split(" ") if not word.startswith("note=") else [word])]
    if len(parts) > len(typed) and all("=" in part and known(part) for part in parts):
        return " ".join(parts)
    return shlex.join(typed) if len(typed) < len(words) else ""


def several_values(name: str, values: str, catalogue: Catalogue) -> str:
    """Return the message for `NAME=A,B` without -m."""
    default = dict(dotted(catalogue.tree([]))).get(name)
    if isinstance(default, list):
        return f"{name}={values} is several runs: add -m, or type {shlex.quote(f'{name}=[{values}]')} for a list"
    if isinstance(default, int) and re.fullmatch(r"\d{1,3}(,\d{3})+", values):
        number = values.replace(",", "")
        return f"{name}={values} is several runs: type {name}={number} for one number, or add -m for several"
    return f"{name}={values} is several runs: add -m"


def misread_number(word: str, default: Any) -> str:
    """Return the message for `seed=0-4`, `seed=1..5`, `seed=range(0-3)` and `rounds=5,000`; mostly empty.

    `default` is that of the setting, a whole number.
    """
    name, _, value = word.partition("=")
    ends = re.fullmatch(r"(?:range\()?(\d+)(?:-|\.\.+|:)(\d+)\)?", value)
    if isinstance(default, bool) or not isinstance(default, int):
        return ""
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


def unresolved(name: str, value: Any, reason: str) -> str:
    """Return the message for an interpolation, as in `note=${x}`, that cannot be resolved."""
    message = f"{name} cannot be resolved: {reason}"
    if not isinstance(value, str) or "${" not in value:
        return message
    return f"{message}; for the text itself type {_typed(name, escaped(value))}"
