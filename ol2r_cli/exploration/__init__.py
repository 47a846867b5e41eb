"""Explorations: from a ranker's prediction to a proposed order. Imports `interfaces`, `config`, `learning`, `tensor`.

`blocks`, `order`, `divide_and_conquer` and `tangent_certainty` are shared; every other file is a choice.
"""
