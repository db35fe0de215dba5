"""A small world written by hand in YAML, read, solved and told in words."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coview.errors import CoviewError, InputError, did_you_mean
from coview.theory.bounds import cross_modal, kernel_mismatch, misalignment, misalignment_bound
from coview.theory.nuisance import dimension_split, scene_explained, sharing_threshold
from coview.theory.spectral import cut_spectrum, spectral_jepa
from coview.theory.worlds import FiniteWorld, Modality

WORLD_KEYS = ("title", "states", "joint", "marginal", "dim", "modalities")
MODALITY_KEYS = ("views", "nuisance", "nuisance_joint", "sharing", "merge", "joint")
SAME_STATE = "same-state"


@dataclass(frozen=True)
class WorldFile:
    """A world and its modalities.

    Attributes
    ----------
    title : str
    states : names of the scenes
    world : FiniteWorld
    dim : dimensions of the encoders
    modalities : dict from name to Modality
    bad : dict from the name of a modality of bad views to (its world, nuisance joint, sharing)
    """

    title: str
    states: tuple[str, ...]
    world: FiniteWorld
    dim: int
    modalities: dict[str, Modality]
    bad: dict[str, tuple[FiniteWorld, np.ndarray, float]]


def read_world(source: str | Path) -> WorldFile:
    """Read a world. The three files in ``examples/worlds`` show the format.

    Raises
    ------
    InputError
        Missing or broken file, unknown key, or a table that is no law; names the file and the part.
    """
    import yaml

    source = Path(source)
    if source.is_dir():
        raise InputError(
            "it is a folder; a world is one YAML file.", where=str(source), hint=_worlds_of(source)
        )
    try:
        document = yaml.safe_load(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file.", where=str(source)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source} line {mark.line + 1}" if mark else str(source)
        # A scanner or parser names a problem, a reader of characters a reason.
        reason = getattr(error, "problem", None) or getattr(error, "reason", "")
        raise InputError(f"not valid YAML{': ' if reason else ''}{reason}.", where=place) from error
    try:
        return _world(document)
    except CoviewError as error:
        place = f"{source}: {error.where}" if error.where else str(source)
        raise InputError(error.message, where=place, hint=error.hint) from error


def _worlds_of(folder: Path) -> str:
    """A hint at the worlds that a folder holds."""
    files = sorted(str(file) for file in folder.iterdir() if file.suffix in (".yaml", ".yml"))
    if not files:
        return "It holds none; examples/worlds of coview has three."
    return (
        f"Name {files[0]}." if len(files) == 1 else f"Name one of its {len(files)}, {files[0]} for instance."
    )


def _world(document: object) -> WorldFile:
    entries = _mapping(document, WORLD_KEYS, required=("states", "joint", "dim", "modalities"), where="")
    states = tuple(str(name) for name in entries["states"])
    world = _law(entries["joint"], len(states), entries.get("marginal"), "joint")
    if not isinstance(entries["dim"], int):
        raise InputError(f"dim is a whole number, not {entries['dim']!r}.", where="dim")
    cut_spectrum(world.spectrum(), entries["dim"])
    modalities, bad = {}, {}
    for name, entry in _mapping(entries["modalities"], None, (), "modalities").items():
        where = f"modalities: {name}"
        options = _mapping(entry or {}, MODALITY_KEYS, (), where)
        own = _law(options["joint"], len(states), None, where) if "joint" in options else world
        try:
            modalities[name] = _modality(own, states, options)
        except CoviewError as error:
            place = f"{where}: {error.where}" if error.where else where
            raise InputError(error.message, where=place, hint=error.hint) from error
        if options.get("views") == "bad":
            shared = _normalised(options["nuisance_joint"], "nuisance_joint")
            bad[name] = (own, shared, float(options.get("sharing", 1)))
    return WorldFile(str(entries.get("title", "")), states, world, entries["dim"], modalities, bad)


def _mapping(entry: object, known: tuple | None, required: tuple, where: str) -> dict:
    if not isinstance(entry, dict):
        raise InputError("expected `key: value` entries.", where=where)
    for key in entry:
        if known is not None and key not in known:
            raise InputError(f"there is no key {key!r}.", where=where, hint=did_you_mean(str(key), known))
    if missing := [key for key in required if key not in entry]:
        raise InputError(f"{missing[0]!r} is missing.", where=where)
    return entry


def _normalised(table: object, where: str) -> np.ndarray:
    """A table of weights, divided by its sum."""
    try:
        weights = np.array(table, dtype=float)
    except (TypeError, ValueError):
        raise InputError("expected rows of numbers, all of one length.", where=where) from None
    if not np.isfinite(weights).all() or weights.sum() <= 0:
        raise InputError("expected numbers with a positive sum.", where=where)
    return weights / weights.sum()


def _law(table: object, states: int, marginal: object, where: str) -> FiniteWorld:
    if table == SAME_STATE:
        law = np.full(states, 1 / states) if marginal is None else _normalised(marginal, "marginal")
        return FiniteWorld.same_scene(law)
    if isinstance(table, str):
        raise InputError(f"joint is a table or {SAME_STATE!r}, not {table!r}.", where=where)
    world = FiniteWorld(_normalised(table, where))
    if len(world.joint) != states:
        raise InputError(f"{len(world.joint)} rows for {states} states.", where=where)
    return world


def _modality(world: FiniteWorld, states: tuple[str, ...], options: dict) -> Modality:
    nuisance = options.get("nuisance")
    if nuisance is not None:
        rows = np.array(nuisance, dtype=float)
        nuisance = np.tile(rows, (len(states), 1)) if rows.ndim == 1 else rows
    shared = options.get("nuisance_joint")
    modality = Modality.render(
        world,
        nuisance,
        view=options.get("views", "good"),
        sharing=float(options.get("sharing", 1)),
        nuisance_joint=None if shared is None else _normalised(shared, "nuisance_joint"),
    )
    return _merged(modality, states, options["merge"]) if "merge" in options else modality


def _merged(modality: Modality, states: tuple[str, ...], groups: list) -> Modality:
    """Merge `STATE` under every nuisance, or `STATE:N` under nuisance N alone, with the rest of its group."""
    size = len(modality.joint) // len(states)
    labels = np.arange(len(modality.joint)).reshape(len(states), size)
    for group in groups:
        places = []
        for entry in group:
            name, _, number = str(entry).partition(":")
            if name not in states:
                raise InputError(
                    f"there is no state {name!r}.", where="merge", hint=did_you_mean(name, states)
                )
            if number and not (number.isdecimal() and int(number) < size):
                raise InputError(f"{entry!r}: nuisances here are 0 to {size - 1}.", where="merge")
            places.append((states.index(name), int(number) if number else slice(None)))
        for place in places[1:]:
            labels[place] = labels[places[0]]
    return modality.merge(np.unique(labels, return_inverse=True)[1].ravel())


def describe_world(file: WorldFile) -> dict:
    """Spectra, what is identified, and predicted and actual misalignment of every pair, as plain numbers.

    None stands for a bound that does not exist, and for the misalignment of optima that are not unique.
    """
    dim = file.dim
    optima = {name: spectral_jepa(m.joint, dim) for name, m in file.modalities.items()}
    modalities = {}
    for name, modality in file.modalities.items():
        cut = modality.cut(dim)
        modalities[name] = {
            "observations": len(modality.joint),
            "spectrum": modality.spectrum().tolist(),
            "identifiable": cut.is_identifiable,
            "identified_dim": cut.identified_dim,
            "verdict": str(cut),
            "identifies_scene": modality.identifies_scene,
            "scene_explained": scene_explained(modality, optima[name]),
        }
        if name in file.bad:
            world, shared, sharing = file.bad[name]
            split = dimension_split(world, shared, dim, sharing=sharing)
            modalities[name]["split"] = {
                "scene": split.scene,
                "nuisance": split.nuisance,
                "mixed": split.mixed,
                "tied": split.tied,
            }
            positive = world.spectrum()[dim - 1] > 0
            threshold = sharing_threshold(world, shared, dim) if positive else None
            modalities[name]["sharing"] = sharing
            modalities[name]["sharing_threshold"] = None if threshold in (None, np.inf) else threshold
    names = list(file.modalities)
    pairs = []
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            one, two = file.modalities[first], file.modalities[second]
            mismatch = kernel_mismatch(one, two)
            actual = misalignment(optima[first], optima[second], cross_modal(one, two))
            # Without a gap the number would be an accident of the solver, which breaks ties its own way.
            unique = all(modalities[name]["identifiable"] for name in (first, second))
            bounds = [misalignment_bound(mismatch, dim, gap=gap) for gap in ("one", "both")]
            pairs.append(
                {
                    "first": first,
                    "second": second,
                    "kernel_mismatch": mismatch.frobenius,
                    "bound": _finite(bounds[0].value),
                    "sharp_bound": _finite(bounds[1].value),
                    "vacuous": all(bound.vacuous for bound in bounds),
                    "misalignment": actual.frobenius if unique else None,
                    "cka": actual.cka if unique else None,
                }
            )
    cut = file.world.cut(dim)
    return {
        "title": file.title,
        "states": list(file.states),
        "dim": dim,
        "components": file.world.n_components,
        "spectrum": file.world.spectrum().tolist(),
        "identifiable": cut.is_identifiable,
        "verdict": str(cut),
        "modalities": modalities,
        "pairs": pairs,
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: None stands for a bound that does not exist."""
    return float(value) if np.isfinite(value) else None
