"""What rankers are made of: models, losses, solvers, history. Never chosen directly."""
