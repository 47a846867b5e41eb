"""One table of LaTeX, with booktabs, that fits a page of a two-column article."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ol2r_cli.text.table import Cell, TextTable

COLUMN, PAGE = 229, 469  # points: widths of a column and of the page in the class article
MOST_LINES = 50  # of a table, in the size \small
_LETTER, _GAP = 4.6, 8  # points: a letter of the size \small, and the space between two columns
_SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"{{{sign}}}" for sign in "[*"},  # behind the end of a row they would be an argument of it
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "↑": r"$^{\uparrow}$", "↓": r"$^{\downarrow}$", "|": r"\textbar{}", "<": "$<$", ">": "$>$"},
    **{"†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$"},
    **{"λ": r"$\lambda$", "η": r"$\eta$", "ν": r"$\nu$", "α": r"$\alpha$", "ε": r"$\epsilon$", "²": "$^2$"},
}


@dataclass(frozen=True)
class Block:
    """Rows under a title of their own, which may be empty. The first cell of a row is its name."""

    title: str
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class LatexTable:
    """One table, in one float. caption: sentences. notes: lines of comment above it. fewer: what to type for a table
    with fewer lines."""

    headings: Sequence[str]
    numbers: Sequence[bool]
    blocks: Sequence[Block]
    caption: Sequence[str] = ()
    notes: Sequence[str] = ()
    fewer: str = "one metric, such as --metric test_ndcg_10, or fewer runs, such as dataset=mq2008"

    def text(self) -> str:
        """Return the table, for \\usepackage{booktabs}; ValueError where it is higher than a page."""
        tabulars = self._tabulars()
        lines = sum(len(block.rows) + 2 for block in self.blocks) * len(tabulars)
        if lines > MOST_LINES:
            raise ValueError(
                f"a table of LaTeX must have at most {MOST_LINES} lines, to fit a page, got {lines}: name {self.fewer}"
            )
        float_name = "table" if max(map(self._width, tabulars)) <= COLUMN else "table*"
        text = [f"% {note}" for note in ("\\usepackage{booktabs}", *self.notes)]
        text += [
            f"\\begin{{{float_name}}}[t]",
            "\\centering",
            "\\small",
            f"\\setlength{{\\tabcolsep}}{{{_GAP / 2:g}pt}}",
            "\\setlength{\\belowcaptionskip}{4pt}",
        ]
        text += [f"\\caption{{{escaped(' '.join(self.caption))}}}"] if self.caption else []
        for number, columns in enumerate(tabulars):
            if number:
                text.append("\\par\\medskip")
            text += self._tabular(columns)
        return "\n".join([*text, f"\\end{{{float_name}}}"])

    def _rows(self) -> list[Sequence[Cell]]:
        return [row for block in self.blocks for row in block.rows]

    def _width(self, columns: Sequence[int]) -> float:
        """Return an estimate of the width of these columns, in points."""
        letters = 0
        for column in columns:
            letters += max([len(self.headings[column]), *(len(str(row[column])) for row in self._rows())])
        return _LETTER * letters + _GAP * len(columns)

    def _tabulars(self) -> list[list[int]]:
        """Return the columns of each tabular: all, or as many as fit the page behind the name, one tabular below the
        other."""
        tabulars = [[0]]
        for column in range(1, len(self.headings)):
            if len(tabulars[-1]) > 1 and self._width([*tabulars[-1], column]) > PAGE:
                tabulars.append([0])
            tabulars[-1].append(column)
        return tabulars

    def _tabular(self, columns: Sequence[int]) -> list[str]:
        places = "".join("r" if self.numbers[column] else "l" for column in columns)
        lines = [f"\\begin{{tabular}}{{{places}}}", "\\toprule"]
        lines.append(" & ".join(escaped(self.headings[column]) for column in columns) + r" \\")
        for block in self.blocks:
            lines.append("\\midrule")
            if block.title:
                lines += [f"\\multicolumn{{{len(columns)}}}{{l}}{{\\emph{{{escaped(block.title)}}}}} \\\\"]
            lines += [" & ".join(_cell(row[column]) for column in columns) + r" \\" for row in block.rows]
        return [*lines, "\\bottomrule", "\\end{tabular}"]


def escaped(text: str) -> str:
    """Return text as LaTeX; a minus before a digit is set in math mode."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", "".join(_SIGNS.get(sign, sign) for sign in text))


def _cell(cell: Cell) -> str:
    text = f"\\textbf{{{escaped(cell.text)}}}" if cell.best else escaped(cell.text)
    return text + (escaped(cell.mark) if cell.mark in "↑↓" else f"$^{{{cell.mark}}}$")


def plain_table(table: TextTable, notes: Sequence[str]) -> LatexTable:
    """Return a table as it is, with what is the same in all rows in the caption."""
    kept, same = table.without_empty().without_same()
    return LatexTable(kept.headings, kept.numbers, [Block("", kept.rows)], [same] if same else [], notes)
