"""Reports on finished runs: frames, tables, paired comparisons, figures, a page. Imports run/ and layers below it."""

from ol2r_cli.report.frames import load

__all__ = ["load"]
