"""Tables over many runs: read from their directories, grouped by settings, chosen by validation."""
