"""Figures of the finite worlds: SVG with the numbers beside it as CSV.

Colours are Okabe and Ito's, which colour-blind readers tell apart; marks and dashes differ too. Text is large
enough to be read when a phone shows the figure at its full width.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from coview.runs import atomic_path, write_text
from coview.theory.finite_sample import ARMS, SampleRecord, study_world
from coview.theory.nuisance import dimension_split, scene_explained, sharing_threshold
from coview.theory.prediction import ViewPrediction
from coview.theory.spectral import spectral_jepa
from coview.theory.verify import HEADLINE, KINDS, PAPER_RATIO, WorldRecord
from coview.theory.worlds import Modality

BLUE, ORANGE, GREEN, PINK, SKY, BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000"
ARM_STYLE = {"good": (BLUE, "o", "-"), "bad": (ORANGE, "s", "--"), "next-token": (GREEN, "^", ":")}
KIND_MARKS = dict(
    zip(KINDS, ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"), (SKY, "v")), strict=True)
)
STYLE = {
    "font.size": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 11,
    "svg.fonttype": "none",
    "svg.hashsalt": "coview",
}
ZERO = 1e-6  # errors of 0 are drawn here on a logarithmic axis


def new_axes(height: float = 4.6):
    """A figure of page width and its axes; call within `style`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, height), layout="constrained")
    return figure, figure.subplots()


def predicted_spectra(folder: Path, prediction: ViewPrediction) -> list[str]:
    """How much of each direction of a view definition is about the scene, in the order of the spectrum."""

    def draw():
        figure, axes = new_axes()
        for arm, part in prediction.arms.items():
            colour, mark, _ = ARM_STYLE[arm]
            shown = slice(0, 3 * prediction.dim)
            places = np.arange(1, len(part.direction_scene[shown]) + 1)
            axes.plot(places, part.direction_scene[shown], mark, color=colour, ms=6, label=arm)
        axes.axvline(prediction.dim + 0.5, color=BLACK, ls="--", lw=1.2)
        axes.text(prediction.dim + 0.8, 0.97, f"cut at d = {prediction.dim}", fontsize=11)
        axes.set(xlabel="direction, by its eigenvalue", ylabel="scene-explained fraction, held out")
        axes.set_ylim(-0.05, 1.03)
        axes.legend(loc="upper right", bbox_to_anchor=(1, 0.93))
        return figure

    rows = (
        [arm, place + 1, *map(float, values)]
        for arm, part in prediction.arms.items()
        for place, values in enumerate(zip(part.in_sample, part.held_out, part.direction_scene, strict=True))
    )
    header = ["views", "direction", "eigenvalue_in_sample", "eigenvalue_held_out", "scene_explained_held_out"]
    return save_figure(folder, "predicted_spectra", draw, header, rows)


