"""The documents: where they come from, how they are normalised, cached and served."""
