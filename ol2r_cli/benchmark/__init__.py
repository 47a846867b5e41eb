"""Expected results of every ranker: recipes, their runs, and published tables. Imports `reproduce` and `report`."""
