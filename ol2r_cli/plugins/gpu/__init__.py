"""Rounds on a GPU, and those of several runs in one process."""
