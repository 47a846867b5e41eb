"""`report.html`: a template, its style and script, and the modules that fill it."""
