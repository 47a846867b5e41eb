"""Draws the pictures of ideas in docs/pictures: make pictures

Plain SVG, in black and white legible: what differs in colour differs in hatching, line or label, too. The background is
white, so that a picture is the same on a dark page. `pairrank.svg` shows what PairRank computes for one query.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from ol2r_cli.config.composer import compose
from ol2r_cli.run.experiment import Experiment

FOLDER = Path(__file__).parents[1] / "docs/pictures"
WIDTH = 640
INK, WHITE, PALE, ORANGE = "#1a1a1a", "#ffffff", "#f1f1f1", "#fbdfb4"
BLUE, DARK_BLUE = "#cfe2f3", "#8db9df"
STYLE = """
text { font-family: Helvetica, Arial, "DejaVu Sans", sans-serif; font-size: 16px; fill: #1a1a1a }
.small { font-size: 15px }
.bold { font-weight: bold }
.code { font-family: Menlo, "DejaVu Sans Mono", monospace; font-size: 15px }
""".strip()
_HEAD = 'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"'
_PATTERN = 'width="7" height="7" patternUnits="userSpaceOnUse"'
_LINE = f'<rect width="2" height="7" fill="{INK}"/>'
_GROUND = f'<rect width="7" height="7" fill="{WHITE}"/>'
DEFINITIONS = f"""
<marker id="head" {_HEAD}><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker>
<pattern id="lines" {_PATTERN} patternTransform="rotate(45)">{_GROUND}{_LINE}</pattern>
<pattern id="dots" {_PATTERN}>{_GROUND}<circle cx="3.5" cy="3.5" r="1.4" fill="{INK}"/></pattern>
""".strip()
LINES, DOTS = "url(#lines)", "url(#dots)"


class Picture:
    """An SVG of a width of 640 and this height, drawn from the back to the front. `words` describe it for a reader who
    does not see it."""

    def __init__(self, height: int, title: str, words: str):
        self.height, self.title, self.words = height, title, words
        self.parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, fill: str = WHITE, *, round: int = 0, **style
    ) -> None:
        """Draw a rectangle; `style` is attributes of SVG, with _ in place of -."""
        corner = f' rx="{round}"' if round else ""
        where = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{corner}'
        self.parts.append(f'<rect {where} fill="{fill}"{_attributes({"stroke": INK, "stroke_width": 1.5} | style)}/>')

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        """Write a line at this baseline; `kind` is of bold, small and code."""
        if not words:
            return
        named = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{named}>{escape(words)}</text>')

    def lines(self, x: float, y: float, words: Iterable[str], kind: str = "small", anchor: str = "middle") -> None:
        """Write lines below each other."""
        for number, line in enumerate(words):
            self.text(x, y + 18 * number, line, kind, anchor)

    def path(self, *points: tuple[float, float], arrow: bool = True, **style) -> None:
        """Draw a line through these points, with the head of an arrow at its end."""
        way = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        end = ' marker-end="url(#head)"' if arrow else ""
        shown = _attributes({"stroke": INK, "stroke_width": 2} | style)
        self.parts.append(f'<path d="{way}" fill="none"{shown}{end}/>')

    def role(self, x: float, y: float, name: str, width: float = 112) -> None:
        """Draw a role: a box with its name."""
        self.box(x, y, width, 56, BLUE, stroke_width=2.5)
        self.text(x + width / 2, y + 34, name, "bold")

    def record(self, x: float, y: float, name: str, width: float = 96) -> None:
        """Draw a record: a pill with its name, around this centre."""
        self.box(x - width / 2, y - 13, width, 26, WHITE, round=13)
        self.text(x, y + 5, name, "small bold")

    def __str__(self) -> str:
        size = f'viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        about = f"<title>{escape(self.title)}</title>\n<desc>{escape(self.words)}</desc>"
        page = f'<rect width="{WIDTH}" height="{self.height}" fill="{WHITE}"/>'
        return "\n".join(
            [head, about, f"<style>{STYLE}</style>", f"<defs>{DEFINITIONS}</defs>", page, *self.parts, "</svg>\n"]
        )


def _attributes(values: dict[str, object]) -> str:
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in values.items())


def round_of_records() -> Picture:
    """The six records between the dataset and four roles."""
    picture = Picture(
        404,
        "A round",
        "The dataset gives Candidates to the ranker, which gives a Prediction to the exploration, which gives a "
        "Proposal to fairness, whose list the click model sees. Clicks become Preferences, a part of the Interaction, "
        "from which ranker, exploration and fairness learn. RunContext is given to every role before the first round.",
    )
    picture.box(20, 12, 600, 30, WHITE, round=15)
    picture.text(320, 32, "RunContext: sizes, precision, device; once, before the first round", "small bold")
    picture.box(8, 62, 624, 122, "none", stroke_dasharray="7 5")
    picture.text(320, 81, "these three learn from the Interaction", "small")
    for x, name in (20, "Ranker"), (264, "Exploration"), (508, "Fairness"):
        picture.role(x, 92, name)
    for x, record, words in (132, "Prediction", "scores"), (376, "Proposal", "order, blocks"):
        picture.path((x, 120), (x + 128, 120))
        picture.record(x + 60, 120, record)
        picture.text(x + 60, 154, words, "small")
    picture.role(20, 268, "Dataset")
    picture.role(508, 268, "Click model")
    picture.path((76, 268), (76, 152))
    picture.record(76, 218, "Candidates", 108)
    picture.lines(138, 214, ["features,", "no grades"], anchor="start")
    picture.path((564, 148), (564, 264))
    picture.text(552, 222, "shown list", "small", "end")
    picture.box(190, 240, 232, 92, PALE, round=16)
    picture.text(306, 262, "Interaction", "bold")
    picture.text(306, 282, "all of a round; measures read it", "small")
    picture.record(306, 309, "Preferences: pairs", 160)
    picture.path((508, 296), (426, 296))
    picture.text(468, 286, "clicks", "small")
    picture.path((306, 240), (306, 188), stroke_dasharray="7 5")
    picture.text(316, 214, "learn", "small", "start")
    picture.path((76, 324), (76, 362), (564, 362), (564, 328))
    picture.text(320, 354, "grades, for the click model alone", "small")
    picture.box(120, 378, 24, 18, BLUE, stroke_width=2.5)
    picture.text(152, 392, "a role, or the data", "small", "start")
    picture.box(320, 378, 36, 18, WHITE, round=9)
    picture.text(364, 392, "a record that passes between them", "small", "start")
    return picture


class Divided(NamedTuple):
    """What PairRank computes for one query of d documents, which are in the order of their scores."""

    scores: list[float]  # [d]
    stated: list[list[bool]]  # [d, d]: i is above j by the interval of the two
    closed: list[list[bool]]  # [d, d]: or by a chain of such pairs
    blocks: list[int]  # [d], from 0
    lists: list[list[int]]  # lists that may be served


WORLD = [
    *("device=cpu", "dataset.queries={train: 12, validation: 2, test: 2}", "dataset.documents=8", "dataset.features=6"),
    *("dataset.seed=1", "click=perfect", "ranker.l2=0.001", "exploration.alpha=0.2", "rounds=10"),
    "measures=[ndcg,blocks]",
]
QUERY = 4


def divided(lists: int) -> Divided:
    """Learn for ten rounds, and divide the documents of a query; draw so many lists."""
    composition = compose(WORLD)
    simulation = Experiment(composition.settings, composition.choices).simulation()
    for _ in simulation.play():
        pass
    candidates, _ = simulation.train_split.serve(torch.tensor([QUERY]))
    streams, exploration = simulation.streams, simulation.exploration
    prediction = simulation.ranker.predict(candidates, streams.at("judge", 0))
    scores = prediction.scores[:, 0]
    by_score, stated, _ = exploration.compared(prediction, scores, candidates.mask)
    order = by_score[0][: int(candidates.mask.sum())]
    proposals = [exploration.propose(prediction, candidates, streams.at("explore", 100 + t)) for t in range(lists)]
    place = {document: rank for rank, document in enumerate(order.tolist())}
    served = [
        [place[document] for document in proposal.order[0].tolist() if document in place] for proposal in proposals
    ]
    number = len(order)
    return Divided(
        scores[0][order].tolist(),
        stated[0, :number, :number].tolist(),
        proposals[0].certain[0][order][:, order].tolist(),
        proposals[0].block[0][order].tolist(),
        served,
    )


FILLS = WHITE, ORANGE, PALE, BLUE  # of blocks


def certain_pairs() -> Picture:
    """One query: scores, certain pairs and their closure, blocks, and lists that are served."""
    found = divided(lists=4)
    number = len(found.scores)
    picture = Picture(
        618,
        "Certain pairs, blocks and lists of one query",
        f"{number} documents in the order of their scores. A table shows which pairs are certain by their interval, "
        "which by a chain of certain pairs, and which are uncertain. "
        f"The documents form {1 + found.blocks[-1]} blocks. Four lists keep their order, and differ inside them.",
    )
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    picture.text(20, 28, "1  Scores", "bold", "start")
    _scale(picture, found, names)
    picture.text(20, 162, "2  Is the row certainly above the column?", "bold", "start")
    _table(picture, found, names)
    picture.text(20, 500, "3  Blocks, and four lists that may be served", "bold", "start")
    for rank, list_ in enumerate(found.lists):
        x, y = 20 + 310 * (rank % 2), 516 + 48 * (rank // 2)
        _served(picture, found.blocks, list_, names, x, y)
    return picture


def _scale(picture: Picture, found: Divided, names: str) -> None:
    """Draw a line with the documents at their scores, names in two rows so that neighbours do not meet."""
    best, worst = found.scores[0], found.scores[-1]
    picture.path((608, 108), (28, 108), stroke_width=1.5)
    picture.text(28, 130, "best", "small", "start")
    picture.text(608, 130, "worst", "small", "end")
    for rank, score in enumerate(found.scores):
        x = round(60 + 510 * (best - score) / (best - worst))
        fill = FILLS[found.blocks[rank]]
        up = 86 if rank % 2 else 60
        picture.path((x, up), (x, 108), arrow=False, stroke_width=1.5)
        picture.box(x - 12, up - 18, 24, 22, fill)
        picture.text(x, up - 1, names[rank], "small bold")


def _table(picture: Picture, found: Divided, names: str) -> None:
    """Draw a row and a column for every document, and a frame around every block."""
    number, cell, left, top = len(found.scores), 34, 48, 196
    kinds = {"certain": INK, "chain": LINES, "open": WHITE}
    for i in range(number):
        picture.text(left - 14, top + cell * i + 23, names[i], "bold")
        picture.text(left + cell * i + 17, top - 8, names[i], "bold")
        for j in range(i + 1, number):
            kind = "certain" if found.stated[i][j] else "chain" if found.closed[i][j] else "open"
            picture.box(left + cell * j, top + cell * i, cell, cell, kinds[kind], stroke="#777777", stroke_width=1)
    for block in range(1 + found.blocks[-1]):
        size, first = found.blocks.count(block), found.blocks.index(block)
        at = left + cell * first, top + cell * first
        picture.box(*at, cell * size, cell * size, "none", stroke_width=4)
    legend = (
        ("certain", "certain, by", "its interval"),
        ("chain", "certain, by a", "chain of pairs"),
        ("open", "uncertain", ""),
    )
    for row, (kind, *words) in enumerate(legend):
        picture.box(370, 202 + 56 * row, 30, 30, kinds[kind], stroke="#777777", stroke_width=1)
        picture.lines(412, 215 + 56 * row, words, anchor="start")
    picture.box(370, 372, 30, 30, "none", stroke_width=4)
    picture.lines(412, 385, ["a block: outside it,", "every pair is certain"], anchor="start")
    i, j = _first_chain(found)
    middle = next(k for k in range(i + 1, j) if found.closed[i][k] and found.closed[k][j])
    words = [
        f"{names[i]} above {names[middle]} and {names[middle]} above {names[j]} are",
        f"certain: so is {names[i]} above {names[j]}",
    ]
    picture.lines(370, 440, words, anchor="start")


def _first_chain(found: Divided) -> tuple[int, int]:
    """Return a pair that is certain by a chain alone."""
    number = len(found.scores)
    for i in range(number):
        for j in range(number):
            if found.closed[i][j] and not found.stated[i][j]:
                return i, j
    raise ValueError("every certain pair is one by its interval: choose another query")


def _served(picture: Picture, blocks: list[int], order: list[int], names: str, x: int, y: int) -> None:
    """Draw a list, block by block."""
    for rank, document in enumerate(order):
        block = blocks[document]
        at = x + 32 * rank + 12 * block
        picture.box(at, y, 30, 34, FILLS[block])
        picture.text(at + 15, y + 23, names[document], "bold")


def axes_of_tensors() -> Picture:
    """Replicas, members and documents of a prediction."""
    picture = Picture(
        430,
        "Replicas, members and documents",
        "The scores of a prediction are a tensor of replicas, members and documents. Each of three replicas has a seed "
        "and a query of its own, two members, and as many columns as the longest query has documents; the rest is "
        "padding.",
    )
    picture.text(20, 30, "Prediction.scores [B, N, D]", "code bold", "start")
    picture.path((190, 62), (596, 62), arrow=False)
    for x in 190, 596:
        picture.path((x, 56), (x, 68), arrow=False)
    picture.text(393, 54, "D documents: as many as the longest query has", "small")
    for replica, (seed, query, length) in enumerate(((0, 17, 5), (1, 3, 7), (2, 40, 4))):
        top = 80 + 92 * replica
        picture.box(10, top, 596, 78, PALE, round=6)
        picture.text(20, top + 24, f"seed {seed}", "bold", "start")
        picture.text(20, top + 44, f"query {query}", "small", "start")
        picture.text(20, top + 63, f"length {length}", "small", "start")
        for member in range(2):
            picture.text(180, top + 27 + 33 * member, f"member {member + 1}", "small", "end")
            for document in range(7):
                fill = WHITE if document < length else LINES
                picture.box(190 + 58 * document, top + 7 + 33 * member, 58, 31, fill)
    picture.text(184, 67, "N members", "small", "end")
    picture.path((622, 80), (622, 342), arrow=False)
    for y in 80, 342:
        picture.path((616, y), (628, y), arrow=False)
    picture.text(598, 364, "B replicas, each with a seed of its own", "small", "end")
    picture.box(20, 350, 30, 18, LINES)
    picture.text(58, 364, "padding, masked", "small", "start")
    picture.text(20, 396, "Other records begin with B, too:", "small", "start")
    for x, words in (20, "features [B, D, F]"), (210, "shown list, clicks [B, K]"), (450, "pairs [B, M]"):
        picture.text(x, 418, words, "code", "start")
    return picture


START, STEP = 176, 68  # of the picture of a directory: where its run begins, and 1,000 rounds
KILLED, RESUMED, END, EDGE = START + 3 * STEP + 12, START + 250, START + 250 + 2 * STEP, 628


class Bar(NamedTuple):
    """A time in which a file is there."""

    begin: float
    end: float
    fill: str
    words: str = ""


def run_directory() -> Picture:
    """What a run directory holds over time, with a kill in the middle."""
    picture = Picture(
        470,
        "A run directory over time",
        "A bar for each file shows when it is there. A run begins, writes two checkpoints and is killed while it "
        "writes the third. The part of a table that no checkpoint records is removed when the same command resumes "
        "the run from the second one. When it finishes, tables, ranker and summary replace parts and checkpoint.",
    )
    first, second, third, fourth = START + STEP, START + 2 * STEP, START + 3 * STEP, RESUMED + STEP
    bars: dict[str, list[Bar]] = {
        ".lock": [Bar(START, KILLED, PALE, "held"), Bar(RESUMED, END, PALE, "held")],
        "config.yaml": [Bar(START, EDGE, DARK_BLUE)],
        "run.json": [
            Bar(START, RESUMED, PALE, "running"),
            Bar(RESUMED, END, PALE, "running"),
            Bar(END, EDGE, DARK_BLUE, "finished"),
        ],
        "trace.part00001": [Bar(first - 5, second + 5, ORANGE)],
        "trace.part00002": [Bar(second - 5, fourth + 5, ORANGE)],
        "trace.part00003": [Bar(third - 6, RESUMED, LINES), Bar(fourth - 5, END, ORANGE)],
        "checkpoint.pt": [
            Bar(first, second, ORANGE, "1,000"),
            Bar(second, fourth, ORANGE, "round 2,000"),
            Bar(fourth, END, ORANGE, "3,000"),
        ],
        "trace.parquet": [Bar(END - 12, EDGE, DARK_BLUE)],
        "ranker.pt": [Bar(END - 8, EDGE, DARK_BLUE)],
        "summary.json": [Bar(END - 4, EDGE, DARK_BLUE)],
    }
    picture.box(KILLED, 48, RESUMED - KILLED, 374, DOTS, stroke="none", opacity=0.35)
    for x, name, anchor in (START, "start", "middle"), (KILLED, "killed", "end"), (END, "finished", "middle"):
        picture.text(x, 30, name, "small bold", anchor)
    picture.text(RESUMED, 30, "resumed", "small bold", "start")
    for x in START, RESUMED, END:
        picture.path((x, 38), (x, 422), arrow=False, stroke_width=1.5, stroke_dasharray="5 4")
    picture.path((KILLED, 38), (KILLED, 422), arrow=False, stroke_width=4)
    for number, (file, pieces) in enumerate(bars.items()):
        y = 60 + 34 * number
        picture.text(164, y + 17, file, "code", "end")
        for bar in pieces:
            picture.box(bar.begin, y, bar.end - bar.begin, 24, bar.fill)
            picture.text((bar.begin + bar.end) / 2, y + 17, bar.words, "small")
    for x, name in (first, "1"), (second, "2"), (third - 4, "3"), (fourth, "3"):
        picture.text(x, 52, name, "small bold")
    picture.text(20, 52, "checkpoint", "small", "start")
    picture.box(20, 434, 30, 18, LINES)
    picture.text(58, 448, "no checkpoint records it: removed", "small", "start")
    picture.box(330, 434, 30, 18, ORANGE)
    picture.text(368, 448, "until the end", "small", "start")
    picture.box(490, 434, 30, 18, DARK_BLUE)
    picture.text(528, 448, "kept", "small", "start")
    return picture


CHOSEN = 20  # the replica whose block is enlarged
THREADS_OF = {"score": 32, "arrange": 32, "click": 1, "infer": 1, "learn": 32, "remember": 32}


def replica_as_block() -> Picture:
    """A GPU plays replicas as blocks; the threads of a block share the documents of a round."""
    picture = Picture(
        500,
        "A replica is a block of a GPU",
        "Blocks of a GPU, one for each replica, and one of them enlarged: its threads share the work of the stages "
        "score, arrange, learn and remember; the stages click and infer are played by one thread. All threads wait for "
        "each other after each stage.",
    )
    picture.text(20, 28, "A GPU plays a block for each replica, many side by side", "bold", "start")
    picture.box(20, 42, 600, 108, PALE, round=8)
    for number in range(24):
        x, y = 32 + 49 * (number % 12), 54 + 48 * (number // 12)
        is_chosen = number == CHOSEN
        picture.box(x, y, 38, 36, ORANGE if is_chosen else WHITE, stroke_width=3 if is_chosen else 1.5)
        picture.text(x + 19, y + 23, str(number), "small")
    picture.path((424, 140), (24, 196), arrow=False, stroke_width=1, stroke_dasharray="4 4")
    picture.path((462, 140), (616, 196), arrow=False, stroke_width=1, stroke_dasharray="4 4")
    picture.box(20, 196, 600, 292, WHITE, round=8, stroke_width=3)
    picture.text(32, 220, f"One block: a round of replica {CHOSEN}", "bold", "start")
    picture.text(608, 220, "numbers: documents of a thread", "small", "end")
    for column, (stage, threads) in enumerate(THREADS_OF.items()):
        x = 104 + 84 * column
        picture.text(x + 38, 246, stage, "small bold")
        for row in range(5):
            if row < threads:
                picture.box(x, 256 + 28 * row, 76, 24, BLUE)
            else:
                picture.box(x, 256 + 28 * row, 76, 24, WHITE, stroke_width=1, stroke_dasharray="2 4")
        picture.path((x + 80, 252), (x + 80, 400), arrow=False, stroke_width=4)
    for row, name in enumerate(("0", "1", "2", "..", "31")):
        picture.text(96, 273 + 28 * row, f"thread {name}" if row == 0 else name, "small", "end")
        documents = f"{name}, {int(name) + 32}" if name.isdigit() else ".."
        picture.text(142, 273 + 28 * row, documents, "small")
    picture.box(104, 412, 496, 30, ORANGE)
    picture.text(352, 432, "workspace: scores, list, clicks, pairs, where it fits in fast memory", "small")
    picture.path((40, 460), (40, 482), arrow=False, stroke_width=4)
    picture.text(50, 476, "all threads wait for each other", "small", "start")
    picture.box(290, 462, 30, 18, WHITE, stroke_dasharray="2 4", stroke_width=1)
    picture.text(328, 476, "waits: one thread does what has an order", "small", "start")
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "round": round_of_records,
    "pairrank": certain_pairs,
    "tensors": axes_of_tensors,
    "run_directory": run_directory,
    "gpu": replica_as_block,
}


def main() -> None:
    """Write every picture."""
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(str(draw()))


if __name__ == "__main__":
    main()
