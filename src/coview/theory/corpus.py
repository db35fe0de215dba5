"""A corpus as positive pairs: the rows that a view definition shows, and which of them belong together.

A `ViewSample` is all that the estimates of `coview.theory.prediction` need. From texts it holds bags of
words; from an embedding file, that encoder's rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from coview.embeddings import SUFFIXES, Embeddings, load_embeddings
from coview.encoders.bag_of_words import fit_bag_of_words, split_words
from coview.errors import InputError, UsageError

MASK_RATE = 0.3
MIN_SCENES = 50
# A covariance of more features than a tenth of the scenes is mostly noise once it is inverted.
SCENES_A_FEATURE = 10


@dataclass(frozen=True)
class ViewSample:
    """Observations with what they have in common.

    Attributes
    ----------
    rows : ndarray of shape (R, D), features of the observations
    group : int ndarray of shape (R,); rows of one group are positives of each other
    scene : int ndarray of shape (R,); what held-out scenes are chosen by
    """

    rows: np.ndarray
    group: np.ndarray
    scene: np.ndarray

    def of_scenes(self, chosen: np.ndarray) -> "ViewSample":
        """The rows of the scenes where the bool array `chosen` (S,) is true."""
        kept = chosen[self.scene]
        return ViewSample(self.rows[kept], self.group[kept], self.scene[kept])


@dataclass(frozen=True)
class Corpus:
    """Observations of scenes under several view definitions.

    Attributes
    ----------
    clean : ViewSample of the whole observations, grouped by scene; encoders are evaluated on it
    arms : dict from the name of a view definition to its positives
    scenes : names of the scenes
    features : what the rows are, in words
    """

    clean: ViewSample
    arms: dict[str, ViewSample]
    scenes: tuple[str, ...]
    features: str

    def beside(self, other: Embeddings, where: str = "") -> tuple["Corpus", np.ndarray]:
        """The scenes that another encoder has a row for, and the first such row of each, shape (S', E).

        A row is a scene's if its scene, or without scenes its id, is the scene's name.
        """
        names = other.scenes if other.scenes is not None else other.ids
        if names is None:
            raise InputError("the rows name neither scenes nor ids.", where=where)
        row: dict[str, int] = {}
        for place, name in enumerate(names):
            row.setdefault(name, place)
        both = np.array([name in row for name in self.scenes])
        if both.sum() < MIN_SCENES:
            raise InputError(
                f"{both.sum()} of {len(self.scenes)} scenes have a row here, such as {self.scenes[0]!r}; "
                f"the first row is of {names[0]!r}.",
                where=where,
                hint="Its scenes or ids must be the scene ids of the source.",
            )
        place = np.cumsum(both) - 1

        def kept(sample: ViewSample) -> ViewSample:
            inside = sample.of_scenes(both)
            return ViewSample(inside.rows, inside.group, place[inside.scene])

        scenes = tuple(name for name in self.scenes if name in row)
        arms = {name: kept(sample) for name, sample in self.arms.items()}
        matrix = _last_layer(other)[[row[name] for name in scenes]]
        return Corpus(kept(self.clean), arms, scenes, self.features), matrix - matrix.mean(axis=0)


def read_corpus(
    src: str,
    *,
    dim: int = 256,
    limit: int = 4000,
    split: str = "train",
    mask_rate: float = MASK_RATE,
    copies: Path | None = None,
    seed: int = 0,
) -> Corpus:
    """The corpus of a source of texts (at most `limit` scenes of `split`) or of an embedding file.

    See `corpus_of_texts` and `corpus_of_embeddings` for the other parameters.
    """
    if not 0 < mask_rate < 1:
        raise UsageError(f"the mask rate is between 0 and 1, not {mask_rate}.")
    if Path(src).suffix.lower() in SUFFIXES:
        extra = load_embeddings(copies) if copies else None
        return corpus_of_embeddings(load_embeddings(src), extra, dim=dim, seed=seed)
    if copies:
        raise UsageError("copies belong to an embedding file; the words of texts are hidden here.")
    from coview.data.readers import open_source

    read = list(islice(open_source(src).scenes(split), limit))
    texts, names = [scene.texts for scene in read], [scene.id for scene in read]
    return corpus_of_texts(texts, names, dim=dim, mask_rate=mask_rate, seed=seed)


def corpus_of_texts(
    texts: Sequence[Sequence[str]],
    scenes: Sequence[str],
    *,
    dim: int,
    mask_rate: float = MASK_RATE,
    seed: int = 0,
) -> Corpus:
    """Bags of words of texts grouped by scene, under good, bad and next-token views.

    good: two texts of one scene. bad: two copies of one text, each word hidden with probability `mask_rate`.
    next-token: the words before and after a random place of one text.

    Parameters
    ----------
    texts : for each scene its texts; scenes with fewer than two are left out
    scenes : ids of the scenes
    dim : features kept; see `coview.encoders.bag_of_words`
    """
    kept = [(name, group) for name, group in zip(scenes, texts, strict=True) if len(group) >= 2]
    _require(len(kept), len(scenes))
    shuffle = np.random.default_rng([seed, 3])  # some sources sort the texts of a scene
    told = [group[i] for _, group in kept for i in shuffle.permutation(len(group))]
    bag = fit_bag_of_words(told, min(dim, len(kept) // SCENES_A_FEATURE))
    scene = np.repeat(np.arange(len(kept)), [len(group) for _, group in kept])
    words = [split_words(text) for text in told]
    rng = np.random.default_rng([seed, 1])
    masked = [[w for w in text if rng.random() >= mask_rate] for text in words for _ in range(2)]
    cuts = [int(rng.integers(1, len(text))) if len(text) > 1 else len(text) for text in words]
    parts = [part for text, cut in zip(words, cuts, strict=True) for part in (text[:cut], text[cut:])]

    def rows_of(texts: Iterable[Sequence[str]]) -> np.ndarray:
        return bag.encode(" ".join(text) for text in texts).astype(np.float64)

    def twice(texts: list[list[str]]) -> ViewSample:
        return ViewSample(rows_of(texts), np.repeat(np.arange(len(words)), 2), np.repeat(scene, 2))

    clean = ViewSample(rows_of(words), scene, scene)
    arms = {"good": clean, "bad": twice(masked), "next-token": twice(parts)}
    return Corpus(
        clean,
        arms,
        tuple(name for name, _ in kept),
        f"bags of {len(bag.columns)} words in {bag.width} dimensions, {mask_rate:.0%} hidden in bad views",
    )


def corpus_of_embeddings(
    embeddings: Embeddings, copies: Embeddings | None = None, *, dim: int, seed: int = 0
) -> Corpus:
    """An encoder's rows under good and bad views.

    Parameters
    ----------
    embeddings : with scenes; the last layer is used of a file with several
    copies : embeddings of corrupted copies, whose `scenes` are ids of rows of `embeddings`, optional
        Without it the corruption is modelled as isotropic noise of `MASK_RATE` of the mean variance.
    dim : features kept, the leading principal components

    Raises
    ------
    InputError
        No scenes, or copies of rows that are not there.
    """
    if embeddings.scenes is None:
        raise InputError(
            "the embeddings name no scenes, so nothing says which rows are views of one state.",
            hint="Embed with `coview embed`, which keeps the scene of each row.",
        )
    names, scene, counts = np.unique(embeddings.scenes, return_inverse=True, return_counts=True)
    _require(int((counts >= 2).sum()), len(names))
    many = counts[scene] >= 2
    place = np.cumsum(counts >= 2) - 1
    matrix = _last_layer(embeddings)
    centre = matrix[many].mean(axis=0)
    kept = min(dim, int((counts >= 2).sum()) // SCENES_A_FEATURE, matrix.shape[1])
    basis = leading_directions(matrix[many] - centre, kept)
    rows = (matrix - centre) @ basis
    clean = ViewSample(rows[many], place[scene[many]], place[scene[many]])
    if copies is None:
        noise = np.sqrt(MASK_RATE / (1 - MASK_RATE) * clean.rows.var(axis=0).mean())
        draws = np.random.default_rng([seed, 1]).normal(size=(2, *clean.rows.shape)) * noise
        text = np.arange(len(clean.rows))
        bad = ViewSample(
            np.concatenate([clean.rows + d for d in draws]), np.tile(text, 2), np.tile(clean.scene, 2)
        )
        how = "bad views modelled by isotropic noise"
    else:
        if copies.scenes is None or embeddings.ids is None:
            raise InputError("the scenes of copies must be ids of the rows they are copies of.")
        index = {name: row for row, name in enumerate(embeddings.ids)}
        unknown = next((name for name in copies.scenes if name not in index), None)
        if unknown is not None:
            raise InputError(f"copies of {unknown!r}, which is no row of the embeddings.")
        source = np.array([index[name] for name in copies.scenes])
        usable = many[source]
        bad = ViewSample(
            ((_last_layer(copies) - centre) @ basis)[usable],
            np.unique(source[usable], return_inverse=True)[1],
            place[scene[source[usable]]],
        )
        how = "bad views from corrupted copies"
    scenes = tuple(str(name) for name, count in zip(names, counts, strict=True) if count >= 2)
    return Corpus(clean, {"good": clean, "bad": bad}, scenes, f"embeddings in {kept} dimensions, {how}")


def _last_layer(embeddings: Embeddings) -> np.ndarray:
    matrix = np.asarray(embeddings.matrix, dtype=np.float64)
    return matrix if matrix.ndim == 2 else matrix[:, -1]


def _require(usable: int, given: int) -> None:
    if usable < MIN_SCENES:
        raise InputError(
            f"{usable} of {given} scenes have two observations; an estimate needs at least {MIN_SCENES}.",
            hint="Good views are two observations of one scene.",
        )


def leading_directions(matrix: np.ndarray, dim: int) -> np.ndarray:
    """The `dim` leading principal directions of centred rows (N, D), shape (D, dim)."""
    _, vectors = np.linalg.eigh(matrix.T @ matrix)
    return vectors[:, ::-1][:, :dim]
