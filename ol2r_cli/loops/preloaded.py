"""What the process imports from which the jobs of a sweep are forked: a compiled loop, since the first one takes half a
second."""

import numpy as np

from ol2r_cli import loops

loops.random_numbers.uniform_of_rounds(np.zeros(1, np.int64), 0, 0, 1, 4)
