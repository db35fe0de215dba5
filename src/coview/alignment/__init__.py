"""How aligned two sets of embeddings are: score, chance, error and signature (NumPy only)."""
