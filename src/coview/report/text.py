"""A study in words and as a table for the terminal."""

import io
import math
import textwrap
from collections.abc import Sequence

WIDTH = 100
SEEDS_A_LINE = 3
SURE = 1.645  # z at which chance is rejected at 5 %, one-sided
ABSENT = "-"
UNTRAINED = "untrained encoder"
CLAIMS = {"shape": "shape", "colour_shape": "colour", "relation": "relation"}  # kinds that are shown


def study_table(result: dict) -> str:
    """The table of a study: every arm with every seed, the controls, and what follows from them.

    Parameters
    ----------
    result : dict, as `coview.study.run_study` returns it; ``next``, if there, is the command to type next

    Returns
    -------
    str
        Plain text, no newline at the end. Lines have at most 100 columns, but for those that are copied
        whole: sources, the signature, the next command.
    """
    k, seeds = result["k"], " ".join(map(str, result["seeds"]))
    header = [
        result["title"],
        f"texts: {result['source']}",
        f"images: {result['images']}",
        f"{result['n']:,} held-out scenes; chance of mutual {k}-NN {result['chance']:.4f}; seeds {seeds}",
    ]
    parts = ["\n".join(header), _plain(_measures(result))]
    if result["differences"]:
        parts.append(_plain(_differences(result)))
    sentences = [textwrap.fill(sentence, WIDTH) for sentence in verdicts(result)]
    parts.append("\n".join([*sentences, f"signature: {result['signature']}"]))
    if captions := result.get("captions"):
        what = f"captions of {captions['paintings']:,} held-out paintings: true claims [95 %] of those made"
        parts.append(f"{what}\n{_plain(_claims(captions['claims']))}")
    if result.get("next"):
        parts.append(f"next: {result['next']}")
    return "\n\n".join(parts)


def verdicts(result: dict) -> list[str]:
    """What came out, a sentence each: good against the other arms in both measures, controls, chance.

    No more is said than the seeds show: an arm that good does not beat in every seed is named with the count,
    a control that good does not beat with its score.
    """
    labels = {
        "mutual_knn": f"mutual {result['k']}-NN",
        "scene_explained_fraction": "scene-explained fraction",
    }
    sentences = []
    for key, label in labels.items():
        sentences += _against_arms(result["arms"], key, label, _scope(result))
    for name, difference in result["differences"].items():
        for key, label in labels.items():
            low, high = difference[key]["low"], difference[key]["high"]
            if low is not None and low <= 0 <= high:
                sentences.append(f"Over seeds, the 95 % interval of {name} in {label} holds 0.")
    return [*sentences, *_against_controls(result, labels["mutual_knn"]), _against_chance(result)]


def _scope(result: dict) -> str:
    return "in every seed" if len(result["seeds"]) > 1 else "in the one seed that was run"


def _against_arms(arms: dict, key: str, label: str, scope: str) -> list[str]:
    good, others = arms["good"][key], [name for name in arms if name != "good"]
    won = {name: wins(good, arms[name][key]) for name in others}
    beaten = [name for name in others if won[name] == len(good)]
    sentences = []
    if beaten and key == "mutual_knn":
        times = [f"{_times(good, arms[name][key])} {name}" for name in beaten]
        over = "on average " if len(good) > 1 else ""
        sentences.append(f"good is {over}{' and '.join(times)} in {label}, and ahead {scope}.")
    elif beaten:
        against = " and ".join(f"{number(mean(arms[name][key]))} for {name}" for name in beaten)
        sentences.append(f"good has the larger {label}, {number(mean(good))} against {against}, {scope}.")
    for name in others:
        if name not in beaten:
            how = f"in {won[name] or 'none'} of {len(good)} seed{'s' if len(good) > 1 else ''}"
            scores = f"{number(mean(good))} against {number(mean(arms[name][key]))}"
            sentences.append(f"good is above {name} in {label} {how}: {scores}.")
    return sentences


def _against_controls(result: dict, label: str) -> list[str]:
    """Which controls good does not beat, or not by two standard errors, and which arms the untrained one."""
    good = mean(result["arms"]["good"]["mutual_knn"]) or 0.0
    spread = mean(result["arms"]["good"]["mutual_knn_stderr"]) or 0.0
    unbeaten, close = [], []
    for name, control in result["controls"].items():
        score = control.get("mutual_knn")
        if score is None:
            continue
        if score >= good:
            unbeaten.append(f"{name} {score:.4f}")
        elif good - score < 2 * math.hypot(spread, control.get("mutual_knn_stderr") or 0.0):
            close.append(f"{name} {score:.4f}")
    sentences = [f"good does not beat these controls in {label}: {', '.join(unbeaten)}."] if unbeaten else []
    if close:
        sentences.append(f"good beats these controls by less than two standard errors: {', '.join(close)}.")
    if result["controls"] and not sentences:
        sentences.append(f"good beats every control in {label} by two standard errors or more.")
    untrained = result["controls"].get(UNTRAINED, {}).get("mutual_knn")
    if untrained is not None:
        scores = {name: mean(arm["mutual_knn"]) or 0.0 for name, arm in result["arms"].items()}
        below = [f"{name} {score:.4f}" for name, score in scores.items() if score <= untrained]
        if below:
            sentences.append(f"Not above the {UNTRAINED} ({untrained:.4f}): {', '.join(below)}.")
    return sentences


