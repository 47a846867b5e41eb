"""Mutants: every small change that can be made to a file, and a seeded sample of them."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "//", "**": "*", "&": "|", "|": "&", "^": "&"}
COMPARISONS = {  # boundary moved, and turned round
    **{"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]},
    **{"is": ["is not"], "is not": ["is"], "in": ["not in"], "not in": ["in"]},
}
OPERATORS = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Is: "is", ast.IsNot: "is not", ast.In: "in"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.NotIn: "not in"},
}
BUILTINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
PAIRS = [("min", "max"), ("any", "all"), ("sum", "mean"), ("amin", "amax"), ("argmin", "argmax"), ("floor", "ceil")]
PAIRS += [("minimum", "maximum"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("new_zeros", "new_ones")]
PAIRS += [("logical_and", "logical_or"), ("tril", "triu"), ("startswith", "endswith")]
METHODS = {**dict(PAIRS), **{b: a for a, b in PAIRS}, "log": "log1p", "exp": "expm1", "sqrt": "square"}
LOGGING = re.compile(r"_?log(ger|ging)?\.|warnings\.warn\b")


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` .. `end` of a file become `text`."""

    id: str  # hash that orders the candidates of an area
    area: str
    file: str
    function: str
    operator: str
    line: int  # the one that changes
    lines: tuple[int, int]  # of the expression
    statement: tuple[int, int]  # around it, without its body
    imported: bool  # whether it runs when the module is imported
    before: str
    after: str
    start: int
    end: int
    text: str

    def made(self, root: Path) -> bytes:
        """The file with the change."""
        source = (root / self.file).read_bytes()
        return source[: self.start] + self.text.encode() + source[self.end :]


