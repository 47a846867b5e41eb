"""Explorations: from a ranker's prediction to a proposed order. Imports interfaces, config, learning and tensor."""
