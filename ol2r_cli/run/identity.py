"""What a run is: its id, which is a hash of everything that decides the results, the directory that is named after it,
and the program that it is played with.

The same experiment has the same directory, alone and in a sweep. Every setting that could change a result changes the
directory. Settings that only decide where and how fast a run is computed do not.

The hashes of the user's own code are part of the id: an edited ranker is another run. Own code is every class that the
settings name and ol2r does not define, with what its file imports from the same folder or package, one by the other; of
an installed package, files of its own only. Of a class of a notebook or a script, it is the class and what of its
module it refers to. Hashes are of syntax trees: comments, docstrings and formatting change nothing. Those of compiled
modules are of their bytes.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import linecache
import os
import pkgutil
import platform
import subprocess
import symtable
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from ol2r_cli import __version__
from ol2r_cli.source import code_hash

RESULTS_VERSION = 6  # raised by every change that alters results, with old and new numbers in CHANGELOG.md

# Settings without effect on results, by their dotted name. All others are hashed: a new setting cannot be forgotten.
NOT_HASHED = frozenset(
    {
        *("force", "note", "output_dir", "data_dir", "cache_dir", "ranker.cache_dir", "launcher"),
        *("device._target_", "device.name", "device.threads"),
        *("checkpoint_every", "checkpoint_rounds", "keep_checkpoint"),
    }
)
# Settings for which something else is hashed: for the dataset its fingerprint, since the same data in another folder
# are the same data, and for the list of measures the settings of each, in `measure`.
HASHED_OTHERWISE = frozenset({"dataset", "measures"})


def identity(settings: Mapping[str, Any], fingerprint: str, code: Mapping[str, str]) -> str:
    """Return the run id: the first 10 hex digits of a sha256 over the canonical JSON of all that decides the results.

    `settings` is the resolved configuration in plain containers, of which `NOT_HASHED` and `HASHED_OTHERWISE` are left
    out; `fingerprint` is that of the dataset; `code` has the hashes of the user's own code (`own_code`), and is mostly
    empty. The order of keys does not matter, and 1 and 1.0 are the same. TypeError for a setting that is not a plain
    value.
    """
    content = {
        "settings": _decisive(settings),
        "dataset": fingerprint,
        "code": dict(code),
        "results_version": RESULTS_VERSION,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _decisive(value: Any, name: str = "") -> Any:
    """Return the part of the settings, or of the setting `name`, that decides the results, as plain values."""
    if isinstance(value, Mapping):
        by_name = {f"{name}.{key}" if name else str(key): key for key in value}
        decisive = [full for full in by_name if full not in NOT_HASHED | HASHED_OTHERWISE]
        return {str(by_name[full]): _decisive(value[by_name[full]], full) for full in decisive}
    if isinstance(value, list | tuple):
        return [_decisive(item, name) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} must be a plain value (resolve the configuration first), got {type(value).__name__}")


def _is_of_ol2r(node: Mapping[Any, Any]) -> bool:
    """Return whether settings are those of a class of ol2r, or of no class."""
    return str(node.get("_target_", "ol2r_cli.")).startswith("ol2r_cli.")


def run_path(output_dir: str | Path, choices: Mapping[str, str], id: str) -> Path:
    """`<output_dir>/<dataset>/<ranker>-<click>[-<fairness>][-<intent>]-<id>`.

    `choices` maps the groups dataset, ranker, click, fairness and intent to their choices; the last two may be absent.
    """
    parts = [choices["ranker"], choices["click"]]
    parts += [choices[group] for group in ("fairness", "intent") if choices.get(group, "none") != "none"]
    dataset, run = (name.replace("/", "_") for name in (choices["dataset"], "-".join([*parts, id])))
    return Path(os.path.expanduser(output_dir)) / dataset / run


class _File(NamedTuple):
    """A source file: the folder from which it is imported, and its path below that folder."""

    root: Path
    name: str

    @property
    def package(self) -> str:
        """The outermost package, or the module."""
        return self.name.partition("/")[0].partition(".")[0]

    @property
    def is_installed(self) -> bool:
        return not {"site-packages", "dist-packages"}.isdisjoint(self.root.parts)


def own_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of the own code of each part of resolved settings (`ranker`, `ranker.model`) that has some.

    ValueError where source is not available, and where a file was changed after this process had imported it.
    """
    code = dict[str, str]()

    def visit(part: str, node: Any) -> None:
        if isinstance(node, Mapping) and not _is_of_ol2r(node):
            target = str(node["_target_"])
            named = pkgutil.resolve_name(target)
            if not (inspect.isclass(named) or inspect.isfunction(named)):  # an object does not know its module
                named = pkgutil.resolve_name(target.rpartition(".")[0])
            if hash := code_hash_of(named):
                code[part] = hash
        items: Any = enumerate(node) if isinstance(node, list | tuple) else getattr(node, "items", tuple)()
        for name, inner in items:
            visit(f"{part}.{name}" if part else str(name), inner)

    visit("", {name: value for name, value in settings.items() if name != "launcher"})
    return code