class Finder:
    """Every change that can be made to a file; none adds or removes lines."""

    def __init__(self, source: bytes, area: str, file: str, seed: int):
        self.source, self.area, self.file, self.seed = source, area, file, seed
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.rows = source.decode().split("\n")
        self.found: list[Mutant] = []
        self.seen: Counter[str] = Counter()
        self.names: list[str] = []  # of classes and functions around
        self.returns: list[str] = []  # of functions around
        self.statement = (1, 1)
        self.block(ast.parse(source).body)

    def span(self, node: Any) -> tuple[int, int]:
        """Where a node starts and ends, in bytes."""
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def words(self, node: ast.AST) -> str:
        return self.source[slice(*self.span(node))].decode()

    def add(self, operator: str, node: Any, span: tuple[int, int], text: str) -> None:
        """A candidate that puts `text` in place of some bytes of a node."""
        start, end = span
        text += "\n" * (self.source[start:end].count(b"\n") - text.count("\n"))
        rows = (self.source[:start] + text.encode() + self.source[end:]).decode().split("\n")
        line = next(i for i, (old, new) in enumerate(zip(self.rows, rows, strict=True)) if old != new)
        before, after = (" ".join(every[line].split()) for every in (self.rows, rows))
        function, lines = ".".join(self.names), (node.lineno, node.end_lineno)
        key = f"{self.seed}|{function}|{before}|{operator}|{after}"
        self.seen[key] += 1
        id, imported = hashlib.sha1(f"{key}|{self.seen[key]}".encode()).hexdigest()[:12], not self.returns
        where = self.area, self.file, function, operator, line + 1, lines, self.statement, imported
        self.found.append(Mutant(id, *where, before, after, start, end, text))

    def remove(self, node: ast.stmt) -> None:
        self.add("statement", node, self.span(node), "pass")

    def negate(self, node: ast.expr) -> None:
        """The opposite condition, unless the swaps of comparisons and of `not` make it already."""
        if not (isinstance(node, ast.UnaryOp) or (isinstance(node, ast.Compare) and len(node.ops) == 1)):
            self.add("condition", node, self.span(node), f"not ({self.words(node)})")

    def swap(self, operator: str, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Another operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        between = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self.source[start:end])
        found = re.search(re.escape(old.encode()).replace(rb"\ ", rb"\s+"), between)
        if found:
            self.add(operator, node, (start + found.start(), start + found.end()), new)

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            around, body = self.statement, getattr(statement, "body", None)
            last = body[0].lineno - 1 if body else statement.end_lineno or 0
            self.statement = statement.lineno, max(last, statement.lineno)
            self.take(statement)
            self.statement = around

    def take(self, node: ast.stmt) -> None:
        """What can be done to a statement and to its parts."""
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return
            case ast.Assert() | ast.Expr(value=ast.Constant()) | ast.FunctionDef(name="__repr__"):
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.names.append(node.name)
                self.parts(node.args)
                self.returns.append(ast.unparse(node.returns) if node.returns else "")
                self.block(node.body)
                self.returns.pop()
                self.names.pop()
                return
            case ast.ClassDef():
                self.names.append(node.name)
                self.block(node.body)
                self.names.pop()
                return
            case ast.Raise():  # nothing in its message
                self.remove(node)
                return
            case ast.Expr(value=ast.Call()):
                if LOGGING.match(self.words(node)):
                    return
                if not self.words(node).startswith("super().__init__"):
                    self.remove(node)
            case ast.AugAssign():
                old = OPERATORS.get(type(node.op), "")
                self.remove(node)
                if old in ARITHMETIC and not isinstance(node.value, ast.List | ast.JoinedStr | ast.ListComp):
                    self.swap("arithmetic", node, node.target, node.value, f"{old}=", f"{ARITHMETIC[old]}=")
            case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                flat = [part for target in targets for part in getattr(target, "elts", [target])]
                if all(isinstance(part, ast.Attribute | ast.Subscript) for part in flat):
                    self.remove(node)
                if isinstance(node, ast.AnnAssign):
                    self.expression(node.value)
                    return
            case ast.Return(value=ast.expr() as value) if self.returns and not isinstance(value, ast.Constant):
                if self.returns[-1] == "bool":
                    self.negate(value)
                elif self.returns[-1].endswith("| None"):
                    self.add("return", value, self.span(value), "None")
        self.parts(node)

    def parts(self, node: Any) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
            elif isinstance(child, ast.stmt):
                self.block([child])
            elif not (isinstance(child, ast.keyword) and child.arg == "strict") and not isinstance(child, ast.arg):
                self.parts(child)  # `strict` of zip asks for what holds anyway; ast.arg is a name and its annotation
        for test in getattr(node, "ifs", [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else []):
            self.negate(test)

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.JoinedStr():  # texts; also, before Python 3.12 nothing in them says where it is
                return
            case ast.Call(func=ast.Name(id="cast" | "isinstance" | "getattr" | "TypeVar")):
                return
            case ast.Constant(value=bool()):
                self.add("constant", node, self.span(node), str(not node.value))
            case ast.Constant(value=0 | 1) if isinstance(node.value, int):
                self.add("constant", node, self.span(node), str(1 - node.value))
            case ast.Constant(value=int() | float()):
                self.add("constant", node, self.span(node), repr(node.value + 1))
            case ast.BinOp() if not _textual(node):
                old = OPERATORS.get(type(node.op), "")
                if old in ARITHMETIC:
                    self.swap("arithmetic", node, node.left, node.right, old, ARITHMETIC[old])
            case ast.UnaryOp():
                self.add("unary", node, self.span(node), f"({self.words(node.operand)})")
            case ast.BoolOp():
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    self.swap("boolean", node, left, right, old, new)
            case ast.Compare():
                for left, kind, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                    for new in COMPARISONS[OPERATORS[type(kind)]]:
                        self.swap("comparison", node, left, right, OPERATORS[type(kind)], new)
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                self.add("call", node, self.span(node.func), BUILTINS[name])
            case ast.Call(func=ast.Name(id="sorted"), args=[_], keywords=[]):
                self.add("call", node, self.span(node.func), "list")
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
                end = self.span(node.func)[1]
                self.add("call", node, (end - len(name), end), METHODS[name])
        self.parts(node)


def _textual(node: ast.BinOp) -> bool:
    """Whether it joins texts, lists, paths or types, where another operator could only be an error."""
    for side in node.left, node.right:
        if isinstance(side, ast.JoinedStr | ast.List | ast.ListComp | ast.Dict | ast.Tuple):
            return True
        if isinstance(side, ast.Constant) and isinstance(side.value, str | None):
            return True
        if isinstance(node.op, ast.BitOr) and isinstance(side, ast.Name) and re.match("[A-Z].*[a-z]", side.id):
            return True
    return False


def draw(root: Path, areas: dict[str, Any], seed: int, number: int) -> list[Mutant]:
    """So many mutants per area, which take turns."""
    drawn: list[tuple[int, str, Mutant]] = []
    for area, globs in areas.items():
        paths: set[Path] = set()
        for pattern in globs["code"]:
            found = {path for path in root.glob(re.sub(r"\*\*$", "**/*.py", pattern)) if path.is_file()}
            if not found:
                print(f"{area}: no file matches {pattern}", file=sys.stderr)
            paths |= found
        every = [m for path in paths for m in Finder(path.read_bytes(), area, str(path.relative_to(root)), seed).found]
        taken: set[tuple[str, int]] = set()
        for mutant in sorted(every, key=lambda mutant: (mutant.id, mutant.file)):
            if len(taken) < number and (mutant.file, mutant.line) not in taken:
                drawn.append((len(taken), area, mutant))
                taken.add((mutant.file, mutant.line))
    return [mutant for *_, mutant in sorted(drawn, key=lambda one: one[:2])]
