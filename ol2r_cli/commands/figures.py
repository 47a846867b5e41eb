"""`ol2r report DIR... --figure KIND...`: figures over finished runs, into files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ol2r_cli.settings import nearest

FORMATS = ("png", "svg", "pdf")
FOLDER = Path("figures")  # where they go unless a place is named


def figures(given: argparse.Namespace) -> None:
    """Draw what was asked for, or list the kinds. ValueError where nothing can be drawn."""
    from ol2r_cli.report.figures import KINDS

    if not given.figure:
        width = max(map(len, KINDS))
        print("\n".join(f"{name:{width}}  {kind.shows}" for name, kind in KINDS.items()))
        return
    from ol2r_cli.commands.gathering import gather
    from ol2r_cli.report.document import writing
    from ol2r_cli.report.figures import NothingToDraw, draw, save

    kinds = [kind for kind in given.figure if kind in KINDS or not Path(kind).is_dir()]
    given.folders += [Path(kind) for kind in given.figure if kind not in kinds]  # `--figure blocks outputs`
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"--figure must be one of {', '.join(KINDS)}, got {kind}{nearest(kind, KINDS)}")
    files = _files(kinds, given)
    options = _options(kinds, given)
    document = gather(given)
    drawn = 0
    for kind, file in files.items():
        own = {name: value for name, value in options.items() if name == "width" or name in KINDS[kind].options}
        try:
            figure = draw(kind, document.groups, document.labels, **own)
        except NothingToDraw as error:
            if len(files) == 1:
                raise
            print(f"ol2r report: left out, {kind}: {error}", file=sys.stderr)
            continue
        writing(file, lambda figure=figure, file=file: save(figure, file))  # type: ignore[misc]
        print(f"written: {file}")
        drawn += 1
    if not drawn:
        raise ValueError("none of the figures could be drawn")


def _files(kinds: Sequence[str], given: argparse.Namespace) -> dict[str, Path]:
    """Where each kind goes: --out itself if it ends like a figure, else a file below it."""
    if given.format not in (*FORMATS, None):
        raise ValueError(f"--format must be one of {', '.join(FORMATS)} with --figure, got {given.format}")
    out = FOLDER if given.out is None else given.out
    ending = out.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        if out.suffix and not out.is_dir():
            raise ValueError(f"--out must be a folder, or end in {', '.join(f'.{f}' for f in FORMATS)}, got {out}")
        return {kind: out / f"{kind}.{given.format or 'png'}" for kind in kinds}
    if given.format not in (ending, None):
        raise ValueError(f"--out must not end in {out.suffix} with --format {given.format}, got {out}")
    if len(kinds) > 1:
        raise ValueError(f"--out must be a folder for {len(kinds)} figures, got {out}")
    return {kinds[0]: out} if kinds else {}


def _options(kinds: Sequence[str], given: argparse.Namespace) -> dict[str, str]:
    from ol2r_cli.report.figures import KINDS

    known = dict.fromkeys(["width", *(name for kind in kinds for name in KINDS[kind].options)])
    pairs = dict(word.partition("=")[::2] for word in given.option or ())
    for name, value in pairs.items():
        if name not in known or not value:
            raise ValueError(f"--option must be NAME=VALUE with one of {', '.join(known)}, got {name}")
    return pairs
