"""Parallel caption files, as Multi30k lays them out.

A folder holds ``{split}.{slot}.{language}[.gz]``; line i of each describes scene i of that split. Beside them
may lie ``{split}_images.txt``, whose line i names the scene's image, and ``reserved_{split}_rows.tsv``, which
lists rows (column ``row``, from 0, and perhaps ``image``) to keep for an evaluation, the split ``reserved``.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from coview.data.readers.lines import TextFile, count_lines, read_lines
from coview.data.readers.records import records
from coview.data.readers.source import FileSource, OnProblem, canonical_split, id_fault, refuse, text_fault
from coview.data.readers.stores import Store
from coview.data.scenes import HASH_SPLIT_NOTE, SPLIT_WORDS, Scene, split_by_hash
from coview.errors import InputError, UsageError, did_you_mean

NAME = re.compile(r"(?P<stem>[^.]+)\.(?P<slot>\d+)\.(?P<language>[A-Za-z]{2,3})(?:\.gz)?")
OPTIONS = ("lang", "images")


def is_parallel(names: Sequence[str]) -> bool:
    """Whether some of the file names of a folder are those of parallel captions."""
    return any(NAME.fullmatch(name) for name in names)


class ParallelSource(FileSource):
    """Scenes from parallel caption files.

    The texts of a scene come in the order of languages and slots. That order may carry meaning: Multi30k's
    English slots run from long to short. What draws views from a scene must permute its texts first.

    Parameters
    ----------
    languages : one language, or several joined by "+", all of them texts of the same scenes; may be left out
        if there is only one

    Raises
    ------
    UsageError
        The language is not there, or is left out where there are several.
    InputError
        A split lacks the language.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        languages: str | None = None,
        stores: Sequence[Store] = (),
        on_problem: OnProblem = refuse,
    ):
        self.folder = folder
        self.files = _caption_files(folder, languages)
        self.splits = {stem: canonical_split(stem) for stem in self.files}
        for stem, split in self.splits.items():
            if split is None and len(self.files) > 1:
                raise InputError(
                    f"files are called {stem!r}, which is no split.",
                    where=str(folder),
                    hint=did_you_mean(stem, list(SPLIT_WORDS)),
                )
        for path in sorted(folder.glob("reserved_*_rows.tsv")):
            stem = path.name.removeprefix("reserved_").removesuffix("_rows.tsv")
            if stem not in self.files:
                raise _misplaced(f"reserves rows of {stem!r}, of which there are no captions", path)
        note = HASH_SPLIT_NOTE if None in self.splits.values() else ""
        super().__init__(name, stores, split_note=note, on_problem=on_problem)

    def _read(self, split: str | None) -> Iterator[Scene]:
        places: dict[str, str] = {}
        for stem in self.files:
            holds = {self.splits[stem], "reserved"} if self.splits[stem] else None
            if split is not None and holds is not None and split not in holds:
                continue
            for scene in self._read_stem(stem):
                if scene.id in places:
                    self.on_problem(
                        InputError(
                            f"scene {scene.id!r} already stands at {places[scene.id]}.",
                            where=scene.where,
                            hint="Ids must be unique.",
                        )
                    )
                    continue
                places[scene.id] = scene.where
                yield scene

    def _read_stem(self, stem: str) -> Iterator[Scene]:
        images = self.folder / f"{stem}_images.txt"
        files = [*self.files[stem], *([TextFile.on_disk(images)] if images.is_file() else [])]
        reserved = self._reserved_rows(stem)
        rows = 0
        for rows, lines in enumerate(zip_longest(*map(read_lines, files)), start=1):
            if None in lines:
                raise _unequal(files)
            texts = [line.strip() for _, line in lines]
            image = texts.pop() if images.is_file() else None
            identifier = f"{stem}/{rows}" if image is None else image
            split = self.splits[stem] or split_by_hash(identifier)
            if rows - 1 in reserved:
                split = "reserved"
                named = reserved.pop(rows - 1)
                if named and image is not None and named != image:
                    what = f"names {named!r} for row {rows - 1}, which is {image!r}"
                    raise _misplaced(what, self._reserved_file(stem))
            faults = [
                InputError(f"{fault}.", where=file.at(rows), hint="Correct the text.")
                for file, text in zip(self.files[stem], texts, strict=True)
                if (fault := text_fault(text))
            ]
            if fault := id_fault(identifier):
                faults.append(InputError(f"{fault}.", where=files[-1].at(rows), hint="Name the image."))
            for fault in faults:
                self.on_problem(fault)
            if not faults:
                yield Scene(identifier, tuple(texts), image, split, files[0].at(rows))
        if rows == 0:
            raise InputError("there is no row in it.", where=files[0].label, hint="Give a file with scenes.")
        if reserved:
            raise _misplaced(f"lists row {min(reserved)} of {rows}", self._reserved_file(stem))

    def _reserved_file(self, stem: str) -> Path:
        return self.folder / f"reserved_{stem}_rows.tsv"

    def _reserved_rows(self, stem: str) -> dict[int, str]:
        """Reserved rows, from 0, and the image each should have ("" if the file does not say)."""
        path = self._reserved_file(stem)
        if not path.is_file():
            return {}
        rows = {}
        file = TextFile.on_disk(path)
        # Whatever else is forgiven, a list of reserved rows must be read in full.
        for row, record in records(file, refuse):
            if not record.get("row", "").isdecimal():
                raise InputError("column 'row' must hold a number of a row, from 0.", where=file.at(row))
            rows[int(record["row"])] = record.get("image", "")
        return rows


def _caption_files(folder: Path, languages: str | None) -> dict[str, list[TextFile]]:
    """The caption files of each stem, by language and slot."""
    matches = [match for path in sorted(folder.iterdir()) if (match := NAME.fullmatch(path.name))]
    there = sorted({match["language"] for match in matches})
    if languages is None and len(there) > 1:
        raise UsageError(
            f"it holds captions in several languages: {', '.join(there)}.",
            where=str(folder),
            hint=f"Name one: {folder},lang={there[0]} (or several as views of one scene: {'+'.join(there)}).",
        )
    wanted = languages.split("+") if languages else there
    for language in wanted:
        if language not in there:
            raise UsageError(
                f"there are no captions in {language!r}.",
                where=str(folder),
                hint=did_you_mean(language, there),
            )
    files: dict[str, list[TextFile]] = {}
    for stem in sorted({match["stem"] for match in matches}, key=_train_first):
        for language in wanted:
            slots = [match for match in matches if (match["stem"], match["language"]) == (stem, language)]
            if not slots:
                raise InputError(f"{stem!r} has no captions in {language!r}.", where=str(folder))
            slots.sort(key=lambda match: int(match["slot"]))
            files.setdefault(stem, []).extend(TextFile.on_disk(folder / match[0]) for match in slots)
    return files


def _train_first(stem: str) -> tuple[int, str]:
    order = ("train", "val", "test")
    return next((place for place, word in enumerate(order) if stem.startswith(word)), len(order)), stem


def _misplaced(what: str, reserved: Path) -> InputError:
    return InputError(
        f"it {what} (rows count from 0).",
        where=str(reserved),
        hint="It belongs to other caption files; with a wrong list reserved scenes would be trained on.",
    )


def _unequal(files: Sequence[TextFile]) -> InputError:
    counts = [(count_lines(file), file.label) for file in files]
    (few, short), (many, long) = min(counts), max(counts)
    return InputError(
        f"{Path(short).name} has {few} rows but {Path(long).name} has {many}.",
        where=f"{short} row {few + 1}",
        hint="Parallel files have one row a scene each; add the missing rows or take out the surplus.",
    )
