"""Seeded mutations of the files of a run, as a person, a program or a disk that means no good could leave them."""

from __future__ import annotations

import io
import json
import math
import random
from typing import Any

import polars as pl
import yaml

BRACKETS = 200_000
ODD: list[Any] = [
    *(None, True, False, 0, -1, 7, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e-320, 1e308, float("inf"), float("nan")),
    *("", "x", "7", "nan", "../../x", "/dev/zero", "\x1b[31mred", "\0", "a\nb", "${oc.env:HOME}", "???", "é" * 5000),
    *("\ud800", "=1+1", "%s{0}", "[/bold]", [], {}, [[]], [None], [1, "x"], {"": None}, {"a": {"b": []}}, [{}] * 50),
]
LITERALS = [
    *map(pl.lit, ("x", "", "[]", "{}", "null", '{"a": []}', None, b"\xff\x00", 2**63 - 1, -1, 1e308, math.nan)),
    *(pl.concat_list(pl.lit(1)), pl.struct(a=pl.lit(1)), pl.date(2001, 1, 1)),
]
DATES = ["2001-01-01", "!!binary aGVsbG8=", "!!set {a, b}", "!!python/object:os.system x", "!unknown x", "0o7777", "~"]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) of nested mappings and lists."""
    if not isinstance(tree, dict | list):
        return []
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    return [found for key in keys for found in ((tree, key), *places(tree[key]))]


def mutated_tree(tree: Any, dice: random.Random) -> Any:
    """A copy in which one to three values are odd, missing, doubled, nested, or under another key."""
    tree = json.loads(json.dumps(tree))
    for _ in range(dice.randint(1, 3)):
        container, key = dice.choice(places(tree) or [([tree], 0)])
        change = dice.choice(["replace"] * 6 + ["remove", "rename", "nest", "repeat", "swap", "add"])
        if change == "replace":
            container[key] = dice.choice(ODD)
        elif change == "remove":
            del container[key]
        elif change == "nest":
            for _ in range(dice.choice([1, 3, 60])):
                container[key] = [container[key]] if dice.random() < 0.5 else {"x": container[key]}
        elif change == "repeat":
            container[key] = [container[key]] * dice.choice([0, 2, 1000])
        elif change == "swap":
            other, place = dice.choice(places(tree))
            container[key] = json.loads(json.dumps(other[place]))
        elif isinstance(container, dict):
            odd_key = dice.choice(["", "x" * 5000, "a.b", "\x1b[2J", "\ud800", "__class__", "=x", "${a}", "_target_"])
            container[odd_key] = container.pop(key) if change == "rename" else dice.choice(ODD)
    return tree


def mutated_bytes(content: bytes, dice: random.Random) -> bytes:
    """The content truncated, with bytes changed, inserted or removed, or something else altogether."""
    place, end = sorted(dice.choices(range(len(content) + 1), k=2))
    noise = dice.randbytes(dice.choice([1, 4, 200]))
    change = dice.choice(["truncate", "replace", "insert", "cut", "flip", "flip", "number", "all"])
    if change == "flip":
        spoilt = bytearray(content)
        for _ in range(dice.choice([1, 3, 20])):
            spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
        return bytes(spoilt)
    others = [b"", noise, b"\xef\xbb\xbf" + content, b"[" * BRACKETS, b'{"a":' * BRACKETS, content.replace(b" ", b"\t")]
    return {
        "truncate": content[:place],
        "replace": content[:place] + noise + content[place + len(noise) :],
        "insert": content[:place] + noise + content[place:],
        "cut": content[:place] + content[end:],
        "number": content.replace(b"2", b"9" * 5000, 1),
        "all": dice.choice([*others, b"null", b"7", b'"x"', b"[]", b"{}", b"- " * 5000, b"? " * 5000, content * 2]),
    }[change]


def mutated_json(content: bytes, dice: random.Random) -> bytes:
    """JSON with other values, or damaged text."""
    if dice.random() < 0.2:
        return mutated_bytes(content, dice)
    return json.dumps(mutated_tree(json.loads(content), dice)).encode()


def mutated_yaml(content: bytes, dice: random.Random) -> bytes:
    """YAML with other values, with tags, aliases, dates, keys that are no text, or damaged text."""
    kind = dice.random()
    if kind < 0.2:
        return mutated_bytes(content, dice)
    tree = mutated_tree(yaml.safe_load(content), dice)
    text = yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")
    if kind < 0.3:
        key = dice.choice(["odd", "2001-01-01", "7", "? [a, b]\n", "~", "ranker"])
        return text + f"\n{key}: {dice.choice(DATES)}\n".encode()
    if kind < 0.35:
        return text + alias_bomb()
    return text


def alias_bomb(merged: bool = False) -> bytes:
    """A kilobyte of YAML with 10^20 values."""
    around = "{{<<: [{}]}}" if merged else "[{}]"
    lines = ["a0: &a0 " + ("{x: 1}" if merged else "[x]")]
    lines += [f"a{n}: &a{n} " + around.format(", ".join([f"*a{n - 1}"] * 10)) for n in range(1, 21)]
    return ("\n" + "\n".join(lines) + "\n").encode()


def mutated_table(content: bytes, dice: random.Random) -> bytes:
    """A parquet file with other rows, columns, types or names, or damaged; its seal, if it has one, is lost."""
    table = pl.read_parquet(content)
    for _ in range(dice.randint(1, 2)):
        name, literal = dice.choice(table.columns), dice.choice(LITERALS)
        change = dice.choice(["remove", "rename", *["replace"] * 4, "empty", "twice", "few"])
        if change == "remove":
            table = table.drop(name)
        elif change == "rename":
            other = dice.choice(["", "x", "split", "\x1b[31m", "run"])
            table = table.rename({name: other} if other not in table.columns else {})
        elif change == "replace":
            table = table.with_columns(literal.alias(name))
        else:
            table = {"empty": table.clear(), "twice": pl.concat([table, table]), "few": table.head(3)}[change]
    file = io.BytesIO()
    table.write_parquet(file)
    return file.getvalue() if dice.random() < 0.7 else mutated_bytes(dice.choice([content, file.getvalue()]), dice)
