"""What can be said about a source before training on it: counts, lengths, duplicates, leaks and problems."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from coview.data.readers.source import FileSource, ImageMissing
from coview.data.scenes import SPLITS, Scene, Source
from coview.errors import InputError

PERCENTILES = (5, 50, 95, 99)


@dataclass
class Problems:
    """Problems as they are met: all are counted, the first hundred kept."""

    count: int = 0
    first: list[InputError] = field(default_factory=list)

    def add(self, problem: InputError) -> None:
        self.count += 1
        if len(self.first) < 100:
            self.first.append(problem)

    def summary(self) -> InputError | None:
        """One error that counts them all and shows the first; None if there is none."""
        if not self.count:
            return None
        first = self.first[0]
        message = first.message if self.count == 1 else f"{self.count:,} problems; first: {first.message}"
        return InputError(message, where=first.where, hint=first.hint)


class TextCensus:
    """Finds texts that stand in several places; letter case and spaces aside. About 200 bytes a text."""

    def __init__(self):
        self.first_scene: dict[bytes, int] = {}
        self.splits: defaultdict[bytes, int] = defaultdict(int)
        self.shared: set[bytes] = set()
        self.repeated_within = 0

    def add(self, number: int, scene: Scene) -> None:
        keys = {_key(text) for text in scene.texts}
        self.repeated_within += len(scene.texts) - len(keys)
        for key in keys:
            if self.first_scene.setdefault(key, number) != number:
                self.shared.add(key)
            self.splits[key] |= 1 << SPLITS.index(scene.split)

    def result(self) -> dict[str, int]:
        def in_both(one: str, other: str) -> int:
            both = 1 << SPLITS.index(one) | 1 << SPLITS.index(other)
            return sum(self.splits[key] & both == both for key in self.shared)

        return {
            "across_scenes": len(self.shared),
            "within_scenes": self.repeated_within,
            "val_in_train": in_both("val", "train"),
            "test_in_train": in_both("test", "train"),
            "reserved_in_train": in_both("reserved", "train"),
        }


def _key(text: str) -> bytes:
    return hashlib.blake2b(" ".join(text.casefold().split()).encode(), digest_size=8).digest()


def check_source(
    source: Source,
    problems: Problems,
    *,
    decode: bool = False,
    progress: Callable[[int], None] = lambda scenes: None,
) -> dict:
    """Read all scenes of a source once and count what is in them.

    Parameters
    ----------
    source : Source
    problems : gathers what is broken; open the source with ``on_problem=problems.add`` to have bad rows too
    decode : decode every image; else only its header is read
    progress : called with the number of scenes so far, after each scene

    Returns
    -------
    dict with the keys source, complete (False if what is broken ends the reading; then the counts are of what
    came before), scenes, texts, texts_per_scene (min, mean, max, one: scenes with a single text, none:
    scenes with no text), words_per_text (min, mean, max, p5, p50, p95, p99), splits (scenes of each),
    split_note, duplicates (distinct texts that describe several scenes; repeats within a scene; distinct
    texts that stand in train and in another split), images (named, found, missing, broken, decoded),
    unsafe_names (entries of archives that were left out), problems (count, first).

    If a source names images but has none at all at hand, it is taken as a source of texts: they count as
    missing but are no problem, unless `decode` asks for them or a name leaves its folder for a real file.
    """
    texts_per_scene: Counter[int] = Counter()
    words: Counter[int] = Counter()
    splits: Counter[str] = Counter()
    census = TextCensus()
    images = dict.fromkeys(("named", "found", "missing", "broken"), 0)
    files = source if isinstance(source, FileSource) else None
    texts_only = files is not None and not decode and not files.has_images()
    unsafe, complete = 0, True
    try:
        for number, scene in enumerate(source.scenes()):
            splits[scene.split] += 1
            texts_per_scene[len(scene.texts)] += 1
            words.update(len(text.split()) for text in scene.texts)
            census.add(number, scene)
            if scene.image is not None:
                images["named"] += 1
                unseen = texts_only and files is not None and files.outside(scene) is None
                images["missing" if unseen else _look_at(source, scene, decode, problems)] += 1
            progress(number + 1)
        unsafe = sum(store.unsafe for store in files.stores) if files else 0
    except InputError as problem:  # what follows in the file cannot be read
        complete = False
        problems.add(problem)
    return {
        "source": source.name,
        "complete": complete,
        "scenes": splits.total(),
        "texts": words.total(),
        "texts_per_scene": _spread(texts_per_scene) | {"one": texts_per_scene[1], "none": texts_per_scene[0]},
        "words_per_text": _spread(words) | {f"p{p}": percentile(words, p) for p in PERCENTILES},
        "splits": {split: splits[split] for split in SPLITS if splits[split]},
        "split_note": source.split_note,
        "duplicates": census.result(),
        "images": {**images, "decoded": decode},
        "unsafe_names": unsafe,
        "problems": {"count": problems.count, "first": [problem.as_json() for problem in problems.first]},
    }


def _look_at(source: Source, scene: Scene, decode: bool, problems: Problems) -> str:
    """Whether the scene's image is found, missing or broken."""
    try:
        if decode:
            source.open_image(scene)
        else:
            source.image_size(scene)
    except InputError as problem:
        problems.add(problem)
        return "missing" if isinstance(problem, ImageMissing) else "broken"
    return "found"


def _spread(counts: Counter[int]) -> dict[str, float]:
    total = sum(value * count for value, count in counts.items())
    return {
        "min": min(counts, default=0),
        "mean": round(total / max(counts.total(), 1), 2),
        "max": max(counts, default=0),
    }


def percentile(counts: Counter[int], percent: float) -> int:
    """The smallest value that at least `percent` % of the values do not exceed; 0 if there are none."""
    seen = 0
    for value in sorted(counts):
        seen += counts[value]
        if seen * 100 >= percent * counts.total():
            return value
    return 0
