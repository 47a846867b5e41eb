"""Names that have moved."""

from ol2r_cli.run.code import checkout, version_line, versions  # noqa: F401
from ol2r_cli.run.run import read_manifest  # noqa: F401
from ol2r_cli.run.store import SETTLED, Manifest, peak_memory_gb  # noqa: F401
