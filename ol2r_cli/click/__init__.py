"""The simulated users: who clicks what, and when they stop reading."""
