"""What the arrays of the oracles hold."""

from __future__ import annotations

import numpy as np

from ol2r_cli.tensor.shapes import Bool, Float

Vector = Float[np.ndarray, "F"]
Parameters = Float[np.ndarray, "P"]
Documents = Float[np.ndarray, "D F"]  # a row for each
Matrix = Float[np.ndarray, "F F"]
Relation = Bool[np.ndarray, "D D"]  # of documents
