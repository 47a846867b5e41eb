"""Names that have moved."""

from ol2r_cli.run.run import STATES, Run, find_run, find_runs, named_runs  # noqa: F401

RunState, read_state = Run, Run.read
