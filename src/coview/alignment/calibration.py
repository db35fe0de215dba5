"""What an alignment number is worth: chance, exact null moments, permutations, errors and corrections.

Nothing here knows a metric. A permutation is an array of N indices that re-pairs the rows of one side; a
split is a pair of index arrays. Both are pure functions of (seed, number), so that two measurements of the
same rows share them and can be compared in pairs.
"""

from collections.abc import Iterator

import numpy as np

from coview.errors import InputError

SMALLEST_N = 30


def overlap_chance(k: int, n: int, groups: np.ndarray | None = None) -> float:
    """Expected k-NN overlap of unrelated spaces: k / (n - 1), whatever their hubs or dimensions.

    With groups, whose members are never neighbours of each other, a row has only n - (its group's size)
    possible neighbours.
    """
    if groups is None:
        return k / (n - 1)
    return float(np.mean(k / (n - np.bincount(groups)[groups])))


def overlap_null_moments(ids_x: np.ndarray, ids_y: np.ndarray) -> tuple[float, float]:
    """Exact mean and standard deviation of the k-NN overlap over all N! re-pairings of the rows, in O(Nk).

    The overlap is (1/Nk) sum_ij A_ij B_p(i)p(j) for the 0/1 neighbour matrices. Its second moment is a sum
    over the ways two edges can share rows (Mantel 1967); each needs only in-degrees and reciprocal edges.

    Parameters
    ----------
    ids_x, ids_y : arrays of shape (N, k)
    """
    n, k = ids_x.shape
    edges = n * k

    def edge_pairs(ids: np.ndarray) -> np.ndarray:
        indegree = np.bincount(ids.ravel(), minlength=n).astype(np.float64)
        source = np.repeat(np.arange(n, dtype=np.int64), k)
        target = ids.ravel().astype(np.int64)
        reciprocal = float(np.isin(source * n + target, target * n + source).sum())
        same_source = n * k * (k - 1)
        same_target = float(indegree @ indegree - edges)
        chains = k * edges - reciprocal  # (i, j) then (j, q): sum_i indegree_i * k, less i = q
        disjoint = edges**2 - edges - reciprocal - same_source - same_target - 2 * chains
        return np.array([edges, reciprocal, same_source, same_target, chains, chains, disjoint])

    two, three = n * (n - 1.0), n * (n - 1.0) * (n - 2)
    arrangements = np.array([two, two, three, three, three, three, three * (n - 3)])
    second = float((edge_pairs(ids_x) * edge_pairs(ids_y) / arrangements).sum())
    mean = edges**2 / two
    return mean / edges, max(second - mean**2, 0.0) ** 0.5 / edges


