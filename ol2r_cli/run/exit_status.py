"""Exit codes of `ol2r`. Scripts depend on them."""

from __future__ import annotations

DONE = 0
FAILED = 1  # a run failed
BAD_CONFIGURATION = 2  # the configuration or the data are bad; nothing was run
JOBS_FAILED = 3  # some jobs of a sweep failed
INTERRUPTED = 130  # stopped by Ctrl-C or SIGTERM; completed rounds are kept
