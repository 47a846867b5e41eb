"""Error messages about overrides: one line in the words of the command line that says what to type.

The composer finds most mistakes itself and calls the function for each. `explain` translates the messages of Hydra and
OmegaConf.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ol2r_cli.config.catalogue import Catalogue, Choice, dotted
from ol2r_cli.config.own_choices import ROLES
from ol2r_cli.formatting import nearest

NETWORKS = {"pairrank": "olranknet", "pepairrank": "p2neurrank"}  # the ranker that does the same with a network


def explain(message: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """The message of an exception of Hydra or OmegaConf, with the nearest name where one is misspelt."""
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
    return f"{group} must be one of {', '.join(known)}, got '{name}'{nearest(name, known, f'{group}=') or own}"


def has_a_value(name: str, overrides: Sequence[str]) -> str:
    """The message for `+NAME=VALUE` where the setting or group is there already."""
    plain = next((word.lstrip("+") for word in overrides if word.startswith(f"+{name}=")), f"{name}=..")
    return f"{name} has a value already: type {plain}, once and without +"


def unknown_name(name: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """The message for a setting or group that does not exist under these overrides."""
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
        near = nearest(name, [*chosen, *catalogue.parts, *settings])
        return f"there is no setting or group '{name}'{near or ': `ol2r list` shows what there is'}"
    prefix = f"{group.replace('/', '.')}."
    own = [setting.removeprefix(prefix) for setting in settings if setting.startswith(prefix)]
    missing = name.removeprefix(prefix)
    near = nearest(missing, [*own, *_of_parts(group, chosen, catalogue)], prefix)
    has = f": it has {', '.join(dict.fromkeys(setting.partition('.')[0] for setting in own)) or 'none'}"
    others = _choices_with(missing, catalogue.choices[group], catalogue) if group in catalogue.parts else ""
    return f"{group}={chosen[group]} has no setting '{missing}'{near or others or has}"


def _as_mapping(name: str) -> str:
    """An override of the mapping in which a setting is: click.tables={5:{stop:VALUE}} for click.tables.5.stop.

    Hydra reads the key 5 of `click.tables.5.stop` as text, and finds no such key where it is a number.
    """
    keys = name.split(".")
    first = next((place for place, key in enumerate(keys) if key.isdigit()), len(keys) - 1)
    value = "VALUE"
    for key in reversed(keys[first:]):
        value = f"{{{key}:{value}}}"
    return f"{'.'.join(keys[:first])}={value}"


def _without_part(part: str, chosen: Mapping[str, str | None], catalogue: Catalogue) -> str:
    """The message for a part, such as a model, of a choice that has none."""
    group, _, what = part.partition("/")
    others = [name for name, choice in catalogue.choices[group].items() if part in catalogue.brings(choice)]
    name = chosen[group] or "null"
    first = f"type {group}={NETWORKS[name]}, or " if NETWORKS.get(name) in others else ""
    return f"{group}={name} has no {what}: {first}choose one of {', '.join(others)}"


def _of_parts(group: str, chosen: Mapping[str, str | None], catalogue: Catalogue) -> list[str]:
    """The settings of all choices of the parts of a group's choice: model.width of ranker/model=mlp."""
    parts = [part for part in chosen if part.startswith(f"{group}/")]
    return [
        f"{part.removeprefix(f'{group}/')}.{setting}"
        for part in parts
        for choice in catalogue.choices[part].values()
        for setting, _ in dotted(catalogue.values(choice))
    ]


def _choices_with(setting: str, choices: Mapping[str, Choice], catalogue: Catalogue) -> str:
    having = [choice for choice in choices.values() if setting in dict(dotted(catalogue.values(choice)))]
    return f": {' or '.join(f'{choice.group}={choice.name}' for choice in having)} has it" if having else ""


def several_values(name: str, values: str, catalogue: Catalogue) -> str:
    """The message for `NAME=A,B` without -m."""
    default = dict(dotted(catalogue.tree([]))).get(name)
    as_list = f", or type {name}=[{values}] for a list" if isinstance(default, list) else ""
    return f"{name}={values} is several runs: add -m{as_list}"


def unreadable(override: str) -> str:
    """The message for an override that is not in Hydra's grammar."""
    name, _, value = override.partition("=")
    if "=" not in override or not re.fullmatch(r"[+~]*[\w@/:-]+(\.[\w@/:-]+)*", name):
        return f"'{override}' must be SETTING=VALUE or GROUP=CHOICE, such as rounds=1000 or ranker=pairrank"
    if any(override.count(left) != override.count(right) for left, right in ("()", "[]", "{}")):
        return f"{override} must have as many closing as opening brackets, and quotes around it all"
    with_home = re.sub(r"(^|[,\[])~(?=[/,\]]|$)", r"\1$HOME", value)  # a shell expands ~ only at the start of a word
    if "~" in value and "~" not in with_home:
        return f"{override} cannot be read: write $HOME instead of ~, type {name}={with_home}"
    return f"{override} cannot be read: if the value has signs of its own, type '{name}=\"{value}\"'"
