"""Run directories: manifest, traces, checkpoints."""
