"""Datasets: where documents come from, and how they are parsed, normalised, cached and served.

Imports `interfaces`, `tensor`, `config` and `formatting`.
"""
