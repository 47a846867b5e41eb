"""Every figure and table of the papers by name: a recipe says what to run, choose, draw and print."""
