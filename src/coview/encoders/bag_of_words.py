"""Bag of words: TF-IDF and truncated SVD, fitted on texts. The baseline that knows no order and no context.

It is what scikit-learn's `TfidfVectorizer` followed by `TruncatedSVD` computes (smoothed IDF, rows of unit
length, words of two letters or more), here on SciPy's sparse matrices.
"""

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from coview.encoders.encoder import Encoder
from coview.errors import InputError, UsageError
from coview.runs import hash_bytes

WORD = re.compile(r"\b\w\w+\b")


class BagOfWords(Encoder):
    """Rows of texts in the leading singular directions of a word count.

    Parameters
    ----------
    words : the vocabulary, sorted
    weights : ndarray of shape (words,), the inverse document frequency of each word
    directions : ndarray of shape (words, width), orthonormal columns
    """

    modality = "text"

    def __init__(self, words: list[str], weights: np.ndarray, directions: np.ndarray, name: str = "bow:"):
        self.columns = {word: column for column, word in enumerate(words)}
        self.weights, self.directions, self.name = weights, directions, name
        self.width = directions.shape[1]
        self.fingerprint = hash_bytes("\n".join(words).encode(), weights.tobytes(), directions.tobytes())

    def encode(self, items: Iterable[str], layers: str = "last") -> np.ndarray:
        self.select(layers)
        rows = weigh(count_words(items, self.columns), self.weights) @ self.directions
        return self.arrange({self.last: rows.astype(np.float32)}, layers)


def fit_bag_of_words(texts: Iterable[str], width: int = 256, name: str = "bow:") -> BagOfWords:
    """Fit the vocabulary, the weights and the directions on `texts`; the same texts give the same rows.

    Parameters
    ----------
    texts : iterable of str
    width : number of directions; fewer if the texts have no more than that

    Raises
    ------
    InputError
        The texts hold fewer than three different words, or there are fewer than three texts.
    """
    texts = list(texts)
    words = sorted(Counter(word for text in texts for word in set(split_words(text))))
    if min(len(texts), len(words)) < 3:
        raise InputError(
            f"{len(texts)} texts with {len(words)} different words are too few for a bag of words.",
            where=name,
            hint="Fit it on more texts: bow:SRC takes the training split of SRC.",
        )
    counts = count_words(texts, {word: column for column, word in enumerate(words)})
    holding = np.bincount(counts.indices, minlength=len(words))
    weights = np.log((1 + len(texts)) / (1 + holding)) + 1
    width = min(width, len(texts) - 1, len(words) - 1)
    weighed = weigh(counts, weights)
    gram = weighed.T @ weighed  # its eigenvectors are the right singular vectors, and it has far fewer rows
    subspace = min(len(words), max(width * 3 // 2, width + 20))  # 1.5 times: a third faster than SciPy's 2
    if subspace < len(words) // 2:  # a fixed start makes the iteration repeatable
        values, vectors = eigsh(gram, k=width, v0=np.ones(len(words)), ncv=subspace, tol=1e-8)
    else:  # where few words leave empty directions, the iteration would fill them by chance
        values, vectors = np.linalg.eigh(gram.toarray())
    vectors = vectors[:, np.argsort(-values, kind="stable")[:width]]
    # The sign of a direction is free: its largest entry gets +.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(0)[None], axis=0)
    return BagOfWords(words, weights, np.ascontiguousarray(vectors * np.sign(largest)), name)


def load_bag_of_words(source: str, width: str) -> BagOfWords:
    """Fit on the training texts of the source that SRC names."""
    from coview.data.readers import open_source

    if not width.isdecimal() or int(width) < 1:
        raise UsageError(f"the width must be a whole number of 1 or more, not {width!r}.", where="width=")
    texts = (text for scene in open_source(source).scenes("train") for text in scene.texts)
    encoder = fit_bag_of_words(texts, int(width), f"bow:{source}")
    encoder.name += f",width={encoder.width}"  # which few texts make smaller than what was asked for
    return encoder


def split_words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def count_words(texts: Iterable[str], columns: dict[str, int]) -> csr_array:
    """How often each known word stands in each text, shape (texts, words)."""
    indices: list[int] = []
    counts: list[int] = []
    ends = [0]
    for text in texts:
        found = Counter(columns[word] for word in split_words(text) if word in columns)
        indices += sorted(found)
        counts += [found[column] for column in sorted(found)]
        ends.append(len(indices))
    shape = (len(ends) - 1, len(columns))
    return csr_array((np.array(counts, np.float64), np.array(indices, np.int64), ends), shape=shape)


def weigh(counts: csr_array, weights: np.ndarray) -> csr_array:
    """Counts times inverse document frequency, rows then of unit length; one without words stays zero."""
    rows = counts.copy()
    rows.data = counts.data * weights[counts.indices]
    sizes = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    lengths = np.sqrt(np.bincount(sizes, rows.data**2, minlength=rows.shape[0]))
    rows.data /= lengths[sizes]
    return rows
