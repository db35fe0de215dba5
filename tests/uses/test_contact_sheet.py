"""Contact sheets, looked at pixel by pixel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFont

from coview.errors import InputError, UsageError
from coview.uses.contact_sheet import GAP, LINE_HEIGHT, MAX_LINES, SIDE, TEXT_SIZE, contact_sheet, wrap

FONT = ImageFont.load_default(TEXT_SIZE)
COLOURS = ((255, 0, 0), (0, 128, 0), (0, 0, 255), (90, 90, 0), (0, 90, 90))


def coloured(count: int, size=(300, 100)) -> list[Image.Image]:
    return [Image.new("RGB", size, COLOURS[index]) for index in range(count)]


def test_every_thumbnail_lies_in_its_cell_with_its_caption_below(tmp_path):
    out = tmp_path / "sheet.png"
    contact_sheet(iter(coloured(5)), ["one", "two", "three", "four", ""], out, columns=3)
    pixels = np.asarray(Image.open(out))
    step = SIDE + GAP
    assert pixels.shape[1] == 3 * step + GAP
    second_row = GAP + SIDE + GAP // 2 + LINE_HEIGHT + GAP
    for index in range(5):
        left = GAP + index % 3 * step
        top = GAP if index < 3 else second_row
        assert tuple(pixels[top + SIDE // 2, left + SIDE // 2]) == COLOURS[index]
        below = pixels[top + SIDE + GAP // 2 : top + SIDE + GAP // 2 + LINE_HEIGHT, left : left + SIDE]
        assert (below < 128).any() == (index < 4)
    assert (pixels[second_row:, GAP + 2 * step :] == 255).all()
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]


def test_a_caption_of_four_lines_is_drawn_whole(tmp_path):
    words = "two brown dogs run through deep snow towards a man in a red coat who throws them a yellow ball"
    caption = f"{words} and laughs"
    lines = wrap(caption, FONT)
    assert (len(lines), " ".join(lines)) == (4, caption)
    contact_sheet(coloured(1), [caption], tmp_path / "sheet.png")
    below = np.asarray(Image.open(tmp_path / "sheet.png"))[GAP + SIDE + GAP // 2 :]
    for number in range(4):
        assert (below[number * LINE_HEIGHT : (number + 1) * LINE_HEIGHT] < 128).any()


def test_proportions_are_kept(tmp_path):
    contact_sheet(coloured(1, (400, 100)), [""], tmp_path / "wide.png")
    red = (np.asarray(Image.open(tmp_path / "wide.png")) == COLOURS[0]).all(axis=2)
    assert np.ptp(np.flatnonzero(red.any(axis=0))) + 1 == SIDE
    assert np.ptp(np.flatnonzero(red.any(axis=1))) + 1 == SIDE // 4


@given(st.text(st.characters(max_codepoint=0x17F), max_size=600))
def test_no_line_is_wider_than_its_cell_and_no_letter_is_lost(caption):
    lines = wrap(caption, FONT)
    assert len(lines) <= MAX_LINES
    assert all(FONT.getlength(line) <= SIDE for line in lines)
    whole = "".join(caption.split())
    shown = "".join("".join(lines).split())
    assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))


@pytest.mark.parametrize(
    ("count", "captions", "name", "columns", "error", "message"),
    [
        (2, ["one"], "a.png", 4, UsageError, "1 captions for 2 images"),
        (0, [], "a.png", 4, InputError, "no image"),
        (1, ["one"], "a.jpg", 4, UsageError, "as .png"),
        (1, ["one"], "a.png", 0, UsageError, "0 thumbnails a row"),
    ],
)
def test_mistakes_leave_nothing_behind(count, captions, name, columns, error, message, tmp_path):
    with pytest.raises(error, match=message):
        contact_sheet(coloured(count), captions, tmp_path / name, columns)
    assert not list(tmp_path.iterdir())
