"""Results on finite worlds told in lines of plain text."""


def run_text(result: dict, paper: float) -> str:
    lines = [
        f"{result['worlds']} random worlds, {result['violations']} violations",
        f"zero mismatch: after one rotation at most {result['max_zero_residual']:.1e} is left "
        f"(gaps from {result['smallest_gap']:.1e})",
        "",
        f"{'error / bound':34}{'worlds':>8}{'median':>9}{'largest':>9}{'largest where not vacuous':>28}",
    ]
    for name, row in result["bounds"].items():
        median = "-" if row["median_ratio"] is None else f"{row['median_ratio']:.3f}"
        lines.append(
            f"{name:34}{row['worlds']:>8}{median:>9}{row['max_ratio']:>9.3f}"
            f"{row['max_ratio_not_vacuous']:>14.3f} ({row['not_vacuous']} worlds)"
        )
    lines += [
        "",
        f"largest ratio {result['max_ratio']:.0%}, median {result['median_ratio']:.1%} (rotation, one gap); "
        f"the paper reports at most {paper:.0%}.",
        "Such a figure belongs to a generator of worlds and to a form of the bound, and is no constant.",
    ]
    return "\n".join(lines)


def _numbers(values: list[float], shown: int = 8) -> str:
    text = " ".join(f"{round(value, 3) + 0.0:.3f}" for value in values[:shown])
    return text + (f" ... ({len(values)})" if len(values) > shown else "")


def show_text(result: dict) -> str:
    dim = result["dim"]
    lines = [f"{result['title'] or 'A world'}: {len(result['states'])} states, d = {dim}"]
    if result["components"] > 1:
        lines.append(
            f"{result['components']} groups of states that no positives connect: their indicators come first"
        )
    lines += [f"scene spectrum  {_numbers(result['spectrum'])}", f"  {result['verdict']}", ""]
    for name, part in result["modalities"].items():
        merged = "" if part["identifies_scene"] else "; some observations could show several states"
        lines.append(f"{name}: {part['observations']} observations{merged}")
        lines.append(f"  spectrum {_numbers(part['spectrum'])}")
        lines.append(f"  {part['verdict']}")
        if part["identifiable"]:
            lines.append(f"  scene-explained fraction {part['scene_explained']:.3f}")
        if "split" in part:
            split, threshold = part["split"], part["sharing_threshold"]
            limit = (
                "no sharing loses a dimension"
                if threshold is None
                else f"the first is lost above {threshold:.3f}"
            )
            lines.append(
                f"  of {dim} dimensions {split['scene']} scene, {split['nuisance']} nuisance, "
                f"{split['mixed']} mixed; nuisance shared with probability {part['sharing']:g} ({limit})"
            )
    lines.append("")
    for pair in result["pairs"]:
        head = f"{pair['first']} and {pair['second']}:"
        if pair["misalignment"] is None:
            lines.append(f"{head} no prediction; the solutions are not unique")
            continue
        bounds = "no bound" if pair["bound"] is None else f"predicted at most {pair['bound']:.3g}"
        if pair["sharp_bound"] is not None:
            bounds += f" (sharp {pair['sharp_bound']:.3g}{', says nothing' if pair['vacuous'] else ''})"
        lines.append(f"{head} {bounds}, actual {pair['misalignment']:.3g}, CKA {pair['cka']:.3f}")
    return "\n".join(lines)


def prediction_text(result: dict) -> str:
    """A table of view definitions, the prediction, and where it is weak."""
    dim, k = result["dim"], result["k"]
    with_other = "against" in result["arms"]["good"]
    head = f"{'views':12}{f'scene dims of {dim}':>18}{'scene-explained':>18}{f'{k}-NN across views':>21}"
    lines = [
        f"{result['source']}: {result['scenes']} scenes, {result['features']}",
        "",
        head + (f"{f'{k}-NN with the other':>22}" if with_other else ""),
    ]
    for name, arm in result["arms"].items():
        lines.append(
            f"{name:12}{arm['scene_dimensions']:>18.2f}{_pm(arm['scene_explained']):>18}"
            f"{_pm(arm['across_views']):>21}" + (f"{_pm(arm['against']):>22}" if with_other else "")
        )
    lines += [f"{'chance':12}{'':>36}{result['chance']:>14.4f}", ""]
    for name, gain in result["advantage"].items():
        measure = "against" if with_other else "across_views"
        lines.append(
            f"prediction: good views over {name} views by {gain['scene_explained'][0]:+.3f} "
            f"(standard error {gain['scene_explained'][1]:.3f}) in scene-explained fraction, "
            f"by {gain[measure][0]:+.3f} ({gain[measure][1]:.3f}) in mutual {k}-NN"
        )
    lines += [result["signature"], "", "leading eigenvalues, held out (where they were fitted):"]
    for name, arm in result["arms"].items():
        pairs = zip(arm["eigenvalues_held_out"][:6], arm["eigenvalues_in_sample"][:6], strict=True)
        lines.append(f"  {name:12}" + "  ".join(f"{out:.2f} ({fitted:.2f})" for out, fitted in pairs))
    return "\n".join([*lines, *(f"note: {note}." for note in result["notes"])])


def _pm(pair: list[float]) -> str:
    return f"{pair[0]:.3f} ± {pair[1]:.3f}"
