"""HTML from Python: elements whose text is escaped, and tables that can be sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ol2r_cli.report.formats import Cell, Table


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str | bool) -> Html:
    """An element; content that is no Html is escaped. `class_` is class, `aria_label` aria-label; True has no value."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not False
    )
    return Html(f"<{name}{written}>{joined(content)}</{name}>")


def joined(content: Iterable[str], between: str = "") -> Html:
    """One piece after the other."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in content))


def paragraphs(lines: Iterable[str], **attributes: str | bool) -> Html:
    """A paragraph for each line."""
    return joined((element("p", line, **attributes) for line in lines), "\n")


def table(of: Table, caption: str, sortable: bool = True) -> Html:
    """A table of a report: the best values bold, marks of significance raised, wide ones scroll by themselves."""
    heads = (
        element("th", element("button", text, type="button") if sortable else text, scope="col", class_=_kind(number))
        for text, number in zip(of.headings, of.numbers, strict=True)
    )
    rows = (
        element("tr", *(_cell(cell, number) for cell, number in zip(row, of.numbers, strict=True))) for row in of.rows
    )
    inner = [
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", joined(rows, "\n")),
    ]
    return scrolling(element("table", *inner, class_="sortable" if sortable else ""), caption)


def pairs(of: Iterable[tuple[str, str]]) -> Html:
    """Names and their values."""
    return element("dl", joined((joined([element("dt", name), element("dd", value)]) for name, value in of), "\n"))


def plain(headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Html:
    """A table of words."""
    return table(Table(headings, [[Cell(text) for text in row] for row in rows], [False] * len(headings)), caption)


def scrolling(content: Html, label: str) -> Html:
    """What may be wider than the page; the keyboard reaches it, too."""
    return element("div", content, class_="scroll", role="region", tabindex="0", aria_label=label)


def folded(summary: str, *content: str, open_: bool = False) -> Html:
    """What is shown when somebody asks for it."""
    return element("details", element("summary", summary), *content, open=open_)


def _cell(cell: Cell, number: bool) -> Html:
    text = element("strong", cell.text) if cell.best else cell.text
    mark = [element("sup", cell.mark)] if cell.mark else []
    return element("td", text, *mark, class_=_kind(number))


def _kind(number: bool) -> str:
    return "number" if number else "word"
