"""`align`: one call from two sets of embeddings to a score, its chance level, its error and its signature."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from coview.alignment import calibration
from coview.alignment.layers import LayerChoice, Side, cross_fitted_max, only, rows_of, score_matrix
from coview.alignment.metrics import METRICS, Metric, Settings
from coview.alignment.recipes import Layer, check_layer, prepare
from coview.alignment.signature import format_signature
from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError, did_you_mean
from coview.pairing import Pairs, Rows, pair

CONFIDENCE_95 = 1.96


@dataclass(frozen=True)
class Alignment:
    """One alignment number and what it takes to believe it.

    Attributes
    ----------
    score : float
    chance : float, expected for unrelated spaces at one layer pair
    stderr : float, standard error from random halves of the samples
    z : float, distance from chance in standard deviations of the exact null (of the permutations where there is
        no exact one); None without either
    p : float, add-one permutation p of this score (of the maximum over all layer pairs where one was taken)
    n, k : int, samples and neighbours
    metric, recipe : str
    signature : str; numbers are comparable when their signatures are equal
    layers : (int, int), the layer pair, in the order the sides were given
    matrix : ndarray of shape (Lx, Ly), scores of all layer pairs
    cross_fitted : float, best pair chosen on one half and scored on the other; None for single layers
    null : ndarray of shape (permutations,), scores of re-paired rows
    halves : ndarray of shape (splits, 2), scores of random halves at the chosen layers
    perfect : float, the score of identical spaces
    notes : tuple of str
    """

    score: float
    chance: float
    stderr: float
    z: float | None
    p: float | None
    n: int
    k: int
    metric: str
    recipe: str
    signature: str
    layers: tuple[int, int]
    matrix: np.ndarray
    cross_fitted: float | None
    null: np.ndarray
    halves: np.ndarray
    perfect: float = 1.0
    notes: tuple[str, ...] = field(default=())

    @property
    def interval(self) -> tuple[float, float]:
        """Nominal 95 % confidence interval."""
        return self.score - CONFIDENCE_95 * self.stderr, self.score + CONFIDENCE_95 * self.stderr

    @property
    def distinguishable(self) -> bool:
        """Whether the null of unrelated spaces is rejected at 5 %."""
        if self.p is not None:
            return self.p <= 0.05
        return self.z is None or self.z > 1.645

    @cached_property
    def calibrated(self) -> float | None:
        """Zero within the null, one when perfect (`calibration.calibrated_score`); None without permutations."""
        return (
            calibration.calibrated_score(self.score, self.null, perfect=self.perfect)
            if len(self.null)
            else None
        )

    @property
    def adjusted(self) -> float:
        """(score - chance) / (perfect - chance), unclipped."""
        return calibration.adjusted_score(self.score, self.chance, self.perfect)


def align(
    X,
    Y,
    *,
    metric: str = "mutual_knn",
    k: int = 10,
    recipe: str = "center",
    similarity: str = "cosine",
    layers: str = "max",
    captions: str = "mean",
    groups=None,
    exclude=(),
    queries: int | None = None,
    permutations: int = 1000,
    splits: int = 50,
    seed: int = 0,
) -> Alignment:
    """How aligned two encoders are on the same samples.

    Parameters
    ----------
    X, Y : Embeddings, array of shape (N, D) or (N, L, D), or list of L arrays (N, D_l)
        Rows correspond: by id for Embeddings, by order for arrays.
    metric : name in `METRICS`
    k : int, neighbours, for the metrics that have them
    recipe : "center", "prh", "prh-exact" or "raw" (see `recipes`)
    similarity : "cosine", "dot" or "euclidean", what near means
    layers : "max", "cross", "last" or "I,J" (see `layers`)
    captions : "mean", "first" or "each", when one side has several rows a scene (see `pairing`)
    groups : sequence of N labels, optional
        Rows that belong together, such as captions of one photo: never neighbours of each other, and moved
        together by permutations and splits. Taken from the scenes of Embeddings when they have them.
    exclude : ids or scenes to leave out
    queries : int, optional
        Compare the neighbours of that many sampled rows only, each against the full gallery: unbiased, for
        large N. None takes all rows.
    permutations : int, for p; 0 for none
    splits : int, random halvings for the standard error
    seed : int

    Returns
    -------
    Alignment

    Raises
    ------
    InputError
        Rows with NaN, infinite or constant values, sides that do not pair, fewer than 30 rows with permutations.
    UsageError
        An unknown name, or k not below the number of rows.
    """
    if metric not in METRICS:
        raise UsageError(f"unknown metric {metric!r}.", hint=did_you_mean(metric, list(METRICS)))
    pairs = pair_any(X, Y, captions, groups, exclude)
    n = len(pairs)
    sampled = sample_queries(n, queries, seed)
    asked = n if sampled is None else len(sampled)
    if permutations:
        calibration.require_rows_for_p(asked, permutations)
    settings = Settings(k, similarity, sampled, pairs.groups)
    x, y = (
        summaries(side, name, metric, recipe, settings) for side, name in ((pairs.x, "A"), (pairs.y, "B"))
    )
    choice = LayerChoice.parse(layers)
    part = _line(metric, settings, n, recipe, choice, pairs, (len(x[0]), len(y[0])), seed)
    row_groups = pairs.groups if pairs.groups is None or sampled is None else pairs.groups[sampled]
    return _measure(METRICS[metric], metric, x, y, n, settings, choice, row_groups, part, recipe, pairs.notes,
                    permutations, splits, seed)  # fmt: skip


def _measure(
    metric: Metric,
    name,
    x: Side,
    y: Side,
    n,
    settings,
    choice,
    groups,
    signature,
    recipe,
    notes,
    count,
    splits,
    seed,
) -> Alignment:
    asked = len(x[0][0])
    matrix = score_matrix(metric, x, y)
    chosen = choice.pick(matrix)
    best_x, best_y = only(x, chosen[0]), only(y, chosen[1])
    single = choice.mode in ("last", "fixed") or matrix.size == 1
    crossed = None
    if matrix.size > 1:
        crossed = cross_fitted_max(metric, x, y, splits=splits, seed=seed, groups=groups)
    score = crossed if choice.mode == "cross" and crossed is not None else float(matrix[chosen])

    halves = np.array(
        [
            [score_matrix(metric, rows_of(best_x, half), rows_of(best_y, half))[0, 0] for half in split]
            for split in calibration.half_splits(asked, splits, seed, groups)
        ]
    ).reshape(-1, 2)
    searched_x, searched_y = (best_x, best_y) if single else (x, y)
    null = np.array(
        [
            np.nanmax(score_matrix(metric, searched_x, rows_of(searched_y, order)))
            for order in calibration.permutations(asked, count, seed, groups)
        ]
    )
    chance = None
    if metric.chance is not None:
        chance = metric.chance(best_x[0][0], best_y[0][0], n, settings)
    elif count:
        chance = float(np.mean(null))
    z = _z(name, score, x, y, null, single and groups is None and settings.queries is None)
    p = calibration.permutation_p(float(matrix[chosen]), null) if count else None
    return Alignment(
        score=score,
        chance=float("nan") if chance is None else chance,
        stderr=calibration.half_split_error(halves),
        z=z,
        p=p,
        n=n,
        k=settings.k,
        metric=name,
        recipe=recipe,
        signature=signature,
        layers=chosen,
        matrix=matrix,
        cross_fitted=crossed,
        null=null,
        halves=halves,
        perfect=metric.perfect(settings.k),
        notes=notes,
    )


def _z(name: str, score: float, x: Side, y: Side, null: np.ndarray, exact: bool) -> float | None:
    if exact and name == "mutual_knn" and len(x) == len(y) == 1:
        mean, deviation = calibration.overlap_null_moments(x[0][0].top.T, y[0][0].top.T)
    elif len(null) > 1:
        mean, deviation = float(null.mean()), float(null.std(ddof=1))
    else:
        return None
    return (score - mean) / deviation if deviation > 0 else None


def pair_any(X, Y, captions: str = "mean", groups=None, exclude=()) -> Pairs:
    """Pairs from embeddings (by id) or arrays (by order), with explicit groups taking precedence."""
    if isinstance(X, Embeddings) and isinstance(Y, Embeddings):
        pairs = pair(X, Y, captions=captions, exclude=exclude)
    else:
        x, y = (side.matrix if isinstance(side, Embeddings) else side for side in (X, Y))
        n, m = (len(side[0]) if isinstance(side, list) else len(side) for side in (x, y))
        if n != m:
            raise InputError(f"{n} rows cannot be paired with {m}.")
        pairs = Pairs((Rows(x),), (Rows(y),), None, None, "one")
    if groups is None:
        return pairs
    labels = np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(labels) != len(pairs):
        raise InputError(f"{len(labels)} groups for {len(pairs)} rows.")
    return Pairs(pairs.x, pairs.y, pairs.ids, labels, pairs.captions, pairs.notes)


def sample_queries(n: int, queries: int | None, seed: int) -> np.ndarray | None:
    """Which rows are asked, sorted; None for all."""
    if queries is None or queries >= n:
        return None
    return np.sort(np.random.default_rng([seed, 3]).permutation(n)[:queries])


def summaries(
    alternatives: tuple[Rows, ...], name: str, metric: str, recipe: str, settings: Settings
) -> Side:
    """Each layer of one side, checked, prepared and summarised."""
    side = []
    for rows in alternatives:
        layers, stacked = split_layers(rows)
        for number, layer in enumerate(layers):
            check_layer(layer, name if len(layers) == 1 else f"{name} layer {number}")
        ready = prepare(layers, recipe, stacked=stacked)
        side.append([METRICS[metric].summarise(layer, settings) for layer in ready])
    return side


def split_layers(rows: Rows) -> tuple[list[Layer], bool]:
    """Layers of a matrix (N, D), a stack (N, L, D) or a list of matrices, and whether they came as a stack."""
    matrix = rows.matrix
    if isinstance(matrix, list | tuple):
        return [Layer(layer, order=rows.order) for layer in matrix], False
    if matrix.ndim == 2:
        return [Layer(matrix, order=rows.order)], True
    if matrix.ndim == 3:
        return [Layer(matrix[:, layer], order=rows.order) for layer in range(matrix.shape[1])], True
    raise InputError(f"expected (N, D) or (N, L, D), found shape {matrix.shape}.")


def _line(metric, settings: Settings, n, recipe, choice, pairs: Pairs, shape, seed) -> str:
    from coview import __version__

    sampled = settings.queries
    return format_signature(
        metric,
        {
            "k": settings.k,
            "n": n,
            "sim": settings.similarity,
            "recipe": recipe,
            "layers": choice.label(shape),
            "captions": pairs.captions,
            "groups": None if pairs.groups is None else int(pairs.groups.max()) + 1,
            "queries": None if sampled is None else f"{len(sampled)}@{seed}",
            "ties": "index",
            "rows": pairs.rows_hash,
            "v": __version__,
        },
    )
