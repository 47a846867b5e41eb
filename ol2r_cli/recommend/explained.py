"""What a user sees of a fitted model: why an item is recommended, as text, JSON and an HTML page, and the interview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.config.composer import Composer
from ol2r_cli.files import as_json, write_text
from ol2r_cli.formatting import printable
from ol2r_cli.recommend.fit import Fit
from ol2r_cli.recommend.reviews import Reviews
from ol2r_cli.run import DONE

LISTED = 10  # items of a list of recommendations
_SAYS = {"user": "mentions", "item": "good minus bad mentions"}  # what a profile has of a feature


def show(overrides: Sequence[str], options: Sequence[str], json: bool = False) -> int:
    """Print what `explain` and `interview` of these overrides ask of the finished fit; returns the exit code.

    ValueError where the model cannot explain or ask, and for a file that is neither .html nor .json.
    """
    composition = Composer([*overrides, *options], "recommend")(list(overrides))
    settings = composition.settings
    fit = Fit({**settings, "force": False}, composition.choices)
    asked, out = settings["explain"], settings["explain"]["out"]
    if out is not None and not out.endswith((".html", ".json")):
        raise ValueError(f"explain.out must end in .html or .json, got {out}")
    model = fit.restored()
    if settings["interview"]:
        try:
            scores = model.interview(_ask)
        except EOFError:
            print("\nthe interview has ended before its last question")
            return DONE
        top = np.argsort(-scores, kind="stable")[:LISTED]
        print("\n".join(["recommended:", *_listed(fit.reviews, top)]))
    if asked["user"] is None:
        return DONE
    user, place = asked["user"], fit.reviews.place("user", asked["user"])
    top = fit.recommended(model, np.array([place]), "test", LISTED)[0]
    content: dict[str, Any] = {"fit": fit.id, "user": user, "recommended": [fit.reviews.item_name(i) for i in top]}
    text, page = [f"user {user}: recommended", *_listed(fit.reviews, top)], ""
    if (item := asked["item"]) is not None:
        item_place = fit.reviews.place("item", item)
        explanation, name = model.explain(place, item_place), fit.reviews.item_name(item_place)
        content |= {"item": item, "name": name, "explanation": asdict(explanation)}
        text = [f"user {user}, item {item}: {name}"]
        for side, path in explanation.paths.items():
            text += [f"  {side}", *(f"  {'   ' * depth}└─ {_rule(side, rule)}" for depth, rule in enumerate(path, 1))]
            page += f"<h2>{escape(side)}</h2>\n{''.join(f'<ul><li>{escape(_rule(side, rule))}' for rule in path)}"
            page += "</li></ul>" * len(path) + "\n"
        text += [f"  features: {', '.join(explanation.features)}", f"  {explanation.sentence}"]
        page += f"<p>features: {escape(', '.join(explanation.features))}</p>\n<p>{escape(explanation.sentence)}</p>\n"
    if json or (out or "").endswith(".json"):
        text = [as_json(content)]
    if out is None:
        print("\n".join(line if json else printable(line) for line in text))
    else:
        title = escape(text[0])
        head = f'<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n<h1>{title}</h1>\n'
        items = "".join(f"<li>{escape(fit.reviews.item_name(each))}</li>" for each in top)
        page = f"{head}{page}<h2>recommended</h2>\n<ol>{items}</ol>\n"
        write_text(Path(out), page if out.endswith(".html") else "\n".join(text) + "\n")
        print(f"written: {out}")
    return DONE


def _listed(reviews: Reviews, items: NDArray[np.int64]) -> list[str]:
    return [f"  {place:2} {reviews.item_name(int(item))}" for place, item in enumerate(items, 1) if item >= 0]


def _rule(side: str, rule: Mapping[str, Any]) -> str:
    """A rule of a path with the value for which it holds: `battery: mentions 4, at least 3`; of a share 12%."""
    if rule["branch"] == "unknown":
        return f"{rule['feature']}: never mentioned"
    form, of = ("{:g}", "") if float(rule["value"]).is_integer() else ("{:.3g}%", "share of ")
    value, threshold = (form.format(rule[name] * (100 if of else 1)) for name in ("value", "threshold"))
    holds = "at least" if rule["branch"] == "left" else "below"
    return f"{rule['feature']}: {of}{_SAYS[side]} {value}, {holds} {threshold}"


def _ask(question: str, answers: Sequence[str]) -> int:
    """Ask in the terminal until the answer is one of the numbers or its first letters; EOFError at the end of input."""
    choices = "  ".join(f"{place} {answer}" for place, answer in enumerate(answers, 1))
    while True:
        given = input(f"{question}\n  {choices}: ").strip().lower()
        for place, answer in enumerate(answers):
            if given and (given == str(place + 1) or answer.lower().startswith(given)):
                return place
        print(f"  type a number from 1 to {len(answers)}")
