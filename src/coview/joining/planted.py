"""Two clouds of points that differ by a rotation we know: what a search without pairs is tested on."""

from dataclasses import dataclass

import numpy as np

from coview.errors import UsageError, did_you_mean

CLUSTERS = 60
SPREAD = 0.5


@dataclass(frozen=True)
class Planted:
    """Both sides and the truth between them.

    Attributes
    ----------
    x, y : ndarrays of shape (N, D), float32: disjoint items, no row of one belongs to a row of the other
    held_x, held_y : ndarrays of shape (H, D), row i of one is row i of the other
    rotation : ndarray of shape (D, D), x @ rotation lies where y does
    """

    x: np.ndarray
    y: np.ndarray
    held_x: np.ndarray
    held_y: np.ndarray
    rotation: np.ndarray


LATENTS = ("clusters", "skewed", "heavy-tailed", "gaussian", "isotropic", "independent")
IDENTIFIABLE = ("clusters", "skewed")


def plant(latent: str, *, n: int, d: int, noise: float, seed: int, held: int = 500) -> Planted:
    """Draw latent items, give each side some of them with noise of its own, and turn one side.

    Parameters
    ----------
    latent : str
        ``clusters`` (60 of them), ``skewed`` (independent exponential coordinates), ``heavy-tailed``
        (independent, symmetric), ``gaussian``, ``isotropic`` (a Gaussian whose directions are alike) or
        ``independent`` (clusters of one side have nothing to do with those of the other). All but
        ``isotropic`` have variances that fall as one over the rank of the direction.
    n, d, held : rows of each side, width, held-out pairs
    noise : standard deviation of the noise of each side, in units of a direction's average deviation
    seed : int
    """
    if latent not in LATENTS:
        raise UsageError(f"unknown latent {latent!r}.", hint=did_you_mean(latent, LATENTS))
    rng = np.random.default_rng([seed, LATENTS.index(latent)])
    scale = np.ones(d) if latent == "isotropic" else np.arange(1, d + 1) ** -0.5
    scale *= np.sqrt(d) / np.linalg.norm(scale)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    centres = rng.normal(size=(2, CLUSTERS, d))
    rows = 2 * n + held
    items = _draw(latent, rng, rows, d, centres[0]) * scale
    others = _draw(latent, rng, rows, d, centres[1]) * scale if latent == "independent" else items
    x, y = (side + noise * rng.normal(size=side.shape) for side in (items, others))
    x, y = x.astype(np.float32), (y @ rotation).astype(np.float32)
    return Planted(x[:n], y[n : 2 * n], x[2 * n :], y[2 * n :], rotation)


def _draw(latent: str, rng: np.random.Generator, rows: int, d: int, centres: np.ndarray) -> np.ndarray:
    """Rows with independent or clustered coordinates, each of mean 0 and variance 1."""
    if latent in ("clusters", "independent"):
        mixed = centres[rng.integers(len(centres), size=rows)] + SPREAD * rng.normal(size=(rows, d))
        return mixed / np.sqrt(1 + SPREAD**2)
    if latent == "skewed":
        return rng.exponential(size=(rows, d)) - 1
    if latent == "heavy-tailed":
        return rng.laplace(size=(rows, d)) / np.sqrt(2)
    return rng.normal(size=(rows, d))
