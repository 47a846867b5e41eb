"""A report as one page of HTML."""
