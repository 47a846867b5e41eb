"""Overrides as text: `NAME=VALUE` words of a command line, and values in the grammar of Hydra."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any

ALIASES = {"click": {"per": "perfect", "nav": "navigational", "inf": "informational"}}

_UNQUOTED = re.compile(r"[A-Za-z0-9_./:@%+-]+")
_NOT_TEXT = re.compile(r"(?i)null|none|true|false|[+-]?(\d.*|\..*|inf|nan)")  # read as another type, or possibly so


def name_of(word: str) -> str:
    """Return the name in `NAME=VALUE`, `+NAME=VALUE`, `++NAME=VALUE` or `~NAME`."""
    return word.lstrip("+~").partition("=")[0]


def translate(overrides: Iterable[str]) -> list[str]:
    """Return the overrides with short names replaced (`click=per,nav`), so that run ids and folders agree.

    The text of `note=..` gets quotes where it needs them.
    """
    translated = []
    for override in overrides:
        group, equals, values = override.partition("=")
        if group == "note" and not re.fullmatch(r"'.*'|\".*\"", values):
            values = _quoted(values)
        for short, name in ALIASES.get(group, {}).items():
            values = re.sub(rf"\b{short}\b", name, values)
        translated.append(f"{group}{equals}{values}")
    return translated


def full_names(overrides: Iterable[str], choices: Mapping[str, Collection[str]]) -> list[str]:
    """Return overrides with the whole names of choices, for their short names and unique beginnings: `click=inf`.

    `choices` are the names in each group. A name that Hydra would read as a number or as a truth value gets quotes.
    """
    full = []
    for word in translate(overrides):
        group, _, values = word.partition("=")
        known = choices.get(group.lstrip("+"))
        if known and re.fullmatch(r"[\w.+,-]+", values):  # neither a list nor a call, which Hydra reads
            word = f"{group}={','.join(_full_name(value, known) for value in values.split(','))}"
        full.append(word)
    return full


def _full_name(typed: str, names: Collection[str]) -> str:
    """Return the name that is typed, also by its beginning, as Hydra reads it as text; any other word as it is."""
    if typed in ("", "null"):
        return typed
    having = [typed] if typed in names else [name for name in names if name.startswith(typed)]
    if len(having) != 1:
        return typed
    return "none" if having == ["none"] else as_typed(having[0])  # Hydra reads none as text, but not 1e3


def split_search_path(words: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Return the words without those that name folders with the user's own choices, and these folders.

    `--config-dir DIR` (or `-cd DIR`, `--config-dir=DIR`) and `hydra.searchpath=[file://DIR,pkg://PACKAGE]` name them.
    ValueError for a package that cannot be imported.
    """
    rest: list[str] = []
    folders: list[Path] = []
    words_left = iter(words)
    for word in words_left:
        name, _, value = word.lstrip("+").partition("=")
        if word in ("--config-dir", "-cd"):
            folders.append(_folder(next(words_left, ".")))
        elif name == "--config-dir":
            folders.append(_folder(value))
        elif name == "hydra.searchpath":
            folders += [_folder(entry.strip(" '\"")) for entry in value.strip("[] ").split(",") if entry]
        else:
            rest.append(word)
    return rest, folders


def _folder(entry: str) -> Path:
    if entry.startswith("pkg://"):
        folder = package_folder(entry.removeprefix("pkg://").replace("/", "."))
        if folder is None:
            raise ValueError(f"hydra.searchpath must name packages that can be found, got {entry}")
        return folder
    return Path(entry.removeprefix("file://")).expanduser().resolve()


def package_folder(name: str) -> Path | None:
    """Return the folder of a package, which is not imported, as this could take seconds; None where there is none."""
    package, *below = name.split(".")
    spec = find_spec(package) if package else None
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location, *below)
        if folder.is_dir():
            return folder
    return None


def split_launcher(overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the overrides that describe a job, short names replaced, and those that say where jobs run."""
    job: list[str] = []
    launcher: list[str] = []
    for word in translate(overrides):
        name = name_of(word)
        (launcher if name == "launcher" or name.startswith("launcher.") else job).append(word)
    return job, launcher


def as_typed(value: Any, name: str = "a setting") -> str:
    """Return a value as Hydra reads it back, without blanks where possible: true, 1e-05, [1,2], 'two words'.

    Numbers and arrays of numpy and torch are written as numbers and lists. ValueError, which begins with `name`, for a
    value that has no form on the command line.
    """
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str | PathLike):
        return _quoted(fspath(value))
    if isinstance(value, Real):
        return str(int(value)) if isinstance(value, Integral) else repr(float(value))
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{as_typed(item, name)}" for key, item in value.items()) + "}"
    if hasattr(value, "tolist"):
        return as_typed(value.tolist(), name)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return "[" + ",".join(as_typed(item, name) for item in value) + "]"
    raise ValueError(f"{name} must be a number, text, true, false, null, a list or a mapping, got {value!r}")


def _quoted(text: str) -> str:
    """Return text in quotes where Hydra could read it as something else; a backslash is doubled only before a quote."""
    if _UNQUOTED.fullmatch(text) and not _NOT_TEXT.fullmatch(text):
        return text
    return "'" + re.sub(r"(\\*)('|$)", lambda end: 2 * end[1] + (r"\'" if end[2] else ""), text) + "'"


def names_of(words: Iterable[str]) -> list[str]:
    """Return the names of the choices and settings that words of a command line have, each once."""
    settings = [word.lstrip("+~") for word in words if "=" in word and not word.startswith("-")]
    return list(dict.fromkeys(word.partition("=")[0] for word in settings))


def replaced(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return overrides without effect, each with the one behind it that has another value."""
    settings = [word.lstrip("+") for word in words if not word.startswith("~")]
    last = {word.partition("=")[0]: word for word in settings}
    pairs = [(word, last[word.partition("=")[0]]) for word in settings]
    return [(word, deciding) for word, deciding in pairs if word != deciding]


def escaped(text: str) -> str:
    """Return text as OmegaConf reads it back, which takes `${x}` for the value of x and `\\${x}` for text."""
    return re.sub(r"(\\*)\$\{", lambda found: 2 * found[1] + r"\${", text)


def split_words(words: Iterable[str | PathLike[str]]) -> tuple[list[Path], list[str]]:
    """Return folders, and words that choose among the runs below them: those with `=` that are no file or folder."""
    texts = [fspath(word) for word in words]
    chosen = [text for text in texts if "=" in text and not Path(text).exists()]
    return [Path(text) for text in texts if text not in chosen], chosen


OF_PYTHON = "ol2r-passed-"  # how folders begin whose choices are classes that were passed from Python


def command_of(words: Sequence[str], command: str = "run") -> str:
    """Return the command of overrides: of a shell, or the call in Python if there are such classes among them."""
    rest, folders = split_search_path(words)
    lasting = [f"--config-dir={path}" for path in folders if not path.name.startswith(OF_PYTHON)]
    if len(lasting) == len(folders):
        return f"ol2r {command} {shlex.join(words)}".strip()
    return f"ol2r.run({', '.join([*rest, *lasting])})"
