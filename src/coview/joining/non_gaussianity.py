"""How far a cloud of rows is from Gaussian: what a rotation can be found by without pairs.

Every rotation of an isotropic Gaussian is the same Gaussian, and an embedding trained towards one (SIGReg)
leaves little else. Mardia's two statistics (Biometrika 1970) measure what is left.
"""

from dataclasses import asdict, dataclass

import numpy as np

DIRECTIONS = 32
ROWS = 3000


@dataclass(frozen=True)
class NonGaussianity:
    """Mardia's skewness and kurtosis in the leading principal directions.

    Attributes
    ----------
    skewness : float, in excess of what so many Gaussian rows have, per direction; 0 for a symmetric cloud
    skewness_z : float, the same in standard deviations of Gaussian samples
    kurtosis : float, as a share of a Gaussian's, less one: negative for a sphere, positive for heavy tails
    kurtosis_z : float
    directions, rows : int, how many were used
    """

    skewness: float
    skewness_z: float
    kurtosis: float
    kurtosis_z: float
    directions: int
    rows: int

    def as_json(self) -> dict:
        return asdict(self)


def non_gaussianity(rows: np.ndarray, seed: int = 0) -> NonGaussianity:
    """Mardia's statistics of rows (N, D), at most 3,000 of them, in 32 principal directions at most."""
    chosen = np.random.default_rng([seed, 30]).permutation(len(rows))[:ROWS]
    centred = rows[np.sort(chosen)].astype(np.float64)
    centred -= centred.mean(axis=0)
    n = len(centred)
    values, vectors = np.linalg.eigh(centred.T @ centred / n)
    kept = (values > 1e-6 * max(values[-1], 1e-30)) & (np.arange(len(values)) >= len(values) - DIRECTIONS)
    white = centred @ (vectors[:, kept] / np.sqrt(values[kept]))
    d = white.shape[1]
    if d == 0 or n <= d:
        return NonGaussianity(0.0, 0.0, 0.0, 0.0, d, n)
    products = white @ white.T
    # Under a Gaussian n/6 of the skewness is chi-squared, and the kurtosis is normal.
    freedom = d * (d + 1) * (d + 2) / 6
    skewness = float((products**3).mean())
    kurtosis = float((np.diag(products) ** 2).mean())
    return NonGaussianity(
        skewness=(skewness - 6 * freedom / n) / d,
        skewness_z=(n * skewness / 6 - freedom) / float(np.sqrt(2 * freedom)),
        kurtosis=kurtosis / (d * (d + 2)) - 1,
        kurtosis_z=(kurtosis - d * (d + 2)) / float(np.sqrt(8 * d * (d + 2) / n)),
        directions=d,
        rows=n,
    )
