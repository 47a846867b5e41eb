"""One run: builds it from a configuration, plays and resumes it, and writes its directory.

Imports `simulation` and everything below it; `launcher`, `sweep` and everything above import this package.
"""
