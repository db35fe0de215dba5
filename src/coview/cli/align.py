"""`coview align`: how aligned two encoders are."""

from pathlib import Path

from coview.alignment import Alignment
from coview.alignment.measure import align as measure
from coview.cli import emit
from coview.embeddings import load_embeddings
from coview.errors import InputError


def align(
    a: Path,
    b: Path,
    /,
    *,
    metric: str = "mutual_knn",
    k: int = 10,
    recipe: str = "center",
    similarity: str = "cosine",
    layers: str = "max",
    captions: str = "mean",
    exclude_ids: Path | None = None,
    queries: int | None = None,
    permutations: int = 1000,
    splits: int = 50,
    seed: int = 0,
    json: bool = False,
):
    """Score two files of embeddings: score, chance, error, p and a signature.

    Parameters
    ----------
    a
        Embeddings of one encoder (.safetensors, .npy, .npz, .parquet).
    b
        Embeddings of the other, paired by id.
    metric
        What to measure.
    k
        Neighbours.
    recipe
        Preparation: center, prh, prh-exact or raw.
    similarity
        What near means: cosine, dot or euclidean.
    layers
        Of stacks: max, cross (best pair chosen on half, scored on the other), last, or I,J.
    captions
        Several rows a scene on one side: mean, first or each.
    exclude_ids
        A file with one id or scene a line to leave out.
    queries
        Ask that many sampled rows only, against all: for large files.
    permutations
        Re-pairings for the p-value; 0 for none.
    splits
        Random halvings for the standard error.
    seed
        Of permutations, splits and sampling.
    json
        One JSON document.
    """
    result = measure(
        load_embeddings(a),
        load_embeddings(b),
        metric=metric,
        k=k,
        recipe=recipe,
        similarity=similarity,
        layers=layers,
        captions=captions,
        exclude=read_ids(exclude_ids) if exclude_ids else (),
        queries=queries,
        permutations=permutations,
        splits=splits,
        seed=seed,
    )
    emit("align", as_document(result, str(a), str(b)), as_json=json, text=as_text(result, str(a), str(b)))


def read_ids(source: Path) -> list[str]:
    """Ids of a text file, one a line."""
    try:
        return [line for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as a list of ids: {error}.", where=str(source)) from error


def as_document(result: Alignment, a: str, b: str) -> dict:
    """The result as JSON."""
    return {
        "a": a,
        "b": b,
        "score": result.score,
        "chance": result.chance,
        "stderr": result.stderr,
        "interval": list(result.interval),
        "z": result.z,
        "p": result.p,
        "permutations": len(result.null),
        "distinguishable_from_chance": result.distinguishable,
        "adjusted": result.adjusted,
        "calibrated": result.calibrated,
        "n": result.n,
        "k": result.k,
        "metric": result.metric,
        "recipe": result.recipe,
        "layers": list(result.layers),
        "matrix": result.matrix.tolist(),
        "cross_fitted": result.cross_fitted,
        "halves": result.halves.tolist(),
        "notes": list(result.notes),
        "signature": result.signature,
    }


def as_text(result: Alignment, a: str, b: str) -> str:
    """The result in words."""
    lines = [f"{a}  against  {b}", "", f"{result.metric}   {result.score:.4f} ± {result.stderr:.4f}   "
             f"(chance {result.chance:.4f}, n = {result.n:,})"]  # fmt: skip
    if result.p is not None:
        floor = 1 / (len(result.null) + 1)
        lines.append(
            f"p = {result.p:.4g} of {len(result.null):,} permutations (the smallest reachable is {floor:.2g})"
        )
    if result.z is not None:
        lines.append(f"z = {result.z:.1f}")
    if not result.distinguishable:
        lines.append("Not distinguishable from chance: unrelated spaces score as high.")
    if result.matrix.size > 1:
        rows, columns = result.matrix.shape
        lines.append(
            f"best of {rows} x {columns} layer pairs: {result.layers[0]} against {result.layers[1]}; "
            f"cross-fitted {result.cross_fitted:.4f}"
        )
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join([*lines, "", result.signature])
