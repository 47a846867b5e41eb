"""Components of one's own, words that a shell completes, and speed."""