def permutations(n: int, count: int, seed: int, groups: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Re-pairings of n rows. Groups move as wholes, among groups of their size, their members in order.

    Parameters
    ----------
    groups : array of n int, optional
        Rows that are not exchangeable one by one, such as the captions of one image. Their order is kept,
        so that what a caption's place says (the first is often the longest) counts for the null too.
    """
    if groups is None or len(np.unique(groups)) == n:
        for number in range(count):
            yield np.random.default_rng([seed, 1, number]).permutation(n)
        return
    order = np.argsort(groups, kind="stable")
    size = np.unique(groups, return_counts=True)[1]
    begin = np.cumsum(size) - size
    sets = [begin[size == s][:, None] + np.arange(s) for s in np.unique(size)]
    for number in range(count):
        rng = np.random.default_rng([seed, 1, number])
        moved = np.empty(n, dtype=np.int64)
        for members in sets:  # (groups of one size, size), positions in `order`
            moved[order[members]] = order[members[rng.permutation(len(members))]]
        yield moved


def half_splits(n: int, count: int, seed: int, groups=None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random halves of the rows, without replacement; a group falls into one half as a whole."""
    groups = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    total = int(groups.max()) + 1
    for number in range(count):
        chosen = np.random.default_rng([seed, 2, number]).permutation(total)[: total // 2]
        first = np.isin(groups, chosen)
        yield np.flatnonzero(first), np.flatnonzero(~first)


def half_neighbours(k: int) -> int:
    """How many neighbours of a half stand for k of the whole: the same share of the rows."""
    return max(1, k // 2)


def half_split_error(halves: np.ndarray) -> float:
    """Standard error of a score from its values on random halves, shape (S, 2): rms(first - second) / 2.

    Two halves differ with twice the variance of a half-sized sample, that is four times that of the whole.
    Resampling with replacement is wrong here: duplicated rows become each other's neighbours.
    """
    difference = halves[:, 0] - halves[:, 1]
    return float(np.sqrt(np.mean(difference**2)) / 2)


def row_error(rows: np.ndarray, groups: np.ndarray | None = None) -> float:
    """Standard error of the mean of rows, shape (N,), were they independent; with groups, were these."""
    deviation = rows - rows.mean(dtype=np.float64)
    if groups is not None:
        deviation = np.bincount(np.unique(groups, return_inverse=True)[1], deviation)
    count = len(deviation)
    if count < 2:
        return float("nan")
    return float(np.sqrt(deviation @ deviation * count / (count - 1)) / len(rows))


def dependent_row_error(
    rows: np.ndarray, halves: np.ndarray, halves_alone: np.ndarray, groups: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Standard error of the mean of rows that share neighbours, and the halves as they enter a comparison.

    The variance is that of independent rows and, on top of it, as much as random halves differ by more than
    independent rows of theirs would; never less than that of independent rows. What two encoders have in
    common cancels in the difference of their halves. What is left is rows; and those of a half, with fewer
    neighbours each, vary more than those of the whole: the halves are drawn together by as much.

    Parameters
    ----------
    rows : array of shape (N,)
    halves, halves_alone : arrays of shape (S, 2), the means of random halves and their `row_error`
    groups : array of N int, optional

    Returns
    -------
    (float, array of shape (S, 2))
    """
    independent = row_error(rows, groups) ** 2
    expected = np.mean((halves_alone**2).sum(axis=1)) / 4
    error = np.sqrt(independent + max(0.0, half_split_error(halves) ** 2 - expected))
    centre = halves.mean()
    narrower = np.sqrt(independent / expected) if expected > 0 else 1.0
    return float(error), centre + narrower * (halves - centre)


def interval_95(score: float, stderr: float) -> tuple[float, float]:
    """Nominal 95 % confidence interval of a score."""
    return score - 1.96 * stderr, score + 1.96 * stderr


def paired_error(halves_a: np.ndarray, halves_b: np.ndarray) -> float:
    """Standard error of score a - score b, measured on the same rows and halves (see `half_split_error`)."""
    return half_split_error(np.asarray(halves_a) - np.asarray(halves_b))


def permutation_p(score: float, null: np.ndarray) -> float:
    """Share of re-pairings that score at least as well, the true pairing counted in (add-one rule).

    The smallest value it can take is 1 / (len(null) + 1).
    """
    return float((1 + np.count_nonzero(np.asarray(null) >= score)) / (len(null) + 1))


def require_rows_for_p(n: int, count: int, where: str = "") -> None:
    """Raise InputError when there are too few rows for a p-value to mean anything."""
    if n < SMALLEST_N:
        raise InputError(
            f"a p-value needs at least {SMALLEST_N} rows; there are {n}.",
            where=where,
            hint="Add --permutations 0 for the score alone, or embed more rows (coview embed --split all). "
            f"With enough rows the smallest p of {count:,} permutations is {1 / (count + 1):.2g}.",
        )


def calibrated_score(score: float, null: np.ndarray, *, alpha: float = 0.05, perfect: float = 1.0) -> float:
    """0 up to the null's (1 - alpha) threshold, then linear to 1 at a perfect score.

    The threshold is the order statistic of the null and the observed score together, as in Aristotelian
    (ICML 2026). A point estimate with a hard zero; `adjusted_score` is its unclipped, linear sibling.
    """
    pooled = np.sort(np.append(null, score))
    threshold = pooled[min(int(np.ceil((1 - alpha) * len(pooled))), len(pooled)) - 1]
    return float(max(0.0, (score - threshold) / (perfect - threshold))) if threshold < perfect else 0.0


def adjusted_score(score: float, chance: float, perfect: float = 1.0) -> float:
    """(score - chance) / (perfect - chance): 0 at chance, 1 at perfect, negative below chance."""
    return (score - chance) / (perfect - chance)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """p-values adjusted for the number of tests so that a cut at q bounds the false discovery rate by q."""
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p)[::-1]
    scaled = p[order] * len(p) / np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(scaled))
    return adjusted
