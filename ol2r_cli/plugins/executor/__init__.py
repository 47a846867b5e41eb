"""Jobs of a sweep on the workers of Dask, Parsl, or any executor."""
