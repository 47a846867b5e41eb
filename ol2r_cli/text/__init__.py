"""Text for people: numbers and names, tables, and terminals."""
