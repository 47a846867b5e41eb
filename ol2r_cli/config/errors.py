"""Error messages about overrides: one line in the words of the command line that says what to type.

The composer finds most mistakes itself and calls the function for each. `explain` translates the messages of Hydra and
OmegaConf.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence

from ol2r_cli.config.catalogue import Catalogue, Choice, dotted
from ol2r_cli.config.own_choices import ROLES
from ol2r_cli.formatting import must_be_one_of, nearest

# Words of papers and of other programs, with the name here or its last part.
USUAL = {
    **{"seeds": "replicas", "T": "rounds", "epochs": "rounds", "k": "positions", "lambda": "l2", "gpu": "cuda"},
    **{"lr": "learning_rate", "eta": "learning_rate", "out": "output_dir", "name": "note", "data": "dataset"},
    **{"algorithm": "ranker", "users": "click", "metrics": "measures"},
}
NETWORKS = {"pairrank": "olranknet", "pepairrank": "p2neurrank"}  # the ranker that does the same with a network


def explain(message: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """Return the message of an exception of Hydra or OmegaConf, with the nearest name where one is misspelt."""
    if match := re.search(r"Could not find '([\w/]+)/([^/']*)'", message):
        return _unknown_choice(match[1], match[2], message)
    if match := re.search(r"Could not (?:override|delete(?: from config\.)?) '([\w./@]+)'", message):
        return unknown_name(match[1], overrides, catalogue)
    if match := re.search(r"(?:Multiple values for|An item is already at) '?([\w./]+\w)'?", message):
        return has_a_value(match[1], overrides)
    return _without_advice(message) or "the configuration could not be composed"


def _without_advice(message: str) -> str:
    """Hydra's and OmegaConf's messages without their trailing advice for programmers."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    trailing = r"(full_key|object_type|reference_type|Set the env|See https?:)"
    line = " ".join(line for line in lines if not re.match(trailing, line))
    return re.sub(r"^(usage: .* error: |Error executing job with overrides: \[.*?\] |In '\w+': )", "", line)


def _unknown_choice(group: str, name: str, complaint: str) -> str:
    listed = re.search(r"Available options in '.*?':\n((?:\t\S+\n?)*)", complaint)
    known = listed[1].split() if listed else []
    if not known:
        return f"there is no {group}={name}, nor any other choice of {group}"
    own = f": own choices: {f'ol2r new {group} NAME, or ' * (group in ROLES)}--config-dir DIR"
    return must_be_one_of(group, known, name, f"{group}=", USUAL.get(name, "")) + own


def has_a_value(name: str, overrides: Sequence[str]) -> str:
    """Return the message for `+NAME=VALUE` where the setting or group is there already."""
    plain = next((word.lstrip("+") for word in overrides if word.startswith(f"+{name}=")), f"{name}=..")
    return f"{name} has a value already: type {plain}, once and without +"


