"""ol2r from Python: what `api.py` needs of a script or a notebook."""
