"""Pure functions of what was shown; the list is always the last axis."""
