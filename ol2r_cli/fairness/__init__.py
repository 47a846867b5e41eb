"""Fairness constraints: from a proposed order to the order that is served. Imports `interfaces`, `config`, `tensor`."""
