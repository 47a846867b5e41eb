"""What Hydra and OmegaConf complain about, as one line in the words of the command line that says what to type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ol2r_cli.catalogue import Catalogue, dotted
from ol2r_cli.choice import Choice
from ol2r_cli.compose import own_folders
from ol2r_cli.settings import nearest

NETWORKS = {"pairrank": "olranknet", "pepairrank": "p2neurrank"}  # the ranker that does the same with a network
OPTIONS = (
    "--multirun",
    "--paired",
    "--dry-run",
    "--keep-going",
    "--cfg",
    "--info",
    "--config-dir",
    "--resolve",
    "--package",
    "--help",
    "--hydra-help",
)
_UNREADABLE = (
    r"Error parsing override|mismatched input|no viable alternative|extraneous input|missing EQUAL|LexerNoViableAlt"
)


def explain(complaint: str, arguments: Sequence[str]) -> str:
    """One line about `arguments`, the words behind `ol2r run`, with the nearest name where one is misspelt."""
    words, folders = own_folders(list(arguments))
    overrides = [word for word in words if not word.startswith("-")]
    if found := re.search(r"error: unrecognized arguments: (\S+)", complaint):
        return f"there is no option {found[1]}{nearest(found[1], OPTIONS) or ': see `ol2r run --help`'}"
    if found := re.search(r"error: argument ([\w-]+)\S*: invalid choice: '(.*?)' \(choose from (.*)\)", complaint):
        return f"{found[1]} must be one of {found[3]}, got '{found[2]}'".replace("'", "")
    if found := re.search(r"Could not find '([\w/]+)/([^/']*)'", complaint):
        return _unknown_choice(found[1], found[2], complaint)
    if found := re.search(r"Could not (?:override|delete(?: from config\.)?) '([\w./@]+)'", complaint):
        return _unknown_name(found[1], overrides, Catalogue([folder for folder in folders if folder.is_dir()]))
    if found := re.search(r"(?:Multiple values for|An item is already at) '?([\w./]+\w)'?", complaint):
        plain = next((word.lstrip("+") for word in overrides if word.startswith(f"+{found[1]}=")), f"{found[1]}=..")
        return f"{found[1]} has a value already: type {plain}, once and without +"
    if found := re.search(r"(?:Sweep parameters|Ambiguous value for argument) '(.+?)=(.*)'", complaint):
        return _several_values(found[1], found[2])
    if re.search(_UNREADABLE, complaint):
        return _unreadable(overrides)
    return one_line(complaint) or "the configuration could not be composed"


def one_line(message: str) -> str:
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
    return f"{group} must be one of {', '.join(known)}, got '{name}'{nearest(name, known, f'{group}=')}"


def _unknown_name(name: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    tree, chosen = catalogue.tree(overrides), catalogue.chosen(overrides)
    settings = [setting for setting, _ in dotted(tree)]
    if name in settings:
        return f"{name} cannot be left out: type no ~{name}"
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


def _without_part(part: str, chosen: Mapping[str, str | None], catalogue: Catalogue) -> str:
    """That the choice that would have this part has none, and which have one."""
    group, _, what = part.partition("/")
    others = [name for name, choice in catalogue.choices[group].items() if part in catalogue.brings(choice)]
    name = chosen[group] or "null"
    first = f"type {group}={NETWORKS[name]}, or " if NETWORKS.get(name) in others else ""
    return f"{group}={name} has no {what}: {first}choose one of {', '.join(others)}"


def _of_parts(group: str, chosen: Mapping[str, str | None], catalogue: Catalogue) -> list[str]:
    """The settings of all choices of the parts that the choice of a group has: model.width of ranker/model=mlp."""
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


def _several_values(name: str, values: str) -> str:
    default = dict(dotted(Catalogue().tree([]))).get(name)
    as_list = f", or type {name}=[{values}] for a list" if isinstance(default, list) else ""
    return f"{name}={values} is several runs: add -m{as_list}"


def _unreadable(overrides: Sequence[str]) -> str:
    """Names the first override that Hydra's parser cannot read; it says so of none by name when brackets are open."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    for override in overrides:
        try:
            parser.parse_override(override)
        except HydraException:
            break
    else:
        override = " ".join(overrides)
    if "=" not in override:
        return f"'{override}' must be SETTING=VALUE or GROUP=CHOICE, such as rounds=1000 or ranker=pairrank"
    if any(override.count(left) != override.count(right) for left, right in ("()", "[]", "{}")):
        return f"{override} must have as many closing as opening brackets, and quotes around it all"
    name, _, value = override.partition("=")
    at_home = re.sub(r"(^|[,\[])~(?=[/,\]]|$)", r"\1$HOME", value)  # a shell expands ~ only where a word begins
    if "~" in value and "~" not in at_home:
        return f"{override} cannot be read: write $HOME instead of ~, type {name}={at_home}"
    return f"{override} cannot be read: if the value has signs of its own, type '{name}=\"{value}\"'"
