"""Figures and tables of the papers by name, from recipes. Imports `sweep`, `report` and what they import."""
