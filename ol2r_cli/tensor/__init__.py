"""Random streams, shape annotations, gathers and device synchronisation. Imports nothing else of ol2r_cli."""
