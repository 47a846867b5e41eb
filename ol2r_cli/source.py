"""The source of ol2r: what this process has in memory, and whether the files have changed since.

Modules are imported when they are first used, so that a change of the files (git pull, pip install) would mix two
versions in one process. The hashes are those of the moment at which this module was imported, which
`cli.py` does before it imports a command, and processes that are forked inherit them. The user's own code is in
`run/own_code.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).parent


def is_shipped(module: str) -> bool:
    """Return whether a module, by its name, is one of ol2r."""
    return module.partition(".")[0] == "ol2r_cli"


class ChangedSource(ValueError):
    """The files of ol2r are not those of this process any more."""


def hashes() -> dict[str, str]:
    """Return the sha256 of every module of ol2r by its path below the package, as it is now; a few milliseconds.

    A file that cannot be read, as while it is replaced, is left out.
    """
    found, package = dict[str, str](), str(PACKAGE)
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        # As text: objects for paths would take a third of the time.
        below = folder[len(package) + 1 :].replace(os.sep, "/")
        for name in sorted(names):
            if name.endswith(".py") and name[0] != ".":
                with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                    found[f"{below}/{name}" if below else name] = hashlib.sha256(file.read()).hexdigest()
    return found


IN_MEMORY = hashes()


def code_hash(*packages: str) -> str:
    """Return the sha256 of the source of packages of ol2r, without any of the whole, as this process has it. Ends of
    names of files may be among them: `_loops.py`.

    What a process keeps on disk for others, such as arrays and machine code, is kept under this hash.
    """
    of_packages = {
        path: hash
        for path, hash in IN_MEMORY.items()
        if not packages or path.partition("/")[0] in packages or path.endswith(packages)
    }
    return hashlib.sha256(json.dumps(of_packages, sort_keys=True).encode()).hexdigest()


def is_changed(file: Path) -> bool:
    """Return whether a file of ol2r is another one than that which was hashed; False for a file of others."""
    if not file.is_relative_to(PACKAGE):
        return False
    try:
        hash = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return True
    return IN_MEMORY.get(file.relative_to(PACKAGE).as_posix()) != hash


def check_unchanged() -> None:
    """Raise ChangedSource if a file of ol2r was changed, added or removed since this process has begun.

    A file that is there and cannot be read, as on a network that is down, is no change: nor can it be imported.
    """
    now = hashes()
    differing = sorted(name for name in {*now, *IN_MEMORY} if now.get(name) != IN_MEMORY.get(name))
    changed = [name for name in differing if name in now or _is_removed(PACKAGE / name)]
    if changed:
        which = changed[0] + (f" and {len(changed) - 1} more" if len(changed) > 1 else "")
        what = f"ol2r was changed while this process ran ({which})"
        raise ChangedSource(f"{what}: type the same command again, or restart Python")


def _is_removed(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
