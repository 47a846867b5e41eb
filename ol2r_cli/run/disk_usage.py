"""Names that have moved."""

from ol2r_cli.run.clean import *  # noqa: F403
