"""Joining two spaces by one rotation, with pairs or with none, and reading it out. NumPy and SciPy only."""
