"""Components of rankers: models, losses, solvers and histories. Imports interfaces, dataset and metrics."""
