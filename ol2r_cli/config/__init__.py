"""From what is typed to a configuration, and from a configuration to objects. Imports nothing but `formatting`."""
