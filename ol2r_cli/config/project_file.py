"""`ol2r.yaml` in the working directory: the folders with a project's own choices, and defaults of a few settings.

choices: choices        # a folder, or a list of folders, relative to the file
output_dir: results     # instead of outputs, also for `ol2r status`, `report` and so on
data_dir: /data
launcher: {jobs: 4}     # settings of the launcher, or the name of one: slurm
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import nearest, one_line

PROJECT_FILE = "ol2r.yaml"
OUTPUTS = "outputs"  # output_dir in configs/run.yaml


@dataclass(frozen=True)
class ProjectFile:
    """The content of `ol2r.yaml`; empty where there is none.

    choices: folders, as the file names them. output_dir and data_dir: None where the file does not set them. launcher:
    the name of a choice, or settings of the launcher.
    """

    choices: tuple[Path, ...] = ()
    output_dir: str | None = None
    data_dir: str | None = None
    launcher: str | Mapping[str, Any] | None = None

    def overrides(self, typed: Iterable[str]) -> list[str]:
        """The settings as overrides that stand before the `typed` ones, which therefore decide.

        The launcher's settings are left out where a launcher is typed: another one need not have them.
        """
        places = {"output_dir": self.output_dir, "data_dir": self.data_dir}
        words = [f"{name}={as_typed(value)}" for name, value in places.items() if value is not None]
        if self.launcher is None or any(word.lstrip("+~").partition("=")[0] == "launcher" for word in typed):
            return words
        if isinstance(self.launcher, str):
            return [*words, f"launcher={as_typed(self.launcher)}"]
        return [*words, *(f"launcher.{name}={as_typed(value)}" for name, value in self.launcher.items())]


def read_project() -> ProjectFile:
    """The project file in the working directory; ValueError, of one line that names it, for a bad one."""
    path = Path(PROJECT_FILE)
    if not path.is_file():
        return ProjectFile()
    import yaml

    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{PROJECT_FILE} must be a YAML file that can be read: {one_line(error)}") from None
    known = [field.name for field in fields(ProjectFile)]
    if not isinstance(content, dict | None):
        raise ValueError(f"{PROJECT_FILE} must be lines `KEY: VALUE` with the keys {', '.join(known)}, got {content!r}")
    for key in content or {}:
        if key not in known:
            raise ValueError(
                f"{PROJECT_FILE} must have the keys {', '.join(known)}, got {key}{nearest(str(key), known)}"
            )
    return _checked(**(content or {}))


def _checked(choices: Any = None, output_dir: Any = None, data_dir: Any = None, launcher: Any = None) -> ProjectFile:
    listed = choices if isinstance(choices, list) else [] if choices is None else [choices]
    for folder in listed:
        if not isinstance(folder, str) or not folder:
            raise ValueError(f"choices in {PROJECT_FILE} must be a folder or a list of folders, got {choices!r}")
    for name, value in (("output_dir", output_dir), ("data_dir", data_dir)):
        if value is not None and (not isinstance(value, str) or not value or "${" in value):
            raise ValueError(f"{name} in {PROJECT_FILE} must be a folder, got {value!r}")
    if isinstance(launcher, Mapping):
        for name, value in launcher.items():
            as_typed(value, f"launcher.{name} in {PROJECT_FILE}")
    elif launcher is not None and (not isinstance(launcher, str) or not launcher):
        raise ValueError(f"launcher in {PROJECT_FILE} must be a launcher or its settings {{jobs: 4}}, got {launcher!r}")
    return ProjectFile(tuple(map(Path, listed)), output_dir, data_dir, launcher)


def default_output_dir() -> Path:
    """The folder of runs where none is typed; ValueError for a bad project file."""
    return Path(read_project().output_dir or OUTPUTS).expanduser()
