"""Tables over many runs: read from their directories, grouped by settings, chosen by validation, compared in pairs."""

from ol2r_cli.report.loading import load

__all__ = ["load"]
