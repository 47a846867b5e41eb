"""Finished runs in the forms of other tools: values by query, TREC files, experiment trackers."""
