"""Warm starts, of a finished run or of labels."""
