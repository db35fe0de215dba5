"""Before training: which view definition should align better, and by how much.

The theory's optimum is computed in closed form within the linear encoders of given features. With S the
covariance of an observation and C the covariance of two positives, the encoder of d dimensions spans the
leading eigenvectors of S^(-1/2) C S^(-1/2); the eigenvalues estimate, from below, the spectrum of the
positive-pair kernel (Rayleigh-Ritz). Good views have C = between-scene covariance, so their encoder has the
largest whitened scene-explained fraction that any linear encoder can have (Ky Fan): other view definitions
can only fall short, by as many dimensions as they spend on nuisance.

Everything is cross-fitted: directions come from some scenes and are judged on others, because directions look
better where they were fitted (in-sample eigenvalues are biased upwards, roughly by features / scenes).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coview import __version__
from coview.alignment.neighbours import top_neighbours
from coview.alignment.overlap import mutual_knn
from coview.alignment.scene_explained import scene_explained_fraction
from coview.alignment.signature import format_signature
from coview.errors import UsageError
from coview.runs import hash_bytes
from coview.theory.corpus import Corpus, ViewSample

FOLDS = 5
# A direction with less than this share of the mean variance is rounding, not signal.
VARIANCE_FLOOR = 1e-6


def pair_moments(sample: ViewSample) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of a row, and of two different rows of one group; each group weighs the same.

    Returns
    -------
    total, cross : ndarrays of shape (D, D), symmetric
    """
    _, group, count = np.unique(sample.group, return_inverse=True, return_counts=True)
    kept = count[group] >= 2
    rows, group = sample.rows[kept], group[kept]
    _, group, count = np.unique(group, return_inverse=True, return_counts=True)
    weight = 1 / count[group]
    rows = rows - (rows * weight[:, None]).sum(axis=0) / len(count)
    sums = np.zeros((len(count), rows.shape[1]))
    np.add.at(sums, group, rows)
    pairs = 1 / (count * (count - 1.0))
    total = (rows * weight[:, None]).T @ rows
    cross = (sums * pairs[:, None]).T @ sums - (rows * pairs[group][:, None]).T @ rows
    return total / len(count), cross / len(count)


