"""Plain text: one text a line, a blank line between scenes."""

from collections.abc import Iterator, Sequence

from coview.data.readers.lines import TextFile, read_lines
from coview.data.readers.source import FileSource, OnProblem, refuse
from coview.data.readers.stores import Store
from coview.data.scenes import HASH_SPLIT_NOTE, Scene, split_by_hash
from coview.errors import InputError


class PlainSource(FileSource):
    """Scenes from a ``.txt`` file; their ids are their numbers, from 1.

    Mind that a scene put in before others moves their numbers, and with them their splits.

    Raises
    ------
    InputError
        The file holds no text.
    """

    def __init__(
        self, name: str, file: TextFile, on_problem: OnProblem = refuse, stores: Sequence[Store] = ()
    ):
        super().__init__(name, stores, split_note=HASH_SPLIT_NOTE, on_problem=on_problem)
        self.file = file
        if next(self._read(None), None) is None:
            raise InputError("there is no text in it.", where=file.label, hint="Give a file with scenes.")

    def _read(self, split: str | None) -> Iterator[Scene]:
        number, first_row, texts = 1, 0, []
        for row, line in read_lines(self.file):
            if line.strip():
                first_row = first_row if texts else row
                texts.append(line.strip())
            elif texts:
                yield self._scene(number, texts, first_row)
                number, texts = number + 1, []
        if texts:
            yield self._scene(number, texts, first_row)

    def _scene(self, number: int, texts: list[str], row: int) -> Scene:
        return Scene(str(number), tuple(texts), split=split_by_hash(str(number)), where=self.file.at(row))
