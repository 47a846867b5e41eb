"""Each kind of figure: a function of its name, which `drawing.draw` calls."""
