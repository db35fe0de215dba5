"""Opening images safely: formats, limits, orientation, sixteen bits."""

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile

from coview.data.images import FORMATS, image_size, is_image_name, open_image
from coview.errors import InputError


def encoded(image: Image.Image, kind: str, **options) -> io.BytesIO:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_known_formats_open_as_rgb(kind, mode):
    image = Image.new(mode, (20, 10), 128 if mode == "L" else (128, 128, 128))
    assert image_size(encoded(image, kind)) == (20, 10)
    opened = open_image(encoded(image, kind))
    assert (opened.mode, opened.size) == ("RGB", (20, 10))
    assert np.abs(np.asarray(opened).astype(int) - 128).max() <= 2


@pytest.mark.parametrize("kind", ["TIFF", "PDF", "EPS", "PPM", "TGA", "ICO"])
def test_other_formats_are_refused_whatever_they_are_called(kind, tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(Image.new("RGB", (16, 16)), kind).getvalue())
    for read in (image_size, open_image):
        with pytest.raises(InputError, match=r"a\.png: not an image that can be read"):
            read(tmp_path / "a.png")


def test_the_first_frame_of_an_animation():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ((255, 0, 0), (0, 0, 255))]
    opened = open_image(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert opened.getpixel((0, 0)) == (255, 0, 0)


def test_a_photo_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held a quarter turn to the left
    sideways = Image.new("RGB", (20, 10))
    assert open_image(encoded(sideways, "JPEG", exif=exif)).size == (10, 20)
    assert open_image(encoded(sideways, "JPEG", exif=b"Exif\0\0broken")).size == (20, 10)


def test_sixteen_bits_are_scaled_not_clipped():
    ramp = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    opened = np.asarray(open_image(encoded(Image.fromarray(ramp), "PNG")))
    assert np.array_equal(opened[..., 0].ravel(), np.arange(256))


def test_a_huge_image_is_refused_before_a_pixel_is_decoded(monkeypatch):
    side = 9_000  # 81 megapixels: above our limit and below the one at which Pillow itself refuses
    data = encoded(Image.new("1", (side, side)), "PNG").getvalue()
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("it was decoded"))
    for read in (image_size, open_image):
        with pytest.raises(InputError, match=r"9000 x 9000 pixels.*smaller than 64"):
            read(io.BytesIO(data), where="a.png")


@given(data=st.data())
def test_broken_bytes_give_input_errors_and_nothing_else(data):
    kind = data.draw(st.sampled_from(FORMATS))
    whole = bytearray(encoded(Image.linear_gradient("L").resize((24, 24)), kind).getvalue())
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    broken = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for read in (image_size, open_image):
        with contextlib.suppress(InputError):
            read(io.BytesIO(broken), where="a.jpg row 1")


def test_names_of_images():
    assert is_image_name("photos/A.JPG")
    assert is_image_name("a.webp")
    assert not is_image_name("a.tiff")
    assert not is_image_name("jpg")
