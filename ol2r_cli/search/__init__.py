"""`ol2r search`: settings drawn by Optuna, judged on the validation split, each trial an ordinary run."""
