"""What a user sees of a fitted model: why an item is recommended, as text, JSON and an HTML page, and the interview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.config.composer import Composer
from ol2r_cli.files import as_json, write_text
from ol2r_cli.plugins.page.html_page import templates
from ol2r_cli.plugins.recommend.fit import Fit
from ol2r_cli.plugins.recommend.model import Explanation, Recommender
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.run import DONE
from ol2r_cli.text.formatting import printable, wrapped

LISTED = 10  # items of a list of recommendations
_SAYS = {"user": "mentions", "item": "good minus bad mentions"}  # what a profile has of a feature


@dataclass(frozen=True)
class Recommendation:
    """What is shown to a user of a fit: the recommended items, best first, and why one item is recommended.

    fit: its id. user, item: numbers of the data, which `explain` takes. recommended: number and name of each item.
    """

    fit: str
    user: int
    recommended: list[dict[str, Any]]  # {"item": number, "name": name}
    item: int | None = None
    name: str = ""
    explanation: Explanation | None = None

    @property
    def title(self) -> str:
        """Return whose recommendation it is, and of which item."""
        if self.item is None:
            return f"user {self.user}: recommended"
        return f"user {self.user}, {_called(self.item, self.name)}"

    def as_content(self) -> dict[str, Any]:
        """Return everything as plain data; without an item nothing about one."""
        content = asdict(self)
        return content if self.item is not None else {name: content[name] for name in ("fit", "user", "recommended")}

    def as_text(self) -> list[str]:
        """Return the lines of a terminal."""
        if self.explanation is None:
            return [self.title, *_listed(self.recommended)]
        lines = [self.title]
        for side, path in self.explanation.paths.items():
            lines += [f"  {side}", *(f"  {'   ' * depth}└─ {_rule(side, rule)}" for depth, rule in enumerate(path, 1))]
        features, by = self.explanation.features, self.explanation.by
        contributions = _numbers(self.explanation) or [""] * len(features)
        named = [f"{name} {number}".strip() for name, number in zip(features, contributions, strict=True)]
        if named:
            lines.append(f"  features: {', '.join(named)}" + (f" ({by})" if by else ""))
        return [*lines, f"  {self.explanation.sentence}"]

    def as_page(self) -> str:
        """Return an HTML page, in the style of a report."""
        paths = self.explanation.paths.items() if self.explanation else ()
        rules = [(side, [_rule(side, rule) for rule in path]) for side, path in paths if path]
        contributions = _numbers(self.explanation) if self.explanation else []
        template = templates(Path(__file__).parent).get_template("explained.html.jinja")
        return template.render(shown=self, contributions=contributions, paths=rules)


def show(overrides: Sequence[str], options: Sequence[str], json: bool = False) -> int:
    """Print what `explain` and `interview` of these overrides ask of the finished fit; returns the exit code.

    ValueError where the model cannot explain or ask.
    """
    composition = Composer([*overrides, *options], "recommend")(list(overrides))
    settings = composition.settings
    fit = Fit({**settings, "force": False}, composition.choices)
    asked, out = settings["explain"], settings["explain"]["out"]
    model = fit.restored()
    if settings["interview"]:
        try:
            scores = model.interview(_ask)
        except EOFError:
            print("\nthe interview has ended before its last question")
            return DONE
        top = np.argsort(-scores, kind="stable")[:LISTED]
        _print(["recommended:", *_listed(_items(fit.reviews, top))])
    if asked["user"] is None:
        return DONE
    shown = _shown(fit, model, asked["user"], asked["item"])
    if out is not None:
        page = shown.as_page() if out.endswith(".html") else as_json(shown.as_content()) + "\n"
        write_text(Path(out), page)
        print(f"written: {out}")
    elif json:
        print(as_json(shown.as_content()))
    else:
        _print(shown.as_text())
        if shown.item is None and type(model).explain is not Recommender.explain:
            print("  type explain.item=NUMBER for why an item is recommended")
    return DONE


def _shown(fit: Fit, model: Recommender, user: int, item: int | None) -> Recommendation:
    reviews, place = fit.reviews, fit.reviews.place("user", user)
    top = fit.recommended(model, np.array([place]), "test", LISTED)[0]
    shown = Recommendation(fit.id, user, _items(reviews, top[top >= 0]))
    if item is None:
        return shown
    of_item = reviews.place("item", item)
    return replace(shown, item=item, name=reviews.item_name(of_item), explanation=model.explain(place, of_item))


def _items(reviews: Reviews, places: NDArray[np.int64]) -> list[dict[str, Any]]:
    numbers = reviews.numbers("item")
    return [{"item": int(numbers[place]), "name": reviews.item_name(int(place))} for place in places]


def _listed(items: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"  {place:2} {_called(item['item'], item['name'])}" for place, item in enumerate(items, 1)]


def _called(item: int, name: str) -> str:
    """Return the number of an item, and its name where it has one: `item 9070: iPhone 5 Case`."""
    number = f"item {item}"
    return number if name == number else f"{number}: {name}"


def _print(lines: Sequence[str]) -> None:
    """Print lines with names of others, of which control characters are escaped, wrapped between words."""
    for line in map(printable, lines):
        print(wrapped(line, indent=len(line) - len(line.lstrip()) + 3))


def _numbers(explanation: Explanation) -> list[str]:
    """Return the contributions with two digits: `+0.41`."""
    return [f"{contribution:+.2g}" for contribution in explanation.contributions]


def _rule(side: str, rule: Mapping[str, Any]) -> str:
    """Return a rule of a path with the value for which it holds: `battery: mentions 4, at least 3`; of a share 12%."""
    if rule["branch"] == "unknown":
        return f"{rule['feature']}: never mentioned"
    form, of = ("{:.3g}%", "share of ") if rule.get("share") else ("{:g}", "")
    value, threshold = (form.format(rule[name] * (100 if of else 1)) for name in ("value", "threshold"))
    holds = "at least" if rule["branch"] == "left" else "below"
    return f"{rule['feature']}: {of}{_SAYS[side]} {value}, {holds} {threshold}"


def _ask(question: str, answers: Sequence[str]) -> int:
    """Ask in the terminal until the answer is one of the numbers or its first letters; EOFError at the end of input."""
    choices = printable("  ".join(f"{place} {answer}" for place, answer in enumerate(answers, 1)))
    while True:
        given = input(f"{printable(question)}\n  {choices}: ").strip().lower()
        for place, answer in enumerate(answers):
            if given and (given == str(place + 1) or answer.lower().startswith(given)):
                return place
        print(f"  type a number from 1 to {len(answers)}")
