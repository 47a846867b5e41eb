"""Error messages about names and words of the command line: one line that says what to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

from ol2r_cli.config.catalogue import Catalogue, dotted
from ol2r_cli.formatting import nearest

# Words of papers and of other programs, with the name here or its last part.
USUAL = {
    **{"seeds": "replicas", "T": "rounds", "epochs": "rounds", "k": "positions", "lambda": "l2", "gpu": "cuda"},
    **{"lr": "learning_rate", "eta": "learning_rate", "out": "output_dir", "name": "note", "data": "dataset"},
    **{"algorithm": "ranker", "users": "click", "metrics": "measures"},
}
NETWORKS = {"pairrank": "olranknet", "pepairrank": "p2neurrank"}  # the ranker that does the same with a network


def unknown_name(name: str, overrides: Sequence[str], catalogue: Catalogue) -> str:
    """Return the message for a setting or group that does not exist under these overrides."""
    tree, chosen = catalogue.tree(overrides), catalogue.chosen(overrides)
    settings = [setting for setting, _ in dotted(tree)]
    if name in settings:
        if any(word.partition("=")[0] == f"~{name}" for word in overrides):
            return f"{name} cannot be left out: type no ~{name}"
        # Hydra reads the key 5 of click.tables.5.stop as text, and finds no such key where it is a number.
        keys = name.split(".")
        first = next((place for place, key in enumerate(keys) if key.isdigit()), len(keys) - 1)
        value = "{" + ":{".join(keys[first:]) + ":VALUE" + "}" * (len(keys) - first)
        return f"{name} cannot be set alone: type {'.'.join(keys[:first])}={value}"
    named = f"{name.replace('/', '.')}."
    part = next((part for part in catalogue.parts if named.startswith(f"{part.replace('/', '.')}.")), "")
    if part and part not in chosen:
        above, _, what = part.partition("/")
        having = [each for each, choice in catalogue.choices[above].items() if part in catalogue.brings(choice)]
        network = NETWORKS.get(chosen[above] or "")
        first_choice = f"type {above}={network}, or " if network in having else ""
        return f"{above}={chosen[above]} has no {what}: {first_choice}choose one of {', '.join(having)}"
    group = part or name.partition(".")[0]
    if other := catalogue.elsewhere.get(group):
        typed = next((word for word in overrides if word.lstrip("+~").startswith(name)), f"{name}=..")
        return f"{group} is a group of `ol2r {other}`: type ol2r {other} {typed}"
    if group not in chosen or group == name:
        value = next((word.partition("=")[2] for word in overrides if word.lstrip("+~").startswith(f"{name}=")), "..")
        hint = meant(name, value, overrides, catalogue) or nearest(name, [*chosen, *catalogue.parts, *settings])
        shown = f": `ol2r list {catalogue.root.name}` shows settings, `ol2r list` choices"
        return f"there is no setting or group '{name}'{hint or shown}"
    prefix = f"{group.replace('/', '.')}."
    missing = name.removeprefix(prefix)
    own = [setting.removeprefix(prefix) for setting in settings if setting.startswith(prefix)]
    below = [choice for part in chosen if part.startswith(f"{group}/") for choice in catalogue.choices[part].values()]
    of_parts = [f"{each.node}.{key}".removeprefix(prefix) for each in below for key in catalogue.values(each)]
    others = [each for each in catalogue.choices[group].values() if part and missing in catalogue.values(each)]
    elsewhere = [setting for setting in settings if setting.endswith(f".{missing}")]
    hint = nearest(USUAL.get(missing, missing), [*own, *of_parts], prefix)
    if not hint and others:
        hint = f": {' or '.join(f'{group}={choice.name}' for choice in others)} has it"
    elif not hint:
        has = ", ".join(dict.fromkeys(setting.partition(".")[0] for setting in own)) or "none"
        hint = f": type {elsewhere[0]}=.." if elsewhere else f": it has {has}"
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
    for group in chosen:
        choices = catalogue.choices[group].items()
        if having := [each for each, choice in choices if word in catalogue.values(choice)]:
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
