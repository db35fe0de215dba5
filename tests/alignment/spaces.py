"""Simulated truth: two noisy views of one latent, at chance, in clusters, or in between."""

import numpy as np


def latent_views(n: int, seed, *, noise: float = 1.5, clusters: int = 0, widths=(64, 48)) -> list[np.ndarray]:
    """Two feature matrices that share an 8-dimensional latent; the maps are fixed, samples drawn by seed."""
    fixed, rng = np.random.default_rng(99), np.random.default_rng(seed)
    maps = [fixed.standard_normal((8, width)) for width in widths]
    latent = rng.standard_normal((n, 8))
    if clusters:
        centres = 1.5 * fixed.standard_normal((clusters, 8))
        latent = centres[rng.integers(0, clusters, n)] + latent / 2
    return [latent @ one + noise * rng.standard_normal((n, one.shape[1])) for one in maps]


def independent(n: int, seed, widths=(64, 48)) -> list[np.ndarray]:
    """Two unrelated feature matrices."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, width)) for width in widths]


def rotation(width: int, seed=0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((width, width)))[0]
