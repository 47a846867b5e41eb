"""What a run keeps besides its traces: interactions, blocks of some rounds, the cosine to an offline fit."""
