"""Opening images that others made: a short list of formats, a limit on size, and errors that name the file.

Decoders are the classic way into a program, so Pillow is asked for five formats only (never PDF, EPS, FITS,
Spider and the like, which hide behind any file name) and an image is measured from its header before a pixel
of it is decoded.
"""

import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from coview.errors import InputError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
MAX_PIXELS = 64_000_000
_SMALLER = f"Make it smaller than {MAX_PIXELS // 10**6} megapixels, or take it out."


def is_image_name(name: str) -> bool:
    """Whether a file's name ends as an image's does."""
    return name.lower().endswith(EXTENSIONS)


def image_size(image: str | Path | BinaryIO, where: str = "") -> tuple[int, int]:
    """Width and height of an image, from its header alone.

    Raises
    ------
    InputError
        It is no image of the known formats, or has more than `MAX_PIXELS` pixels.
    """
    with _open_header(image, where or str(image)) as opened:
        return opened.size


def open_image(image: str | Path | BinaryIO, where: str = "") -> Image.Image:
    """Decode an image as RGB, upright; of an animation the first frame.

    16-bit greyscale (microscopes, X-rays) is scaled to 8 bits, where Pillow would clip it to white.

    Parameters
    ----------
    image : path or binary stream
    where : what to call the image in messages; its path by default

    Raises
    ------
    InputError
        It is no image of the known formats, is truncated or broken, or has more than `MAX_PIXELS` pixels.
    """
    where = where or str(image)
    with _open_header(image, where) as opened:
        try:
            opened.load()
            upright = _upright(opened)
            if upright.mode.startswith("I;16"):
                upright = Image.fromarray((np.asarray(upright) // 256).astype(np.uint8))
            return upright.convert("RGB")
        except MemoryError:
            raise
        except Exception as error:  # a decoder fed with broken bytes may raise anything at all
            what = "truncated" if "truncated" in str(error) else "broken"
            raise InputError(
                f"the image is {what} ({error}).", where=where, hint="Get the file again, or take it out."
            ) from error


def _upright(image: Image.Image) -> Image.Image:
    """Turn a photo the way its camera was held."""
    try:
        return ImageOps.exif_transpose(image)
    except MemoryError:
        raise
    except Exception:  # a broken EXIF block says nothing about the pixels
        return image


def _open_header(image: str | Path | BinaryIO, where: str) -> Image.Image:
    try:
        opened = Image.open(image, formats=FORMATS)
    except Image.DecompressionBombError as error:  # Pillow's own limit lies above ours
        pixels = re.search(r"\((\d+) pixels\)", str(error))
        size = f"{int(pixels[1]) / 1e6:,.0f} megapixels" if pixels else "far too many pixels"
        raise InputError(f"the image has {size}.", where=where, hint=_SMALLER) from error
    except FileNotFoundError:
        raise InputError("there is no such image.", where=where) from None
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"not an image that can be read ({', '.join(FORMATS)}).",
            where=where,
            hint="Convert it, or get the file again.",
        ) from error
    width, height = opened.size
    if width * height > MAX_PIXELS:
        opened.close()
        size = f"{width} x {height} pixels, {width * height / 1e6:,.0f} megapixels"
        raise InputError(f"the image has {size}.", where=where, hint=_SMALLER)
    return opened
