"""Papers and benchmark from recipes: their runs, tables and pages. Imports `report`, `sweep` and what they import."""
