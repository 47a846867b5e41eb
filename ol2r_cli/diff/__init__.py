"""Two runs side by side: what was asked for, what came out, and where their rounds part."""
