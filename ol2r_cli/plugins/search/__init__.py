"""`ol2r search`: Optuna draws settings, each trial is an ordinary run. Imports `run` and what it imports."""
