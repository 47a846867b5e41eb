"""Measures: what a run writes about its rounds and its deployed ranker. A file is a choice of the group `measure`.

Imports `interfaces`, `columns`, `config`, `metrics` and `tensor`.
"""
