"""Names that have moved."""

from ol2r_cli.run import CHECKPOINT, FILES, INTERACTIONS, LOCK, MANIFEST, SUMMARY  # noqa: F401
from ol2r_cli.run.store import (  # noqa: F401
    LOGGER,
    DirectoryLost,
    RunDirectory,
    RunningElsewhere,
    as_json,
    create_root,
    log_file,
)