def save_figure(folder: Path, name: str, draw, header: Sequence[str], rows: Iterable[Sequence]) -> list[str]:
    """Write ``NAME.svg``, drawn by `draw()`, and ``NAME.csv``; returns the two file names."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure = draw()
        with atomic_path(folder / f"{name}.svg") as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": "coview"})
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    write_text(folder / f"{name}.csv", table.getvalue())
    return [f"{name}.svg", f"{name}.csv"]


def error_against_bound(folder: Path, records: Sequence[WorldRecord]) -> list[str]:
    """Error against bound of every world, both over the largest error two encoders can have."""
    points = [
        (r.kind, r.bounds[HEADLINE] / np.sqrt(2 * r.dim), r.errors[HEADLINE] / np.sqrt(2 * r.dim))
        for r in records
        if np.isfinite(r.bounds[HEADLINE])
    ]
    largest = max((r.ratio() for r in records if np.isfinite(r.ratio())), default=0.0)

    def draw():
        figure, axes = new_axes(5.6)
        for kind, (colour, mark) in KIND_MARKS.items():
            drawn = np.array([(b, e) for k, b, e in points if k == kind]).reshape(-1, 2)
            axes.loglog(
                *np.maximum(drawn, ZERO).T, mark, color=colour, ms=5, alpha=0.75, mec="none", label=kind
            )
        ends = np.array([3e-4, max((b for _, b, _ in points), default=1.0) * 2])
        axes.loglog(ends, ends, "-", color=BLACK, lw=1.2, label="error = bound")
        axes.loglog(ends, ends * largest, ":", color=BLACK, lw=1.4, label=f"largest ratio, {largest:.2f}")
        axes.axvspan(1, ends[1], color="0.92", zorder=0)
        axes.text(1.2, ZERO * 3, "bound says\nnothing", color="0.35", fontsize=11)
        axes.set(xlabel="bound / largest possible error", ylabel="error / largest possible error")
        axes.set(xlim=ends, ylim=(ZERO / 2, 10))
        powers = [-4, -2, 0]
        axes.set_yticks([ZERO, *(10.0**p for p in powers)], ["0", *(f"$10^{{{p}}}$" for p in powers)])
        axes.legend(loc="upper left", ncols=2, bbox_to_anchor=(-0.12, 1.27), columnspacing=1)
        return figure

    names = list(records[0].bounds)
    header = ["world", "family", "kind", "scenes", "dim", "modalities", "gap", "zero_residual"]
    header += [f"{what}: {name}" for name in names for what in ("error", "bound")]
    rows = (
        [r.world, r.family, r.kind, r.n_scenes, r.dim, r.modalities, r.gap, r.zero_residual]
        + [value for name in names for value in (r.errors.get(name, ""), r.bounds.get(name, ""))]
        for r in records
    )
    return save_figure(folder, "error_against_bound", draw, header, rows)


def ratio_histogram(folder: Path, records: Sequence[WorldRecord]) -> list[str]:
    """How near the errors come to the one-gap and to the sharp bound."""
    edges = np.append(0, np.logspace(-3, 0, 16))
    forms = {"one gap": (HEADLINE, BLUE), "two gaps (sharp)": ("rotation, two gaps", ORANGE)}
    counts = {}
    for label, (name, _) in forms.items():
        ratios = np.array([r.ratio(name) for r in records])
        counts[label] = np.histogram(ratios[np.isfinite(ratios)], edges)[0]

    def draw():
        figure, axes = new_axes()
        middles = np.arange(len(edges) - 1)
        for shift, (label, (_, colour)) in zip((-0.21, 0.21), forms.items(), strict=True):
            axes.bar(middles + shift, counts[label], 0.42, color=colour, label=label)
        place = np.interp(np.log10(PAPER_RATIO), np.log10(edges[1:]), middles + 0.5)
        axes.axvline(place, color=BLACK, ls="--", lw=1.3, label=f"largest in the paper, {PAPER_RATIO:.0%}")
        ticks = [0.5, 5.5, 10.5, 15.5]
        axes.set_xticks(ticks, ["0.001", "0.01", "0.1", "1"])
        axes.set(xlabel="error / bound (leftmost: below 0.001)", ylabel="worlds")
        axes.legend()
        return figure

    rows = ([edges[i], edges[i + 1], *(int(c[i]) for c in counts.values())] for i in range(len(edges) - 1))
    return save_figure(folder, "ratio_histogram", draw, ["from", "to", *counts], rows)


def spectra(folder: Path, *, dim: int = 6, shown: int = 14) -> list[str]:
    """Leading eigenvalues of good and bad views of the study world, their kind, and the cut."""
    study = study_world()
    kinds = {"scene": (BLUE, "o"), "nuisance": (ORANGE, "s"), "scene x nuisance": (GREEN, "^")}
    lines = {}
    for arm in ("good", "bad"):
        modality = study.texts[arm]
        optimum = spectral_jepa(modality.joint, shown)
        # The share of an eigenfunction that averaging over nuisances, or over scenes, leaves tells its kind.
        scene = ((modality.channel.T @ optimum.half_density) ** 2).sum(axis=0)
        table = optimum.half_density.reshape(len(study.world.joint), -1, shown)
        nuisance = (np.einsum("s,snd->nd", np.sqrt(study.world.marginal), table) ** 2).sum(axis=0)
        kind = np.select([scene > 0.99, nuisance > 0.99], ["scene", "nuisance"], "scene x nuisance")
        lines[arm] = list(zip(range(1, shown + 1), optimum.eigenvalues[:shown], kind, strict=True))

    def draw():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 5.8), layout="constrained")
        panels = figure.subplots(2, 1, sharex=True, sharey=True)
        for axes, (arm, line) in zip(panels, lines.items(), strict=True):
            for kind, (colour, mark) in kinds.items():
                where = [(i, value) for i, value, k in line if k == kind]
                if where:
                    axes.plot(*zip(*where, strict=True), mark, color=colour, ms=8, label=kind)
            axes.vlines([i for i, *_ in line], 0, [v for _, v, _ in line], color="0.8", zorder=0)
            axes.axvline(dim + 0.5, color=BLACK, ls="--", lw=1.2)
            axes.axhspan(line[dim][1], line[dim - 1][1], color="0.88", zorder=-1)
            axes.text(dim + 0.7, 0.86, f"cut at d = {dim}; gap shaded", fontsize=11)
            axes.set_title(f"{arm} views", loc="left", fontsize=13)
            axes.set(ylabel="eigenvalue", ylim=(0, 0.98))
        marks = panels[1].get_legend_handles_labels()  # all kinds; the upper panel has room for them
        panels[0].legend(*marks, loc="upper right", bbox_to_anchor=(1, 0.85))
        panels[1].set_xlabel("direction")
        return figure

    rows = ([arm, *row] for arm, line in lines.items() for row in line)
    return save_figure(folder, "spectra", draw, ["views", "direction", "eigenvalue", "kind"], rows)


def explained_against_sharing(folder: Path, *, dim: int = 6, points: int = 101) -> list[str]:
    """Scene-explained fraction of bad views against how often the nuisance is shared."""
    study = study_world()
    style = study.style_joint
    threshold = sharing_threshold(study.world, style, dim)
    grid = np.linspace(0, 1, points)
    predicted = [dimension_split(study.world, style, dim, sharing=s).scene_explained for s in grid]
    measured = []
    for sharing in grid[:: points // 10]:
        modality = Modality.render(study.world, view="bad", sharing=sharing, nuisance_joint=style)
        measured.append(scene_explained(modality, spectral_jepa(modality.joint, dim)))

    def draw():
        figure, axes = new_axes()
        axes.plot(grid, predicted, "-", color=BLUE, lw=2, label="scene dimensions / d, counted")
        axes.plot(grid[:: points // 10], measured, "o", color=ORANGE, ms=8, label="of the solved encoder")
        axes.axvline(threshold, color=BLACK, ls="--", lw=1.2)
        axes.text(threshold - 0.02, 0.2, f"threshold {threshold:.2f}", ha="right", fontsize=12)
        axes.set(xlabel="probability that a positive shares the style", ylabel="scene-explained fraction")
        axes.set_ylim(0, 1.06)
        axes.legend(loc="lower left")
        return figure

    solved = dict(zip(grid[:: points // 10], measured, strict=True))
    rows = ([float(s), p, solved.get(s, "")] for s, p in zip(grid, predicted, strict=True))
    return save_figure(folder, "explained_against_sharing", draw, ["sharing", "counted", "solved"], rows)


def alignment_against_samples(folder: Path, records: Sequence[SampleRecord]) -> list[str]:
    """Mutual k-NN of text and image encoder against positive pairs seen, each seed a thin line."""

    def draw():
        figure, axes = new_axes()
        sizes = sorted({r.samples for r in records} - {0})
        for arm in ARMS:
            colour, mark, dashes = ARM_STYLE[arm]
            mine = [r for r in records if r.arm == arm]
            by_seed = [
                [next(r.mutual_knn for r in mine if (r.samples, r.seed) == (size, seed)) for size in sizes]
                for seed in sorted({r.seed for r in mine})
            ]
            axes.semilogx(sizes, np.transpose(by_seed), "-", color=colour, lw=0.7, alpha=0.5)
            axes.semilogx(
                sizes, np.mean(by_seed, axis=0), dashes, marker=mark, color=colour, lw=2, ms=7, label=arm
            )
            limit = np.mean([r.mutual_knn for r in mine if r.samples == 0])
            axes.plot([sizes[-1] * 1.5], [limit], mark, mfc="none", mec=colour, ms=9, mew=2)
        chance = records[0].chance
        axes.axhline(chance, color=BLACK, ls="--", lw=1)
        axes.text(sizes[-1], chance + 0.015, "chance", fontsize=11, ha="center")
        axes.set(xlabel="positive pairs seen (hollow: the population)", ylabel="mutual 10-NN with images")
        axes.set_ylim(0, 1.04)
        axes.legend(loc="upper left")
        return figure

    rows = ([r.arm, r.samples, r.seed, r.mutual_knn, r.scene_explained] for r in records)
    header = ["arm", "samples", "seed", "mutual_knn", "scene_explained"]
    return save_figure(folder, "alignment_against_samples", draw, header, rows)
