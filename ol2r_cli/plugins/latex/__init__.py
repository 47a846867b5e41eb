"""Tables of LaTeX, and references as BibTeX."""