def unknown_name(name: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """Return the message for a setting or group that does not exist under these overrides."""
    tree, chosen = catalogue.tree(overrides), catalogue.chosen(overrides)
    settings = [setting for setting, _ in dotted(tree)]
    if name in settings:
        if any(word.partition("=")[0] == f"~{name}" for word in overrides):
            return f"{name} cannot be left out: type no ~{name}"
        return f"{name} cannot be set alone: type {_as_mapping(name)}"
    named = f"{name.replace('/', '.')}."
    group = next((part for part in catalogue.parts if named.startswith(f"{part.replace('/', '.')}.")), "")
    if group and group not in chosen:
        return _without_part(group, chosen, catalogue)
    group = group or name.partition(".")[0]
    if group not in chosen or group == name:
        value = next((word.partition("=")[2] for word in overrides if word.lstrip("+~").startswith(f"{name}=")), "..")
        hint = meant(name, value, overrides, catalogue) or nearest(name, [*chosen, *catalogue.parts, *settings])
        return f"there is no setting or group '{name}'{hint or ': `ol2r list run` shows settings, `ol2r list` choices'}"
    prefix = f"{group.replace('/', '.')}."
    own = [setting.removeprefix(prefix) for setting in settings if setting.startswith(prefix)]
    missing = name.removeprefix(prefix)
    below = [choice for part in chosen if part.startswith(f"{group}/") for choice in catalogue.choices[part].values()]
    of_parts = [f"{each.node}.{name}".removeprefix(prefix) for each in below for name in catalogue.values(each)]
    near = nearest(USUAL.get(missing, missing), [*own, *of_parts], prefix)
    has = f": it has {', '.join(dict.fromkeys(setting.partition('.')[0] for setting in own)) or 'none'}"
    others = _choices_with(missing, catalogue.choices[group], catalogue) if group in catalogue.parts else ""
    elsewhere = [setting for setting in settings if setting.endswith(f".{missing}")]
    hint = near or others or (f": type {elsewhere[0]}=.." if elsewhere else has)
    return f"{group}={chosen[group]} has no setting '{missing}'{hint}"


def meant(name: str, value: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """`: type NAME=VALUE` for a usual word, or the last parts of a setting, under these overrides; or empty."""
    if name == "cutoff":
        return f": type measures=[ndcg@{value}]"
    chosen, word = catalogue.chosen(overrides), USUAL.get(name, name)
    values = dict(dotted(catalogue.tree(overrides)))
    if word in (*chosen, *values):
        return f": type {word}={value}"
    ends = re.compile(rf"(?:.+\.|){re.escape(word)}(?=\.|$)")  # dataset.queries of dataset.queries.train
    own = [setting for setting, default in values.items() if "${" not in str(default)]  # none that follows another
    if found := dict.fromkeys(match[0] for setting in own if (match := ends.match(setting))):
        return f": type {' or '.join(f'{setting}={value}' for setting in found)}"
    for group, choices in catalogue.choices.items():
        if having := [name for name, choice in choices.items() if group in chosen and word in catalogue.values(choice)]:
            return f": type {group}.{word}={value} and {group}=CHOICE, of {', '.join(having)}"
    return ""


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


def _as_mapping(name: str) -> str:
    """Return an override of the mapping in which a setting is: click.tables={5:{stop:VALUE}} for click.tables.5.stop.

    Hydra reads the key 5 of `click.tables.5.stop` as text, and finds no such key where it is a number.
    """
    keys = name.split(".")
    first = next((place for place, key in enumerate(keys) if key.isdigit()), len(keys) - 1)
    value = "VALUE"
    for key in reversed(keys[first:]):
        value = f"{{{key}:{value}}}"
    return f"{'.'.join(keys[:first])}={value}"


def _without_part(part: str, chosen: Mapping[str, str | None], catalogue: Catalogue) -> str:
    """Return the message for a part, such as a model, of a choice that has none."""
    group, _, what = part.partition("/")
    others = [name for name, choice in catalogue.choices[group].items() if part in catalogue.brings(choice)]
    name = chosen[group] or "null"
    first = f"type {group}={NETWORKS[name]}, or " if NETWORKS.get(name) in others else ""
    return f"{group}={name} has no {what}: {first}choose one of {', '.join(others)}"


def _choices_with(setting: str, choices: Mapping[str, Choice], catalogue: Catalogue) -> str:
    having = [choice for choice in choices.values() if setting in dict(dotted(catalogue.values(choice)))]
    return f": {' or '.join(f'{choice.group}={choice.name}' for choice in having)} has it" if having else ""


def several_values(name: str, values: str, catalogue: Catalogue) -> str:
    """Return the message for `NAME=A,B` without -m."""
    default = dict(dotted(catalogue.tree([]))).get(name)
    as_list = f", or type {name}=[{values}] for a list" if isinstance(default, list) else ""
    return f"{name}={values} is several runs: add -m{as_list}"


def unreadable(override: str) -> str:
    """Return the message for an override that is not in Hydra's grammar."""
    name, _, value = override.partition("=")
    if "=" not in override or not re.fullmatch(r"[+~]*[\w@/:-]+(\.[\w@/:-]+)*", name):
        return f"'{override}' must be SETTING=VALUE or GROUP=CHOICE, such as rounds=1000 or ranker=pairrank"
    if any(override.count(left) != override.count(right) for left, right in ("()", "[]", "{}")):
        return f"{override} must have as many closing as opening brackets, and quotes around it all"
    with_home = re.sub(r"(^|[,\[])~(?=[/,\]]|$)", r"\1$HOME", value)  # a shell expands ~ only at the start of a word
    if "~" in value and "~" not in with_home:
        return f"{override} cannot be read: write $HOME instead of ~, type {name}={with_home}"
    return f"{override} cannot be read: if the value has signs of its own, type '{name}=\"{value}\"'"
