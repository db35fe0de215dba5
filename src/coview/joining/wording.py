"""Maps and read-outs in words and tables."""

from collections.abc import Sequence

from coview.joining.curve import Evaluation, Point
from coview.joining.read_out import TOP, Direction, Estimate, ReadOut
from coview.joining.rotation import Rotation
from coview.joining.unpaired import UnpairedFit

WAYS = {"x_to_y": "A to B", "y_to_x": "B to A"}
CHANCE = 0.5  # of FOSCTTM


def rank_notes(rotation: Rotation) -> list[str]:
    """What to say where pairs determine fewer directions than the narrower side has, and why."""
    rank, pairs = rotation.manifest["rank"], rotation.manifest["pairs"]
    narrow = min(rotation.matrix.shape)
    if rank >= narrow:
        return []
    if pairs <= narrow:
        return [f"{pairs:,} pairs determine {rank} of {narrow} directions; the others are mapped to zero"]
    return [
        f"the rows of {pairs:,} pairs vary together along {rank} of {narrow} directions, as where a column "
        "is constant, columns add up to a constant or rows repeat; the others are mapped to zero"
    ]


def chance_notes(judged: Evaluation) -> list[str]:
    """What to say where FOSCTTM, in the direction that does worse, cannot be told from chance."""
    directions = (judged.plain.x_to_y.foscttm, judged.plain.y_to_x.foscttm)
    worse = max(directions, key=lambda found: found.high)
    if worse.high < CHANCE:
        return []
    return [
        f"judged on {judged.plain.scenes:,} scenes the map is not measurably better than chance: "
        f"FOSCTTM {_interval(worse)}, chance {CHANCE}"
    ]


def fit_words(rotation: Rotation, judged: Evaluation, notes: list[str], path: str) -> str:
    facts = rotation.manifest
    recipe = facts["recipe"]
    chosen = f", penalty {recipe['strength']:g}" if "strength" in recipe else ""
    head = f"{recipe['method']}{chosen} on {facts['pairs']:,} pairs, judged on held-out scenes:"
    return "\n".join([head, evaluation_words(judged, notes), facts["signature"], path])


def unpaired_words(found: UnpairedFit, notes: list[str], path: str) -> str:
    fit = found.fit
    lines = [
        f"{fit.verdict}, with no pair" if not fit.known_pairs else f"{fit.verdict}, {fit.known_pairs} known"
    ]
    lines += [f"because {reason}" for reason in fit.reasons]
    if fit.evidence:
        lines.append(
            f"score {fit.score:.3f}, best of flipped axes {fit.null:.3f}, a side with itself "
            f"{fit.evidence.self_score:.3f}; disjoint halves agree to {fit.agreement:.3f}"
        )
    lines += [
        f"non-Gaussianity of {side}: skewness {shape.skewness:.3f} ({shape.skewness_z:.0f} standard "
        f"deviations), kurtosis {shape.kurtosis:+.3f} ({shape.kurtosis_z:.0f})"
        for side, shape in zip("AB", fit.non_gaussianity, strict=True)
    ]
    if found.rotation is None:
        return "\n".join([*lines, *(f"note: {note}" for note in notes), "no file was written"])
    if found.judged:
        lines.append(evaluation_words(found.judged, notes))
    else:
        lines += [f"note: {note}" for note in notes]
    return "\n".join([*lines, found.rotation.manifest["signature"], path])


def evaluation_words(judged: Evaluation, notes: list[str]) -> str:
    plain = judged.plain
    lines = [
        f"{'':14}{'':8}" + "".join(f"{f'R@{k}':>22}" for k in TOP) + f"{'median rank':>13}{'FOSCTTM':>9}"
    ]
    for name, read in (("cosine", plain), (f"CSLS k={judged.csls.hub_neighbours}", judged.csls)):
        lines += [_row(name, words, getattr(read, way)) for way, words in WAYS.items()]
    lines += [_chance_row(plain, way, words) for way, words in WAYS.items()]
    queries = f"{plain.scenes:,} scenes; {plain.x_to_y.queries:,} rows of A, {plain.y_to_x.queries:,} of B"
    lines += [f"{queries}; [95 % by resampling scenes]; CSLS looks at all queries at once"]
    return "\n".join([*lines, *(f"note: {note}" for note in notes), judged.signature])


def _row(name: str, way: str, found: Direction) -> str:
    recalls = "".join(f"{_interval(found.recall[k]):>22}" for k in TOP)
    return f"{name:14}{way:8}{recalls}{found.median_rank:>13.1f}{found.foscttm.value:>9.4f}"


def _chance_row(read: ReadOut, way: str, words: str) -> str:
    found = getattr(read, way)
    return (
        f"{'chance':14}{words:8}"
        + "".join(f"{found.chance[k]:>22.4f}" for k in TOP)
        + f"{'':13}{CHANCE:>9.4f}"
    )


def _interval(one: Estimate) -> str:
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def curve_document(points: list[Point], notes: Sequence[str]) -> dict:
    """The curve as JSON, chance as the point with no pairs beside it."""
    read = points[0].evaluations[0].plain
    chance = {way: {f"recall_{k}": getattr(read, way).chance[k] for k in TOP} for way in WAYS}
    return {
        "scenes": read.scenes,
        "rows": [read.x_to_y.queries, read.y_to_x.queries],
        "chance": {**chance, "foscttm": CHANCE},
        "points": [point.as_json() for point in points],
        "notes": list(notes),
    }


def curve_words(points: list[Point], notes: Sequence[str]) -> str:
    seeds = len(points[0].evaluations)
    head = f"{'pairs':>8}  {'':10}" + "".join(
        f"{f'{words} R@{k}':>15}" for words in WAYS.values() for k in TOP
    )
    lines = [head + f"{'FOSCTTM':>9}"]
    for point in points:
        document = point.as_json()
        for kind in ("plain", "csls"):
            found = document[kind]
            cells = [_mean(found[way][f"recall_{k}"]) for way in WAYS for k in TOP]
            label = f"{point.pairs:>8,}" if kind == "plain" else f"{'':8}"
            name = {"plain": "cosine", "csls": "CSLS"}[kind]
            lines.append(
                f"{label}  {name:10}"
                + "".join(f"{cell:>15}" for cell in cells)
                + f"{found['foscttm']['mean']:>9.4f}"
            )
    read = points[0].evaluations[0].plain
    chances = "".join(f"{getattr(read, way).chance[k]:>15.4f}" for way in WAYS for k in TOP)
    lines.append(f"{'':8}  {'chance':10}{chances}{CHANCE:>9.4f}")
    lines.append(f"{read.scenes:,} held-out scenes; mean ± standard deviation over {seeds} seeds")
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


def curve_csv(points: list[Point]) -> str:
    lines = ["pairs,seed,read_out,direction," + ",".join(f"recall_{k}" for k in TOP) + ",median_rank,foscttm"]
    for point in points:
        for seed, judged in enumerate(point.evaluations):
            for kind in ("plain", "csls"):
                for way in WAYS:
                    found = getattr(getattr(judged, kind), way)
                    cells = [found.recall[k].value for k in TOP]
                    numbers = [*cells, found.median_rank, found.foscttm.value]
                    lines.append(
                        f"{point.pairs},{seed},{kind},{way}," + ",".join(f"{n:.6g}" for n in numbers)
                    )
    return "\n".join(lines) + "\n"


def _mean(spread: dict) -> str:
    if spread["deviation"] is None:
        return f"{spread['mean']:.3f}"
    return f"{spread['mean']:.3f} ± {spread['deviation']:.3f}"
