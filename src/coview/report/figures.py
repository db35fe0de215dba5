"""Figures of a study: SVG with the numbers beside it as CSV.

They are narrow and their letters large, so that they can be read at the width of a phone. Arms have the
colours and marks that they have in the figures of the theory.
"""

import io
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path

from coview.alignment.report import as_csv, cell
from coview.report.text import mean, number
from coview.runs import write_text
from coview.theory.figures import ARM_STYLE, BLACK, STYLE

CONTROL = ("#777777", "D", "-")
WIDTH = 5.2  # inches; 374 units across, so that letters of 12 are 11 pixels high on a phone
LABEL_LENGTH = 18


@dataclass(frozen=True)
class StudyFigure:
    """One figure.

    Attributes
    ----------
    name : str, of the files
    title : str
    caption : str, how to read it
    alt : str, what it shows, for those who cannot see it
    svg : str
    csv : str, the numbers it shows
    """

    name: str
    title: str
    caption: str
    alt: str
    svg: str
    csv: str


def write_figures(result: dict, folder: str | Path) -> list[str]:
    """Write ``NAME.svg`` and ``NAME.csv`` of every figure; returns the file names.

    Parameters
    ----------
    result : dict, as `coview.study.run_study` returns it
    folder : where to; made if it is not there
    """
    folder, names = Path(folder), []
    for figure in study_figures(result):
        write_text(folder / f"{figure.name}.svg", figure.svg)
        write_text(folder / f"{figure.name}.csv", figure.csv)
        names += [f"{figure.name}.svg", f"{figure.name}.csv"]
    return names


def study_figures(result: dict) -> list[StudyFigure]:
    """All figures of a study; the same result gives the same bytes."""
    return [alignment_while_training(result), mutual_knn_of_all(result), scene_explained_of_all(result)]


def alignment_while_training(result: dict) -> StudyFigure:
    """Mutual k-NN against scenes seen: each seed a thin line, the mean of seeds a thick one."""
    arms, chance, label = result["arms"], result["chance"], f"mutual {result['k']}-NN"
    means = {name: _mean_curve(arm["curve"]) for name, arm in arms.items()}
    first = min(seen for curve in means.values() for seen, _ in curve if seen > 0)
    last = max(seen for curve in means.values() for seen, _ in curve)

    def placed(curve):
        """A curve with its start, where nothing is learnt yet, half of the first step before that step."""
        return zip(*((seen or first / 2, score) for seen, score in curve), strict=True)

    def draw(axes):
        for name, arm in arms.items():
            colour, mark, dashes = ARM_STYLE[name]
            for curve in arm["curve"]:
                axes.plot(*placed(curve), ".-", color=colour, lw=0.8, ms=5, alpha=0.6)
            axes.plot(*placed(means[name]), dashes, marker=mark, color=colour, lw=2.4, ms=7, label=name)
        axes.axhline(chance, ls=":", color=BLACK, lw=1.4, label="chance")
        axes.set_xscale("log")
        axes.set_xticks(*_ticks(first, last))
        axes.set_xticks([], minor=True)
        axes.set(xlabel="scenes seen in training (log scale)", ylabel=label)
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.16, 1.0), ncols=4, columnspacing=1, handlelength=1.4)

    rows = [
        (name, seed, seen, score)
        for name, arm in arms.items()
        for seed, curve in zip(result["seeds"], arm["curve"], strict=True)
        for seen, score in curve
    ]
    ends = ", ".join(f"{name} {number(curve[-1][1], 3)}" for name, curve in means.items())
    alt = (
        f"Lines of {label} against scenes seen. Mean of seeds at the end: {ends}; chance {number(chance, 3)}."
    )
    return StudyFigure(
        "alignment_while_training",
        "Alignment while training",
        "On held-out scenes. Thin lines: every seed. Thick: their mean. Dotted: unrelated encoders.",
        alt,
        _svg(draw, 3.9),
        as_csv([("arm", "seed", "scenes_seen", "mutual_knn"), *rows]),
    )


def mutual_knn_of_all(result: dict) -> StudyFigure:
    """Mutual k-NN of arms and controls, with 95 % of each mean over the scenes, and chance."""
    bars = {
        name: _about(mean(arm["mutual_knn"]), mean(arm["mutual_knn_stderr"]))
        for name, arm in result["arms"].items()
    }
    for name, control in result["controls"].items():
        bars[name] = _about(control.get("mutual_knn"), control.get("mutual_knn_stderr"))
    return _dots(
        result,
        "mutual_knn",
        bars,
        name="mutual_knn",
        title="Alignment, arms and controls",
        label=f"mutual {result['k']}-NN with the image encoder",
        caption="Bars: 95 % over scenes. Small dots: every seed. Grey: controls.",
    )


