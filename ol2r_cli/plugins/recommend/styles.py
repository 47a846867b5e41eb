"""How models look in figures, none of which shows them together with rankers."""

from __future__ import annotations

from ol2r_cli.report.styles import DASH_DOT, DASHED, DOTTED, SOLID, Style

MODEL_STYLES = {
    "fact": Style("#d55e00", DASHED, "o"),
    "mter": Style("#0072b2", DOTTED, "s"),
    "bprmf": Style("#009e73", DASHED, "^"),
    "efm": Style("#cc79a7", SOLID, "D"),
    "nmf": Style("#e69f00", SOLID, "v"),
    "fmf": Style("#332288", SOLID, "P"),
    "most_popular": Style("#7a7a7c", DASH_DOT, "p"),
}
