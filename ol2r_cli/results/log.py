"""`log.txt`: what happened in a run, with times, and the traceback of a failure."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ol2r_cli.results.directory import RunDirectory

LOGGER = "ol2r_cli"  # the logger of the package


@contextmanager
def log_file(directory: RunDirectory) -> Iterator[None]:
    """Append the package's log to log.txt for a while."""
    logger, handler = logging.getLogger(LOGGER), logging.FileHandler(directory / "log.txt")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()