def scene_explained_of_all(result: dict) -> StudyFigure:
    """Scene-explained fraction of arms and controls, with 95 % from resampling scenes."""
    bars = {}
    for name, arm in result["arms"].items():
        lows, highs = zip(*(ends or (None, None) for ends in arm["scene_explained_interval"]), strict=True)
        bars[name] = (mean(arm["scene_explained_fraction"]), mean(lows), mean(highs))
    for name, control in result["controls"].items():
        low, high = control.get("scene_explained_interval") or (None, None)
        bars[name] = (control.get("scene_explained_fraction"), low, high)
    return _dots(
        result,
        "scene_explained_fraction",
        bars,
        name="scene_explained",
        title="Scene-explained fraction",
        label="scene-explained fraction",
        caption="How much of an embedding is about the scene. Bars: 95 % from resampling scenes. "
        "Small dots: every seed. Grey: controls.",
    )


# A value and the ends of its interval, None where unknown.
Bar = tuple[float | None, float | None, float | None]


def _dots(
    result: dict, key: str, bars: dict[str, Bar], *, name: str, title: str, label: str, caption: str
) -> StudyFigure:
    """One row an arm or control: every seed a small dot under the mean. What has no value has no row."""
    arms = result["arms"]
    shown = [(who, *bar) for who, bar in bars.items() if bar[0] is not None and math.isfinite(bar[0])]
    chance = result["chance"] if key == "mutual_knn" else None

    def draw(axes):
        for row, (who, value, low, high) in enumerate(shown):
            colour, mark, _ = ARM_STYLE[who] if who in arms else CONTROL
            if low is not None and high is not None:
                axes.plot([low, high], [row, row], "-", color=colour, lw=2)
            axes.plot([value], [row], mark, color=colour, ms=8 if who in arms else 6)
            if who in arms:
                axes.plot(
                    arms[who][key], [row + 0.3] * len(result["seeds"]), "o", color=colour, ms=3.5, alpha=0.7
                )
        if chance is not None:
            axes.axvline(chance, ls=":", color=BLACK, lw=1.4)
            axes.text(chance, -0.75, " chance", va="center", fontsize=11)
        axes.axhline(len(arms) - 0.4, color=BLACK, lw=0.6, alpha=0.3)
        names = ["\n".join(textwrap.wrap(who, LABEL_LENGTH)) for who, *_ in shown]
        axes.set_yticks(range(len(shown)), names, parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(shown) - 0.4, -1)
        left, right = axes.get_xlim()
        axes.set_xlim(min(left, -0.03 * right), right)
        axes.locator_params(axis="x", nbins=6)
        axes.grid(axis="x", color=BLACK, alpha=0.12, lw=0.8)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(label)

    seeds = result["seeds"]
    rows = []
    for who, bar in bars.items():
        by_seed = arms[who][key] if who in arms else [None] * len(seeds)
        rows.append(tuple("" if value is None else value for value in (cell(who), *bar, *by_seed)))
    values = ", ".join(f"{who} {number(value, 3)}" for who, value, *_ in shown)
    alt = f"Dots with error bars, {label}: {values}" + (f"; chance {number(chance, 3)}." if chance else ".")
    return StudyFigure(
        name,
        title,
        caption,
        alt,
        _svg(draw, 1.2 + 0.46 * len(shown)),
        as_csv([("encoder", key, "low", "high", *(f"seed {seed}" for seed in seeds)), *rows]),
    )


def _mean_curve(curves: list[list[list[float]]]) -> list[tuple[float, float]]:
    """Mean over seeds, where all seeds were measured."""
    by_seed = [{seen: score for seen, score in curve} for curve in curves]
    common = sorted(set.intersection(*(set(curve) for curve in by_seed)))
    return [(seen, sum(curve[seen] for curve in by_seed) / len(by_seed)) for seen in common]


def _ticks(first: float, last: float) -> tuple[list[float], list[str]]:
    """Places and labels on a logarithmic axis of counts; the start, 0, stands half of the first before it."""
    from matplotlib.ticker import EngFormatter

    powers = range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
    for digits in ((1, 2, 5), (1,)):
        places = [digit * 10.0**power for power in powers for digit in digits]
        places = [place for place in places if first <= place <= 1.05 * last]
        if len(places) <= 6:
            break
    return [first / 2, *places], ["0", *map(EngFormatter(sep=""), places)]


def _about(value: float | None, stderr: float | None) -> Bar:
    """A value and the interval of 1.96 standard errors about it."""
    if value is None or stderr is None or not math.isfinite(stderr):
        return value, None, None
    return value, value - 1.96 * stderr, value + 1.96 * stderr


def _svg(draw, height: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "font.size": 12}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.subplots()
        axes.patch.set_visible(False)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": "coview"})
    return text.getvalue()
