"""What the process imports from which the jobs of a sweep are forked: a compiled loop, since the first one takes half a
second."""

import numpy as np

from ol2r_cli import loops

loops.random_numbers.normal(np.zeros(4))
