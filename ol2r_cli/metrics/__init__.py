"""Metrics of what was shown, exposure of groups, and offline evaluation. The list is always the last axis.

Imports `interfaces`, `columns`, `config`, `dataset` and `tensor`.
"""
