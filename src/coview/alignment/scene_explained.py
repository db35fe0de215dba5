"""The scene-explained fraction: how much of an encoder's variance is about the scene and not about the view.

With z the embedding of a view and s its scene, it is tr Cov(E[z|s]) / tr Cov(z): 1 when all views of a scene
coincide, 0 when views of one scene are no closer than views of two. Unchanged by rotation, translation and
scale. It is estimated by one-way analysis of variance (the intraclass correlation ICC(1)); the plain R² of
scene means is biased upwards by (1 - truth) / views and offered as ``naive`` for comparison with print.
"""

from dataclasses import dataclass

import numpy as np

from coview.errors import InputError, UsageError, did_you_mean

ESTIMATORS = ("anova", "naive")


@dataclass(frozen=True)
class SceneExplained:
    """A scene-explained fraction and its uncertainty.

    Attributes
    ----------
    value : float; may be slightly negative when nothing is explained
    interval : (low, high) from resampling scenes, or None
    estimator, whiten : as asked
    scenes, rows : int, how many entered
    notes : tuple of str, what to keep in mind
    """

    value: float
    interval: tuple[float, float] | None
    estimator: str
    whiten: str | bool
    scenes: int
    rows: int
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.value


def scene_explained_fraction(
    Z,
    scene,
    *,
    estimator="anova",
    whiten=False,
    ci: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> SceneExplained:
    """Share of the variance of embeddings that their scene explains.

    Parameters
    ----------
    Z : array of shape (N, D)
    scene : sequence of N scene ids
        Scenes with one row count between scenes and not within them.
    estimator : "anova" (unbiased numerator and denominator) or "naive" (SSB / SST)
    whiten : False or "crossfit"
        "crossfit" whitens by the covariance of the other half of the scenes, both ways, and averages;
        in-sample whitening is badly biased unless there are many more scenes than dimensions.
    ci : float, optional
        Confidence level, such as 0.95, of a percentile interval from resampling scenes.
    resamples, seed : int

    Returns
    -------
    SceneExplained

    Raises
    ------
    InputError
        Fewer than two scenes, no scene with two rows, lengths that differ, or no variance at all.
    """
    if estimator not in ESTIMATORS:
        raise UsageError(f"unknown estimator {estimator!r}.", hint=did_you_mean(estimator, ESTIMATORS))
    if whiten not in (False, "crossfit"):
        raise UsageError(f"whiten is False or 'crossfit', not {whiten!r}.")
    Z = np.asarray(Z, dtype=np.float64)
    names, scene = np.unique(np.asarray(scene), return_inverse=True)
    if len(scene) != len(Z):
        raise InputError(f"{len(scene)} scene ids for {len(Z)} rows.")
    if len(names) < 2 or len(names) == len(Z):
        raise InputError(
            f"{len(Z)} rows in {len(names)} scenes cannot be split into between and within.",
            hint="Give at least two scenes, and more than one row for some of them.",
        )
    notes = []
    if whiten == "crossfit":
        notes = [f"{len(names)} scenes for {Z.shape[1]} dimensions: expect bias"] * (
            len(names) < 20 * Z.shape[1]
        )
        parts = _whitened_halves(Z, scene, len(names), seed)
    else:
        parts = [_SceneSums.of(Z, scene)]
    value = float(np.mean([part.fraction(estimator) for part in parts]))
    interval = None
    if ci is not None:
        draws = np.mean([part.resampled(estimator, resamples, seed) for part in parts], axis=0)
        low, high = np.nanquantile(draws, [(1 - ci) / 2, (1 + ci) / 2])
        interval = (float(low), float(high))
    return SceneExplained(value, interval, estimator, whiten, len(names), len(Z), tuple(notes))


@dataclass(frozen=True)
class _SceneSums:
    """What the estimators need of each scene: a resample of scenes is a weighting of these sums."""

    count: np.ndarray  # (G,)
    sum: np.ndarray  # (G, D)
    within: np.ndarray  # (G,) squared distances to the scene's mean, summed

    @classmethod
    def of(cls, Z: np.ndarray, scene: np.ndarray) -> "_SceneSums":
        Z = Z - Z.mean(axis=0)
        order = np.argsort(scene, kind="stable")
        begin = np.flatnonzero(np.diff(scene[order], prepend=-1))
        count = np.diff(np.append(begin, len(scene)))
        total = np.add.reduceat(Z[order], begin)
        spread = (Z[order] - np.repeat(total / count[:, None], count, axis=0)) ** 2
        if not spread.any() and not total.any():
            raise InputError("all rows are the same: there is no variance to explain.")
        return cls(count, total, np.add.reduceat(spread.sum(axis=1), begin))

    def fractions(self, estimator: str, weights: np.ndarray) -> np.ndarray:
        """The fraction under each row of scene weights, shape (R, G) -> (R,)."""
        scenes, rows = weights.sum(axis=1), weights @ self.count
        grand = weights @ self.sum
        between = weights @ ((self.sum**2).sum(axis=1) / self.count) - (grand**2).sum(axis=1) / rows
        within = weights @ self.within
        if estimator == "naive":
            return between / (between + within)
        mean_within = within / (rows - scenes)
        typical_count = (rows - weights @ self.count**2 / rows) / (scenes - 1)
        between_variance = (between / (scenes - 1) - mean_within) / typical_count
        return between_variance / (between_variance + mean_within)

    def fraction(self, estimator: str) -> float:
        return float(self.fractions(estimator, np.ones((1, len(self.count))))[0])

    def resampled(self, estimator: str, resamples: int, seed: int) -> np.ndarray:
        """The fraction in resamples of scenes with replacement; NaN where a resample has no second view."""
        rng = np.random.default_rng([seed, 0x5CE])
        scenes = len(self.count)
        weights = rng.multinomial(scenes, np.full(scenes, 1 / scenes), size=resamples).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.fractions(estimator, weights)


def _whitened_halves(Z, scene, scenes, seed) -> list[_SceneSums]:
    """Each half of the scenes, whitened by the covariance of the other half."""
    first = np.random.default_rng([seed, 0x0A1F]).permutation(scenes)[: scenes // 2]
    chosen = np.isin(scene, first)
    halves = []
    for half in (chosen, ~chosen):
        other = Z[~half] - Z[~half].mean(axis=0)
        values, vectors = np.linalg.eigh(other.T @ other / len(other))
        kept = values > values[-1] * 1e-10
        whitener = vectors[:, kept] / np.sqrt(values[kept])
        halves.append(_SceneSums.of(Z[half] @ whitener, np.unique(scene[half], return_inverse=True)[1]))
    return halves
