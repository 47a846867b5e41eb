"""Explainable recommendation from reviews: batch fits without rounds and clicks (dissertation, chapter 4)."""