def check_unchanged(path: Path, manifest: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise ValueError if own code that these settings of a run name has changed since: other numbers would follow."""
    then = manifest.get("code") or {}
    for part, hash in own_code(settings).items():
        if then.get(part, hash) != hash:
            raise ValueError(f"{path} is of another version of the code of {part}: put it back, or run it again")


def code_hash_of(cls: Any) -> str:
    """Return the hash of the own code of a class, a function or a module; empty for those of ol2r and of Python."""
    package = _module_name(cls).partition(".")[0]
    if package == "ol2r_cli" or package in sys.stdlib_module_names:
        return ""
    needed, hashes = [cls, *getattr(cls, "__mro__", ())], set[tuple[str, str]]()
    if _file_of(cls) is None:
        hashes, elsewhere = _definitions(cls)
        needed += elsewhere
    files = [file for file in map(_file_of, needed) if file and (not file.is_installed or file.package == package)]
    visited: set[_File] = set()
    while files:
        if (file := files.pop()) not in visited and file.package != "ol2r_cli":
            visited.add(file)
            status = file.root.joinpath(file.name).stat()
            hash, imports = _read(file, status.st_mtime_ns, status.st_size)
            _check_imported(file, hash)
            hashes.add((file.name, hash))
            files += _imported_files(file, imports)
    return _digest(json.dumps(sorted(hashes)).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _module_name(cls: Any) -> str:
    return str(cls.__name__ if inspect.ismodule(cls) else getattr(cls, "__module__", None) or "")


def _file_of(cls: Any) -> _File | None:
    """The file that defines a class, a function or a module; None in Python itself, and in a notebook or a script."""
    name = _module_name(cls)
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name == "__main__" or name.partition(".")[0] in sys.stdlib_module_names:
        return None
    path = Path(os.path.abspath(file))
    below = name.replace(".", "/") + ("/__init__.py" if path.stem == "__init__" else ".py")
    # A module that was loaded from a path may have any name.
    root = Path(str(path).removesuffix(below)) if str(path).endswith(f"/{below}") else path.parent
    return _File(root, path.relative_to(root).as_posix())


@cache
def _read(file: _File, *stamp: int) -> tuple[str, list[ast.Import | ast.ImportFrom]]:
    """The hash of a file, computed once until it changes, and the imports in it."""
    content = (file.root / file.name).read_bytes()
    if file.name.endswith(tuple(EXTENSION_SUFFIXES)):
        return _digest(content), []
    tree = _parse(content, file.name)
    return _digest_of_tree(tree), [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _parse(content: bytes | str, name: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escape sequences, which the import has told already
            return ast.parse(content)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{name} must be Python source, since its hash is part of the run id, got: {error}") from None


def _digest_of_tree(tree: ast.AST) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            is_text = (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in node.body)
            node.body = [line for line, without_effect in zip(node.body, is_text, strict=True) if not without_effect]
    return _digest(ast.unparse(tree).encode())


def _imported_files(file: _File, imports: Sequence[ast.Import | ast.ImportFrom]) -> Iterator[_File]:
    """The files of the same folder or package that a file imports, where Python looks for them."""
    folders = file.name.split("/")[:-1]
    for node in imports:
        if isinstance(node, ast.ImportFrom):
            above = folders[: len(folders) - node.level + 1] if node.level else []
            module = [*above, *(node.module or "").split(".")] if node.module else above
            modules = [[[*module, alias.name], module] for alias in node.names]
        else:
            names = [alias.name.split(".") for alias in node.names]
            modules = [[parts[:end]] for parts in names for end in range(1, len(parts) + 1)]
        for alternatives in modules:
            endings = ("/__init__.py", *EXTENSION_SUFFIXES, ".py")
            paths = ["/".join(parts) + ending for parts in alternatives if parts for ending in endings]
            path = next((path for path in paths if os.path.isfile(file.root / path)), None)
            if path and ((found := _File(file.root, path)).package == file.package or not file.is_installed):
                yield found


_imported: dict[_File, tuple[Any, str]] = {}  # the specification of a module, None before its import, and its hash then


def _check_imported(file: _File, hash: str) -> None:
    """ValueError if a file was changed after its import, so that other code would run than is hashed; not after a
    reload, which gives a module another specification."""
    name = file.name.partition(".")[0].removesuffix("/__init__").replace("/", ".")
    spec = getattr(sys.modules.get(name), "__spec__", None)
    spec = spec if spec is not None and spec.origin == str(file.root / file.name) else None
    before, hash_before = _imported.get(file, (None, hash))
    expected = hash_before if spec is not None and (before is None or before is spec) else hash
    _imported[file] = spec, expected
    if hash != expected:
        what = f"{file.root / file.name} must be as it was when it was imported, got changed code"
        raise ValueError(f"{what}: restart Python, or reload the module {name}")


def _definitions(cls: Any) -> tuple[set[tuple[str, str]], list[Any]]:
    """The hashes of a class without a file and of what of its module it refers to, and what it refers to elsewhere."""
    module, hashes, elsewhere = _module_name(cls), dict[str, str](), []
    scope, waiting = vars(sys.modules[module]), {cls.__qualname__}
    while waiting:
        name = waiting.pop()
        value = inspect.unwrap(each) if callable(each := scope.get(name, cls)) else each  # of @cache and the like
        if inspect.ismodule(value) or (callable(value) and getattr(value, "__module__", "") != module):
            elsewhere.append(value)
        elif inspect.isclass(value) or inspect.isfunction(value):
            statement = _statement(value, name)
            hashes[name] = _digest_of_tree(statement)
            table = symtable.symtable(ast.unparse(statement), name, "exec")
            waiting |= (_globals(table) & scope.keys()) - hashes.keys()
        else:
            try:
                hashes[name] = _digest(json.dumps(value, sort_keys=True, default=_text).encode())
            except TypeError:
                reason = f"its code refers to {name}, a {type(value).__name__}, whose value has no hash"
                raise ValueError(_in_a_file(cls.__qualname__, reason)) from None
    return {*hashes.items()}, elsewhere


def _statement(defined: Any, name: str) -> ast.AST:
    """The statement that defines a class or function, in the cell that was executed for it."""
    members = vars(defined).values() if inspect.isclass(defined) else [defined]
    methods = [getattr(each, "fget", None) or getattr(each, "__func__", each) for each in members]
    codes = [getattr(inspect.unwrap(each), "__code__", None) for each in methods if inspect.isfunction(each)]
    files = [code.co_filename for code in codes if code and code.co_qualname.startswith(name)]
    # A class without a method of its own: in the cell that was executed last and has the class.
    cells = [file for file in reversed(linecache.cache) if file.startswith("<") or "ipykernel" in file]
    for file in files or cells:
        for statement in reversed(_parse("".join(linecache.getlines(file)), file).body):
            if getattr(statement, "name", None) == name:
                return statement
    raise ValueError(_in_a_file(name, "its source is not available"))


def _globals(table: symtable.SymbolTable) -> set[str]:
    """The names of its module that a statement refers to, wherever it does."""
    symbols = table.get_symbols()
    names = {
        each.get_name()
        for each in symbols
        if each.is_referenced() and (each.is_global() or table.get_type() == "module")
    }
    return names.union(*map(_globals, table.get_children()))


def _text(value: Any) -> str:
    """The text of a value, such as torch.float64 or Annotated[float, ..], whose type says all in it."""
    kind = f"{type(value).__module__}.{type(value).__name__}"
    by_text = kind in ("torch.dtype", "torch.device", "types.UnionType", "types.GenericAlias")
    if (by_text or kind.startswith("typing.")) and " at 0x" not in (text := repr(value)):
        return text
    raise TypeError


def _in_a_file(name: str, reason: str) -> str:
    what = f"{name} must be in a file, since its code is part of the run id, and {reason}"
    return f"{what}: put the class in a file, and import it"


_version = cache(version)


def versions(packages: Sequence[str] = ()) -> dict[str, str | None]:
    """The versions of the packages that decide numbers, from their metadata, so that none has to be imported.

    `packages` are more than those of every run. A package that is not installed has None.
    `ol2r_code` is the hash of all files of ol2r.
    """
    versions: dict[str, str | None] = {"ol2r": __version__, "ol2r_code": code_hash()[:12]}
    versions["python"] = platform.python_version()
    for package in ("torch", "numpy", "numba", *packages):
        versions[package] = None
        with suppress(PackageNotFoundError):
            versions[package] = _version(package)
    return versions


def version_line() -> str:
    """The version, with the commit where the package is a checkout: `0.2.0.dev0 (commit 0123abc, modified)`."""
    git = checkout()
    return __version__ + (f" (commit {git['commit'][:7]}{', modified' * git['dirty']})" if git else "")


def checkout(root: Path | None = None) -> dict[str, Any] | None:
    """The commit and the dirty flag of the git checkout that contains this package at its top level.

    None for an installed package, also if its environment is inside another project's repository.
    """
    root = Path(__file__).parents[2] if root is None else root
    if not (root / ".git").exists():
        return None
    describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(describe, capture_output=True, text=True, timeout=10, check=True, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    commit, _, dirty = answer.stdout.strip().partition("-")
    return {"commit": commit, "dirty": bool(dirty)}
