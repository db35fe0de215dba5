"""`coview worlds`: the theorem on finite worlds, worlds written by hand, and what a corpus predicts."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from coview.cli import emit
from coview.cli.progress import progress_of

if TYPE_CHECKING:
    from coview.errors import CheckFailed

worlds = App(
    name="worlds", help="The theorem and its bound on finite worlds, and what they predict for a corpus."
)


@worlds.command
def run(*, n: int = 300, seed: int = 0, out: Path | None = None, json: bool = False) -> None:
    """Check the theorem and every bound on random finite worlds; exit 5 if one is broken.

    Parameters
    ----------
    n
        Number of worlds.
    seed
        World i depends on (seed, i) alone.
    out
        Folder for the table and the figures (SVG, with the numbers beside them as CSV).
    json
        Print one JSON document.
    """
    _keep_to_one_thread()
    from coview.errors import UsageError
    from coview.theory.verify import PAPER_RATIO, summarise, verify_worlds
    from coview.theory.wording import run_text

    if n < 1:
        raise UsageError(f"--n is at least 1, not {n}.")
    with progress_of("worlds", n) as update:
        records = verify_worlds(n, seed, progress=lambda done: update(done, ""))
    result = summarise(records)
    result["paper_max_ratio"] = PAPER_RATIO
    result["broken"] = [{"world": r.world, "what": list(r.violations)} for r in records if r.violations]
    files = _write_figures(out, records) if out else []
    result["files"] = files
    text = run_text(result, PAPER_RATIO)
    text += f"\n{len(files)} files in {out}" if out else "\nAdd --out FOLDER for the table and the figures."
    error = _broken(result, seed)
    emit(
        "worlds.run",
        result,
        as_json=json,
        text=text,
        **({"ok": False, "error": error.as_json()} if error else {}),
    )
    if error:
        print(f"coview worlds: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


@worlds.command
def show(file: Path, /, *, json: bool = False) -> None:
    """Solve a small world written by hand: spectrum, what is identified, misalignment predicted and actual.

    Parameters
    ----------
    file
        A world in YAML; ``examples/worlds`` has three.
    json
        Print one JSON document.
    """
    from coview.theory.wording import show_text
    from coview.theory.world_file import describe_world, read_world

    result = describe_world(read_world(file))
    emit("worlds.show", result, as_json=json, text=show_text(result))


@worlds.command(name="from")
def predict(
    src: str,
    /,
    *,
    dim: int = 16,
    k: int = 10,
    scenes: int = 4000,
    features: int = 256,
    split: str = "train",
    mask_rate: float = 0.3,
    copies: Path | None = None,
    against: Path | None = None,
    seed: int = 0,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Before training: which view definition should align better on this corpus, and by how much.

    Parameters
    ----------
    src
        A source of texts grouped by scene (used as bags of words), or an embedding file that names scenes.
    dim
        Dimensions of the encoders that are compared.
    k
        Neighbours.
    scenes
        Scenes of a source that are read at most.
    features
        Dimensions that the texts or embeddings are reduced to; fewer when there are few scenes.
    split
        Split of a source that is read.
    mask_rate
        Share of the words that a bad view hides.
    copies
        For an embedding file: embeddings of corrupted copies, each naming as its scene the id of the row it
        is a copy of. Without it the corruption is modelled as isotropic noise.
    against
        Embedding file of another encoder with a row for each scene (ids or scenes are scene ids): predicts
        the mutual k-NN with it.
    seed
        Of masks, splits and folds.
    out
        Folder for the spectra (SVG and CSV).
    json
        Print one JSON document.
    """
    _keep_to_one_thread()
    from coview.embeddings import load_embeddings
    from coview.theory.corpus import read_corpus
    from coview.theory.prediction import FOLDS, predict_views
    from coview.theory.wording import prediction_text

    corpus = read_corpus(
        src, dim=features, limit=scenes, split=split, mask_rate=mask_rate, copies=copies, seed=seed
    )
    other = None
    if against is not None:
        corpus, other = corpus.beside(load_embeddings(against), str(against))
    with progress_of("folds", FOLDS) as update:
        prediction = predict_views(
            corpus, dim, k=k, seed=seed, against=other, progress=lambda done: update(done, "")
        )
    result = {"source": src, "features": corpus.features, **prediction.as_json()}
    if out:
        from coview.theory.figures import predicted_spectra

        result["files"] = predicted_spectra(out, prediction)
    emit("worlds.from", result, as_json=json, text=prediction_text(result))


def _keep_to_one_thread() -> None:
    """Call before NumPy is imported. On matrices of a few hundred rows, threads that wait for each other cost
    up to twenty times the work when other programs use the cores."""
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def _broken(result: dict, seed: int) -> "CheckFailed | None":
    from coview.errors import CheckFailed

    if not result["violations"]:
        return None
    first = result["broken"][0]
    return CheckFailed(
        f"{result['violations']} violations; the first: {', '.join(first['what'])}.",
        where=f"world {first['world']} of seed {seed}",
    )


def _write_figures(out: Path, records: list) -> list[str]:
    from coview.theory import figures
    from coview.theory.finite_sample import run_study

    study = run_study()
    return [
        *figures.error_against_bound(out, records),
        *figures.ratio_histogram(out, records),
        *figures.spectra(out),
        *figures.explained_against_sharing(out),
        *figures.alignment_against_samples(out, study),
    ]
