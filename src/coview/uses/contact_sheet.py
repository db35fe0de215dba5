"""A contact sheet: thumbnails in rows with a caption under each, one PNG that can be looked at or mailed."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from coview.errors import InputError, UsageError
from coview.runs import atomic_path

SIDE = 224  # pixels; a thumbnail fits a square of this side
GAP = 12  # pixels between cells and around the sheet
TEXT_SIZE = 14  # pixels
LINE_HEIGHT = 18  # pixels
MAX_LINES = 8  # a longer caption ends in an ellipsis: one of a page would push all others off the sheet


def contact_sheet(
    images: Iterable[Image.Image], captions: Sequence[str], out: str | Path, columns: int = 4
) -> None:
    """Write a PNG with one thumbnail for each image and its caption, wrapped, under it.

    Parameters
    ----------
    images : iterable of PIL images
        Taken one at a time; only their thumbnails are kept.
    captions : sequence of str, one for each image
    out : path, ending in .png
    columns : thumbnails a row

    Raises
    ------
    UsageError
        `out` is no .png, `columns` is not positive, or the captions are not as many as the images.
    InputError
        There is nothing to show.
    """
    if Path(out).suffix.lower() != ".png":
        raise UsageError("a contact sheet is written as .png.", where=str(out))
    if columns < 1:
        raise UsageError(f"{columns} thumbnails a row cannot be drawn.", hint="Give 1 or more.")
    thumbnails = [thumbnail(image) for image in images]
    if len(thumbnails) != len(captions):
        raise UsageError(f"{len(captions)} captions for {len(thumbnails)} images.")
    if not thumbnails:
        raise InputError("there is no image to show.", where=str(out))
    font = ImageFont.load_default(TEXT_SIZE)
    lines = [wrap(caption, font) for caption in captions]
    rows = [range(start, min(start + columns, len(lines))) for start in range(0, len(lines), columns)]
    heights = [SIDE + GAP // 2 + LINE_HEIGHT * max(len(lines[cell]) for cell in row) for row in rows]
    width = min(columns, len(lines)) * (SIDE + GAP) + GAP
    sheet = Image.new("RGB", (width, sum(heights) + GAP * (len(rows) + 1)), "white")
    draw = ImageDraw.Draw(sheet)
    top = GAP
    for row, height in zip(rows, heights, strict=True):
        for column, cell in enumerate(row):
            left = GAP + column * (SIDE + GAP)
            small = thumbnails[cell]
            sheet.paste(small, (left + (SIDE - small.width) // 2, top + (SIDE - small.height) // 2))
            for number, line in enumerate(lines[cell]):
                place = (left, top + SIDE + GAP // 2 + number * LINE_HEIGHT)
                draw.text(place, line, fill="black", font=font)
        top += height + GAP
    with atomic_path(out) as temporary:
        sheet.save(temporary, format="PNG")


def thumbnail(image: Image.Image) -> Image.Image:
    """The image as RGB, scaled to fit the square of a cell with its proportions kept."""
    return ImageOps.contain(image.convert("RGB"), (SIDE, SIDE), Image.Resampling.LANCZOS)


def wrap(caption: str, font) -> list[str]:
    """Lines of a caption no wider than a cell; words that are too long for one are broken."""
    lines = list(_wrapped(caption.split(), font))
    if len(lines) <= MAX_LINES:
        return lines
    last = lines[MAX_LINES - 1]
    while font.getlength(last + "…") > SIDE:
        last = last[:-1]
    return [*lines[: MAX_LINES - 1], last + "…"]


def _wrapped(words: list[str], font) -> Iterator[str]:
    line = ""
    for word in words:
        if line and font.getlength(f"{line} {word}") > SIDE:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while font.getlength(line) > SIDE:
            fits = next(n for n in range(len(line), 0, -1) if n == 1 or font.getlength(line[:n]) <= SIDE)
            yield line[:fits]
            line = line[fits:]
    if line:
        yield line
