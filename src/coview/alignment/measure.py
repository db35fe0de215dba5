"""`align`: one call from two sets of embeddings to a score, its chance level, its error and its signature."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coview.alignment import calibration
from coview.alignment.diagnostics import Diagnostics, diagnose
from coview.alignment.layers import (
    LayerChoice,
    cross_fitted_max,
    only,
    rows_of,
    score_matrix,
)
from coview.alignment.metrics import METRICS, Metric, Settings
from coview.alignment.neighbours import SIMILARITIES, require_k
from coview.alignment.sides import Side, pair_any, prepared_layers, sample_queries, summarise
from coview.alignment.signature import format_signature
from coview.alignment.standard_error import standard_error
from coview.errors import UsageError, did_you_mean
from coview.pairing import Pairs

# What shows the progress of a long loop: (items, how many, what they are) -> the same items.
Progress = Callable[[Iterable, int, str], Iterable]


def silent(items: Iterable, total: int, label: str) -> Iterable:
    """No progress shown."""
    return items


@dataclass(frozen=True)
class Alignment:
    """One alignment number and what it takes to believe it.

    Attributes
    ----------
    score : float
    chance : float
        Expected for unrelated spaces at one layer pair: exact where known, else the mean of the permutations.
    stderr : float
        Standard error over samples of n (see `standard_error`); NaN when k is too large for halves.
    z : float, or None
        Distance from chance in standard deviations over all re-pairings (over the permutations drawn where no
        exact deviation is known, or where the largest of many layer pairs was taken).
    p : float, or None without permutations
        Add-one permutation p. Where the largest of many layer pairs was taken, of that largest.
    n, k : int, samples and neighbours
    metric, recipe : str
    signature : str; numbers are comparable when their signatures are equal
    layers : (int, int), the layer pair, in the order the sides were given
    matrix : ndarray of shape (Lx, Ly), scores of all layer pairs
    cross_fitted : float, or None for a single pair
        Best pair chosen on one half of the samples and scored on the other.
    null : ndarray of shape (permutations,), scores of re-paired rows
    halves : ndarray of shape (splits, 2), random halves at the chosen layers, for paired comparisons
    perfect : float, the score of identical spaces
    notes : tuple of str
    diagnostics : Diagnostics of both sides at the chosen layers, where asked for
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
    notes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostics, Diagnostics] | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """Nominal 95 % confidence interval."""
        return calibration.interval_95(self.score, self.stderr)

    @property
    def distinguishable(self) -> bool:
        """Whether the null of unrelated spaces is rejected at 5 %, one-sided; False where that is unknown."""
        if self.p is not None:
            return self.p <= 0.05
        return self.z is not None and self.z > 1.645

    @property
    def calibrated(self) -> float | None:
        """Zero within the null, one when perfect (see `calibrated_score`); None without permutations."""
        if not len(self.null):
            return None
        return calibration.calibrated_score(self.score, self.null, perfect=self.perfect)

    @property
    def adjusted(self) -> float:
        """(score - null mean) / (perfect - null mean), unclipped and linear."""
        mean = float(self.null.mean()) if len(self.null) else self.chance
        return calibration.adjusted_score(self.score, mean, self.perfect)


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
    exclude: Iterable[str] = (),
    queries: int | None = None,
    components: int = 10,
    sigma: float | None = None,
    permutations: int = 1000,
    splits: int = 50,
    seed: int = 0,
    names: tuple[str, str] = ("A", "B"),
    progress: Progress = silent,
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
    captions : "mean", "first" or "each", when one side has several rows a scene (see `coview.pairing`)
    groups : sequence of N labels, optional
        Rows that belong together, such as captions of one photo: never neighbours of each other, and moved
        together by permutations and halves. Taken from the scenes of Embeddings when they have them.
    exclude : ids or scenes to leave out
    queries : int, optional
        Compare the neighbours of that many sampled rows only, each against the full gallery: unbiased, for
        large N. None takes all rows.
    components : int, singular directions of SVCCA
    sigma : float, optional; width of Gaussian kernels, by default each side's median distance
    permutations : int, for p; 0 for none
    splits : int, random halvings for the standard error, at least 50 for intervals; 0 for none
    seed : int
    names : how to call the sides in messages
    progress : wraps long loops, to show how far they are

    Returns
    -------
    Alignment

    Raises
    ------
    InputError
        Rows with NaN, infinite or constant values, sides that do not pair, under 30 rows with permutations.
    UsageError
        An unknown name, or k not below the number of rows.
    """
    pairs = pair_any([X, Y], captions=captions, groups=groups, exclude=exclude, names=names)
    plan = Plan(metric, recipe, layers, k, similarity, queries, components, sigma, permutations, splits, seed)
    return align_pairs(pairs, plan, names, progress=progress)


def align_pairs(
    pairs: Pairs,
    plan: "Plan",
    names: Sequence[str] = ("A", "B"),
    *,
    diagnostics: bool = False,
    progress: Progress = silent,
) -> Alignment:
    """`align` for sides that are paired already; with `diagnostics`, each space is described too."""
    settings = plan.settings(len(pairs), pairs.groups)
    layers = [prepared_layers(side, plan.recipe, name) for side, name in zip(pairs.sides, names, strict=True)]
    x, y = (summarise(side, plan.how, settings) for side in layers)
    result = plan.measure(x, y, len(pairs), settings, pairs, progress)
    if not diagnostics:
        return result
    a, b = (
        diagnose(side[0][layer].loaded(), summaries[0][layer], plan.similarity)
        for side, summaries, layer in zip(layers, (x, y), result.layers, strict=True)
    )
    return replace(result, diagnostics=(a, b))


@dataclass(frozen=True)
class Plan:
    """How to measure, whatever the encoders: what two comparable measurements share.

    Parameters
    ----------
    metric
        What to measure: mutual_knn, unbiased_cka, cka, unbiased_cka_rbf, cka_rbf, cknna, svcca, procrustes,
        rsa, cycle_knn, lcs_knn or edit_distance_knn.
    recipe
        Preparation: center, prh, prh-exact or raw.
    layers
        Of stacks: max, cross (best pair chosen on half of the samples, scored on the other), last, or I,J.
    k
        Neighbours.
    similarity
        What near means: cosine, dot or euclidean.
    queries
        Ask that many sampled rows only, each against all: unbiased, for large files.
    components
        Singular directions of svcca.
    sigma
        Width of Gaussian kernels; by default each side's median distance.
    permutations
        Re-pairings for the p-value; 0 for none.
    splits
        Random halvings for the standard error; 0 for none.
    seed
        Of permutations, halvings and sampling.
    """

    metric: str = "mutual_knn"
    recipe: str = "center"
    layers: str = "max"
    k: int = 10
    similarity: str = "cosine"
    queries: int | None = None
    components: int = 10
    sigma: float | None = None
    permutations: int = 1000
    splits: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("permutations", 0), ("splits", 0), ("components", 1), ("queries", 2)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} = {value} makes no sense.", hint=f"It is at least {least}.")
        if self.sigma is not None and self.sigma <= 0:
            raise UsageError(f"sigma = {self.sigma} makes no sense.", hint="It is a positive width.")

    @property
    def how(self) -> Metric:
        if self.metric not in METRICS:
            raise UsageError(
                f"unknown metric {self.metric!r}.", hint=did_you_mean(self.metric, list(METRICS))
            )
        return METRICS[self.metric]

    def settings(self, n: int, groups: np.ndarray | None) -> Settings:
        """Settings for n rows; refuses what cannot be measured on them before any work is done."""
        if self.queries is not None and self.how.per_row is None:
            raise UsageError(f"{self.metric} is no mean over rows: queries cannot be sampled.")
        if "similarity" in self.how.uses and self.similarity not in SIMILARITIES:
            hint = did_you_mean(self.similarity, SIMILARITIES)
            raise UsageError(f"unknown similarity {self.similarity!r}.", hint=hint)
        if "k" in self.how.uses:
            require_k(self.k, n, 1 if groups is None else int(np.bincount(groups).max()))
        sampled = sample_queries(n, self.queries, self.seed)
        if self.permutations:
            calibration.require_rows_for_p(n if sampled is None else len(sampled), self.permutations)
        return Settings(
            self.k, self.similarity, sampled, groups, self.components, self.sigma, self.splits > 0
        )

    def measure(self, x: Side, y: Side, n: int, settings: Settings, pairs, progress=silent) -> Alignment:
        """Score two summarised sides, with all that belongs to the score."""
        metric, choice = self.how, LayerChoice.parse(self.layers)
        groups = settings.groups
        if groups is not None and settings.queries is not None:
            groups = groups[settings.queries]
        matrix = score_matrix(metric, x, y)
        chosen = choice.pick(matrix)
        best_x, best_y = only(x, chosen[0]), only(y, chosen[1])
        crossed = None
        if matrix.size > 1 and choice.searches and self.splits:
            crossed = cross_fitted_max(metric, x, y, splits=self.splits, seed=self.seed, groups=groups)
        stderr, halves = standard_error(
            metric,
            best_x,
            best_y,
            self.k,
            splits=self.splits,
            seed=self.seed,
            groups=groups,
            sampled=settings.queries is not None,
        )
        one_pair = matrix.size == 1 or not choice.searches
        null = self._null(metric, *((best_x, best_y) if one_pair else (x, y)), groups, progress)
        largest = float(matrix[chosen])
        score = crossed if choice.mode == "cross" and crossed is not None else largest
        chance = self._chance(metric, best_x, best_y, n, settings, null)
        exact = one_pair and len(x) == len(y) == 1 and groups is None and settings.queries is None
        deviation = None
        if exact and metric.deviation is not None:
            deviation = metric.deviation(best_x[0][0], best_y[0][0])
        notes = list(pairs.notes)
        if self.splits and not len(halves):
            notes.append(f"no standard error: halves of {len(x[0][0])} rows are too small for k = {self.k}")
        return Alignment(
            score=score,
            chance=chance,
            stderr=stderr,
            z=_z(largest, chance, deviation, null),
            p=calibration.permutation_p(largest, null) if self.permutations else None,
            n=n,
            k=self.k,
            metric=self.metric,
            recipe=self.recipe,
            signature=self.signature(n, settings, choice.label(matrix.shape), pairs),
            layers=chosen,
            matrix=matrix,
            cross_fitted=crossed,
            null=null,
            halves=halves,
            perfect=metric.perfect(self.k),
            notes=tuple(notes),
        )

    def _null(self, metric: Metric, x: Side, y: Side, groups, progress: Progress) -> np.ndarray:
        """Scores of re-paired rows: the largest over layer pairs, one permutation for all of them."""
        orders = calibration.permutations(len(x[0][0]), self.permutations, self.seed, groups)
        return np.array(
            [
                np.nanmax(score_matrix(metric, x, rows_of(y, order)))
                for order in progress(orders, self.permutations, "permutations")
            ]
        )

    def _chance(self, metric: Metric, x: Side, y: Side, n: int, settings: Settings, null) -> float:
        if metric.chance is not None:
            return metric.chance(x[0][0], y[0][0], n, settings)
        return float(null.mean()) if len(null) else float("nan")

    def signature(self, n: int, settings: Settings, layers: str, pairs) -> str:
        from coview import __version__

        uses, sampled = self.how.uses, settings.queries
        parts = {
            "k": self.k if "k" in uses else None,
            "n": n,
            "sim": self.similarity if "similarity" in uses else None,
            "components": self.components if "components" in uses else None,
            "sigma": ("median" if self.sigma is None else self.sigma) if "sigma" in uses else None,
            "recipe": self.recipe,
            "layers": layers,
            "captions": pairs.captions,
            "groups": None if settings.groups is None else int(settings.groups.max()) + 1,
            "queries": None if sampled is None else f"{len(sampled)}@{self.seed}",
            "ties": "index" if "k" in uses else None,
            "rows": pairs.rows_hash,
            "v": __version__,
        }
        return format_signature(self.metric, parts)


def _z(score: float, chance: float, deviation: float | None, null: np.ndarray) -> float | None:
    if deviation is None and len(null) > 1:
        chance, deviation = float(null.mean()), float(null.std(ddof=1))
    return (score - chance) / deviation if deviation else None
