"""Heat maps of scores and curves against the sample size, as SVG and PNG."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coview.alignment.many import CurvePoint
from coview.runs import atomic_path

STYLE = {"font.size": 12, "svg.fonttype": "none", "svg.hashsalt": "coview", "legend.frameon": False}
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


def heat_map(
    folder: Path, name: str, scores: np.ndarray, rows: Sequence[str], columns: Sequence[str], label: str
) -> list[str]:
    """Scores as colours with the numbers written in; `NAME.svg` and `NAME.png`. Returns the file names."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        height, width = scores.shape
        figure = Figure(figsize=(2.5 + 0.75 * width, 1.8 + 0.6 * height), layout="constrained")
        axes = figure.subplots()
        shown = np.where(np.isfinite(scores), scores, np.nan)
        image = axes.imshow(shown, cmap="viridis", aspect="auto")
        axes.set_xticks(range(width), columns, rotation=45, ha="right")
        axes.set_yticks(range(height), rows)
        middle = (np.nanmin(shown) + np.nanmax(shown)) / 2
        for i, j in np.ndindex(*scores.shape):
            if np.isfinite(scores[i, j]):
                colour = "white" if shown[i, j] < middle else "black"
                axes.text(j, i, f"{scores[i, j]:.3f}", ha="center", va="center", color=colour, fontsize=9)
        figure.colorbar(image, label=label)
        return _save(folder, name, figure)


def curve(folder: Path, name: str, curves: dict[str, list[CurvePoint]], label: str) -> list[str]:
    """Score against n at fixed k and at fixed k / n, with chance dotted; `NAME.svg` and `NAME.png`."""
    import matplotlib
    from matplotlib.figure import Figure

    titles = {"fixed_k": "fixed k", "fixed_share": "k a fixed share of n"}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.6), layout="constrained")
        axes = figure.subplots()
        for (kind, points), colour, mark in zip(curves.items(), (BLUE, ORANGE), ("o-", "s--"), strict=True):
            n = [point.n for point in points]
            errors = [1.96 * point.stderr for point in points]
            axes.errorbar(
                n, [p.score for p in points], errors, fmt=mark, color=colour, label=titles[kind], capsize=3
            )
            axes.plot(n, [p.chance for p in points], ":", color=colour, lw=1)
        axes.plot([], [], ":", color=GREY, label="chance")
        axes.set(xscale="log", xlabel="samples n", ylabel=label)
        axes.legend()
        return _save(folder, name, figure)


def _save(folder: Path, name: str, figure) -> list[str]:
    files = [f"{name}.svg", f"{name}.png"]
    for file in files:
        with atomic_path(folder / file) as temporary:
            metadata = {"Date": None} if file.endswith("svg") else None
            figure.savefig(temporary, dpi=150, metadata=metadata)
    return files
