"""Figures of finished runs. matplotlib is optional (`ol2r[plots]`): `drawing.draw` imports it with the first figure."""

ENDINGS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}  # of files of figures, with their formats
