"""Finished runs in the formats of other tools: values by query, TREC files, TensorBoard."""
