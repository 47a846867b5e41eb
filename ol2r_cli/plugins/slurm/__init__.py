"""Jobs of a sweep on a Slurm cluster."""