def _against_chance(result: dict) -> str:
    lowest = {name: min(arm["z"]) for name, arm in result["arms"].items()}
    at_chance = [f"{name} (z {z:.1f})" for name, z in lowest.items() if z < SURE]
    if at_chance:
        return f"Not above chance {_scope(result)}: {', '.join(at_chance)}."
    return f"Every arm is above chance {_scope(result)} (smallest z {min(lowest.values()):.1f})."


def wins(first: Sequence[float], second: Sequence[float]) -> int:
    """In how many seeds the first is larger."""
    return sum(a > b for a, b in zip(first, second, strict=True))


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are known, None if none is."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None


def number(value: float | None, digits: int = 4, sign: str = "") -> str:
    """A number with its digits, a dash where it is not known."""
    return ABSENT if value is None or not math.isfinite(value) else f"{value:{sign}.{digits}f}"


def with_error(value: float | None, stderr: float | None) -> str:
    """``0.1234 ± 0.0030``, without the error where it is not known."""
    error = number(stderr)
    return number(value) if error == ABSENT else f"{number(value)} ± {error}"


def with_interval(difference: dict, digits: int) -> str:
    """``+0.0467 [+0.0412, +0.0522]``, without the interval where a single seed gives none."""
    low, high = (number(difference[end], digits, "+") for end in ("low", "high"))
    interval = "" if ABSENT in (low, high) else f" [{low}, {high}]"
    return number(difference["mean"], digits, "+") + interval


def _times(first: Sequence[float], second: Sequence[float]) -> str:
    """How many times larger the first is on average; two decimals where one would say 1.0."""
    a, b = mean(first), mean(second)
    if a is None or b is None or b <= 0:
        return "above"
    return f"{a / b:.2f} times" if a / b < 1.05 else f"{a / b:.1f} times"


def _measures(result: dict):
    table = _table()
    table.add_column("", overflow="fold")
    table.add_column(f"mutual {result['k']}-NN ± s.e., by seed", no_wrap=True)
    table.add_column("mean\ncaption", justify="right", no_wrap=True)
    table.add_column(" scene-explained,\n by seed", no_wrap=True)
    table.add_column("R@1", justify="right", no_wrap=True)
    table.add_column("sec", justify="right", no_wrap=True)
    for name, arm in result["arms"].items():
        explained = arm["scene_explained_fraction"]
        table.add_row(
            name,
            _by_seed(
                with_error(mean(arm["mutual_knn"]), mean(arm["mutual_knn_stderr"])), arm["mutual_knn"], 3
            ),
            number(mean(arm["mutual_knn_mean_caption"])),
            _by_seed(number(mean(explained), 3, " "), explained, 2),
            number(mean(arm["retrieval_r1"]), 3),
            number(mean(arm["seconds"]), 0),
        )
    for name, control in result["controls"].items():
        table.add_row(
            name,
            with_error(control.get("mutual_knn"), control.get("mutual_knn_stderr")),
            number(control.get("mutual_knn_mean_caption")),
            number(control.get("scene_explained_fraction"), 3, " "),
            number(control.get("retrieval_r1"), 3),
            "",
        )
    return table


def _by_seed(summary: str, values: Sequence[float], digits: int) -> str:
    """A summary and beside it every seed, a few a line."""
    cells = [number(value, digits) for value in values]
    lines = [" ".join(cells[i : i + SEEDS_A_LINE]) for i in range(0, len(cells), SEEDS_A_LINE)]
    return f"{summary}  " + f"\n{' ' * (len(summary) + 2)}".join(lines)


def _differences(result: dict):
    table = _table()
    for title in ("paired over seeds, 95 %", f"mutual {result['k']}-NN", "scene-explained fraction"):
        table.add_column(title)
    for name, difference in result["differences"].items():
        table.add_row(
            name,
            with_interval(difference["mutual_knn"], 4),
            with_interval(difference["scene_explained_fraction"], 3),
        )
    return table


def _claims(by_captioner: dict):
    table = _table()
    for title in ("", *CLAIMS.values()):
        table.add_column(title, no_wrap=True)
    for name, claims in by_captioner.items():
        table.add_row(name, *(share_of(claims[kind]) for kind in CLAIMS))
    return table


def share_of(claims: dict) -> str:
    """``.71 [.66, .76] of 300``, a dash where nothing was claimed."""
    told = claims["told"]
    if not told:
        return ABSENT
    share, low, high = (
        f"{value:.2f}".removeprefix("0") for value in (claims["true"] / told, *claims["interval"])
    )
    return f"{share} [{low}, {high}] of {told:,}"


def _table():
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")


def _plain(table) -> str:
    """A rich table as text: no colours, no markup read into names."""
    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=WIDTH, color_system=None, markup=False, highlight=False, emoji=False
    )
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().split("\n"))