def solve(
    total: np.ndarray, cross: np.ndarray, *, by_magnitude: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, descending, and directions W (D, D') with W' total W = I and W' cross W diagonal."""
    variances, axes = np.linalg.eigh(total)
    kept = variances > VARIANCE_FLOOR * variances.mean()
    whitener = axes[:, kept] / np.sqrt(variances[kept])
    values, vectors = np.linalg.eigh(whitener.T @ cross @ whitener)
    order = np.argsort(-np.abs(values) if by_magnitude else -values, kind="stable")
    return values[order], whitener @ vectors[:, order]


def held_out_eigenvalues(sample: ViewSample, directions: np.ndarray) -> np.ndarray:
    """Correlation of two positives along each direction, on rows the directions were not fitted to."""
    total, cross = pair_moments(sample)
    return np.einsum("ij,ik,kj->j", directions, cross, directions) / np.einsum(
        "ij,ik,kj->j", directions, total, directions
    )


@dataclass(frozen=True)
class ArmPrediction:
    """What a view definition's closed-form encoder does on held-out scenes; one entry a fold.

    Attributes
    ----------
    in_sample, held_out : ndarrays of shape (D',)
        Mean eigenvalues where they were fitted and elsewhere; for next-token magnitudes, its criterion.
    direction_scene : ndarray of shape (D',), scene-explained fraction of each direction, held out
    scene_explained : ndarray of shape (folds,), of the whitened encoder of `dim` dimensions
    across_views : ndarray of shape (folds,), mutual k-NN between two observations of each scene
    against : ndarray of shape (folds,), mutual k-NN with the other encoder given; or None
    """

    in_sample: np.ndarray
    held_out: np.ndarray
    direction_scene: np.ndarray
    scene_explained: np.ndarray
    across_views: np.ndarray
    against: np.ndarray | None

    def scene_dimensions(self, dim: int) -> float:
        """Dimensions, of `dim`, that the encoder spends on the scene; the rest go to nuisance."""
        return float(dim * self.scene_explained.mean())


@dataclass(frozen=True)
class ViewPrediction:
    """Closed-form predictions for several view definitions of one corpus.

    Attributes
    ----------
    arms : dict from the name of a view definition to ArmPrediction
    dim, k, scenes : sizes
    chance : mutual k-NN of unrelated embeddings
    signature : of the mutual k-NN; numbers under another signature are not comparable
    notes : what weakens the estimate
    """

    arms: dict[str, ArmPrediction]
    dim: int
    k: int
    scenes: int
    chance: float
    signature: str
    notes: tuple[str, ...]

    def advantage(self, arm: str, measure: str = "scene_explained") -> tuple[float, float]:
        """How much higher good views score than `arm`, with the standard error over folds."""
        difference = getattr(self.arms["good"], measure) - getattr(self.arms[arm], measure)
        return _mean_and_error(difference)

    def as_json(self) -> dict:
        """Plain numbers; pairs are (mean, standard error over folds)."""
        measures = [
            m
            for m in ("scene_explained", "across_views", "against")
            if getattr(self.arms["good"], m) is not None
        ]
        arms = {
            name: {
                "scene_dimensions": arm.scene_dimensions(self.dim),
                "nuisance_dimensions": self.dim - arm.scene_dimensions(self.dim),
                **{measure: _mean_and_error(getattr(arm, measure)) for measure in measures},
                "eigenvalues_in_sample": arm.in_sample.tolist(),
                "eigenvalues_held_out": arm.held_out.tolist(),
                "direction_scene_explained": arm.direction_scene.tolist(),
            }
            for name, arm in self.arms.items()
        }
        advantage = {
            name: {measure: self.advantage(name, measure) for measure in measures}
            for name in self.arms
            if name != "good"
        }
        return {
            "dim": self.dim,
            "k": self.k,
            "scenes": self.scenes,
            "chance": self.chance,
            "signature": self.signature,
            "arms": arms,
            "advantage": advantage,
            "notes": list(self.notes),
        }


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def predict_views(
    corpus: Corpus,
    dim: int,
    *,
    k: int = 10,
    seed: int = 0,
    against: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
) -> ViewPrediction:
    """Fit every view definition's encoder on four fifths of the scenes, judge it on the rest, five times.

    Parameters
    ----------
    corpus : Corpus
    dim : dimensions of the encoders, fewer than the corpus has features
    k : neighbours
    against : ndarray of shape (S, E), optional
        Another encoder's embedding of each scene (of its image, say), in the corpus's order of scenes.
    progress : called with the number of folds done

    Raises
    ------
    UsageError
        `dim` does not fit the features, or `k` the held-out scenes.
    """
    features, scenes = corpus.clean.rows.shape[1], len(corpus.scenes)
    if not 1 <= dim < features:
        what = f"{features} features allow 1 to {features - 1} directions, not {dim}."
        raise UsageError(what, where="--dim", hint="Lower --dim, or give texts of more different words.")
    if k >= scenes // FOLDS:
        raise UsageError(f"k={k} neighbours do not fit the {scenes // FOLDS} scenes held out at a time.")
    fold = np.random.default_rng([seed, 2]).permutation(scenes) % FOLDS
    fitted: dict[str, list] = {name: [] for name in corpus.arms}
    for number in range(FOLDS):
        train, test = corpus.clean.of_scenes(fold != number), corpus.clean.of_scenes(fold == number)
        beside = None if against is None else against[fold == number]
        for name, sample in corpus.arms.items():
            fit, judge = sample.of_scenes(fold != number), sample.of_scenes(fold == number)
            values, directions = solve(*pair_moments(fit), by_magnitude=name == "next-token")
            sign = np.where(values < 0, -1, 1) if name == "next-token" else 1
            encoder = _whitened_on(train, directions[:, :dim])
            fitted[name].append(
                (
                    sign * values,
                    sign * held_out_eigenvalues(judge, directions),
                    held_out_eigenvalues(test, directions),
                    *_judge(test, train.rows.mean(axis=0), encoder, k, beside),
                )
            )
        if progress:
            progress(number + 1)
    shortest = min(len(values) for parts in fitted.values() for values, *_ in parts)
    arms = {name: _collect(parts, shortest) for name, parts in fitted.items()}
    notes = [
        "encoders are linear in the features; a network can find more, so eigenvalues are lower bounds",
        "cross-fitted over scenes; errors are over five folds whose training scenes overlap",
    ]
    if scenes < 20 * dim:
        notes.append(f"{scenes} scenes for {dim} dimensions: whitening is poor below {20 * dim}")
    held_out = scenes // FOLDS
    signature = format_signature(
        "mutual_knn",
        {
            "k": k,
            "n": held_out,
            "sim": "cosine",
            "recipe": "center",
            "captions": "one",
            "ties": "index",
            "folds": FOLDS,
            "rows": hash_bytes("\n".join(corpus.scenes).encode())[:8],
            "v": __version__,
        },
    )
    return ViewPrediction(arms, dim, k, scenes, k / (held_out - 1), signature, tuple(notes))


def _whitened_on(sample: ViewSample, directions: np.ndarray) -> np.ndarray:
    """Directions recombined so that the whole observations have identity covariance along them."""
    covariance = np.cov((sample.rows @ directions).T).reshape(directions.shape[1], -1)
    return directions @ np.linalg.inv(np.linalg.cholesky(covariance)).T


def _judge(test: ViewSample, centre, encoder, k, beside) -> tuple[float, float, float | None]:
    """Scene-explained fraction; mutual k-NN across two observations of each scene, and with `beside`."""
    embedded = (test.rows - centre) @ encoder
    explained = float(scene_explained_fraction(embedded, test.scene))
    _, first = np.unique(test.scene, return_index=True)
    order = np.lexsort((np.arange(len(test.scene)), test.scene))
    second = order[np.searchsorted(test.scene[order], test.scene[first]) + 1]
    one = top_neighbours(embedded[first], k)
    across = float(mutual_knn(one, top_neighbours(embedded[second], k)).mean())
    if beside is None:
        return explained, across, None
    return explained, across, float(mutual_knn(one, top_neighbours(beside, k)).mean())


def _collect(parts: list[tuple], length: int) -> ArmPrediction:
    values, held_out, scene, explained, across, against = zip(*parts, strict=True)
    fitted, elsewhere, about_scene = (
        np.mean([v[:length] for v in stack], axis=0) for stack in (values, held_out, scene)
    )
    with_other = None if against[0] is None else np.array(against)
    return ArmPrediction(fitted, elsewhere, about_scene, np.array(explained), np.array(across), with_other)
