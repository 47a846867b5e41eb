"""Where the jobs of a sweep run: in processes of this machine, or on a Slurm cluster. Imports `run`."""
