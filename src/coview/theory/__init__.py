"""Finite worlds: the theorem, its bound, and what good views buy (NumPy and SciPy only)."""
