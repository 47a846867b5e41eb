"""One run: builds it from a configuration, plays and resumes it, and writes and reads its directory.

Imports `simulation` and everything below it; `launcher`, `sweep` and everything above import this package.

The directory of a run has the files below. `store.py` is the only module that writes them, `run.py` the only one that
reads them. The results, by their sha256, are recorded in `run.json` when the run finishes, and until then the parts of
its tables in `checkpoint.pt`. A file is read only as it was recorded.

Here are the names of its files, how `ol2r` ends (exit codes, on which scripts depend), and what Ctrl-C and SIGTERM do.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MANIFEST, SUMMARY, CHECKPOINT, RANKER = "run.json", "summary.json", "checkpoint.pt", "ranker.pt"
CONFIG, LOG, LOCK = "config.yaml", "log.txt", ".lock"
SWEEPS = ".sweep"  # the folder with logs of sweeps, beside those of runs
INTERACTIONS = "interactions.parquet"
VALIDATION_CLICKS = "validation_clicks.parquet"
# Of the first four there are parts in an unfinished run: `trace.part00001.parquet` ..
TABLES = ("trace.parquet", "evaluation.parquet", "blocks.parquet", INTERACTIONS, VALIDATION_CLICKS)
RESULTS = (*TABLES, SUMMARY, RANKER, CONFIG)
REMOVABLE = (INTERACTIONS,)  # what a finished run may lack, because somebody has removed it
# In the order in which they are removed: without its manifest a directory is not a run any more.
FILES = (MANIFEST, SUMMARY, CHECKPOINT, RANKER, *TABLES, CONFIG, LOG)

DONE = 0
FAILED = 1  # a run failed
BAD_CONFIGURATION = 2  # the configuration or the data are bad; nothing was run
JOBS_FAILED = 3  # some jobs of a sweep failed
INTERRUPTED = 130  # stopped by Ctrl-C or SIGTERM; completed rounds are kept
UNREAD = 141  # the reader of stdout has gone, as in `ol2r list | head`: that of a program which SIGPIPE ends


@contextmanager
def exits_when_interrupted() -> Iterator[None]:
    """Let Ctrl-C end the process at once with code 130. For imports: KeyboardInterrupt in one can become another error,
    and in torch's it aborts the process."""

    def end(*_: object) -> None:
        with suppress(OSError):  # stderr is closed
            os.write(2, b"interrupted\n")
        os._exit(INTERRUPTED)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Yield a list to which the first SIGINT or SIGTERM is appended; a second one raises KeyboardInterrupt at once.

    The list stays empty outside of the main thread, because Python delivers signals only there.
    """
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request(number: int, _: object) -> None:
        if stop:
            raise KeyboardInterrupt
        stop.append(number)

    previous = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
