"""What lies behind the objects: the wall of a place and the surface of the table.

Coordinates are those of the world, in pixels of an unmoved painting, so that the camera moves the room too.
"""

import numpy as np

HORIZON = 25.0  # the row where the table ends and the wall begins


def room(place: str, surface: str, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The empty room.

    Parameters
    ----------
    place, surface : one of scene.PLACES, scene.SURFACES
    columns, rows : (1, W) and (H, 1), ascending

    Returns
    -------
    (H, W, 3) float32 RGB in [0, 1]
    """
    edge = int(np.searchsorted(rows[:, 0], HORIZON))
    above, below = rows[:edge], rows[edge:]
    distance = 18.0 / (below - HORIZON + 12)  # what lies farther back is seen smaller
    table = _surface(surface, (columns - 32) * distance, 60 * distance)
    table *= np.minimum(0.8 + 0.2 * (below - HORIZON) / 25, 1.05)[:, :, None]
    return np.concatenate([_wall(place, columns, above), table])


def _lines(coordinate: np.ndarray, period: float, width: float) -> np.ndarray:
    """1 on lines that repeat, 0 between."""
    return (np.mod(coordinate, period) < width).astype(np.float32)


def _mix(first: tuple, second: tuple, share: np.ndarray) -> np.ndarray:
    """From the first colour where `share` is 0 to the second where it is 1, (H, W, 3)."""
    start, end = np.array(first, np.float32), np.array(second, np.float32)
    return start + share[:, :, None] * (end - start)


def _wall(place: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if place == "kitchen":  # tiles
        return _mix((0.78, 0.88, 0.86), (0.95, 0.96, 0.94), np.maximum(_lines(x, 8, 1), _lines(y + 3, 8, 1)))
    if place == "nursery":  # wallpaper
        return _mix((0.97, 0.80, 0.82), (0.98, 0.92, 0.86), _lines(x, 9, 4.5) + 0 * y)
    if place == "workshop":  # planks
        grain = 0.3 * _lines(y + x / 9, 3, 1)
        return _mix((0.52, 0.38, 0.26), (0.36, 0.25, 0.17), np.maximum(_lines(x, 11, 1), grain))
    if place == "study":  # spines of books of different darkness on two shelves
        book = np.mod(np.floor(x / 3) * 7, 5) / 4 + 0 * y
        spines = _mix((0.34, 0.15, 0.14), (0.20, 0.26, 0.30), book)
        return spines * (1 - 0.6 * np.maximum(_lines(x, 3, 0.6), _lines(y + 2, 13, 1.6)))[:, :, None]
    if place == "garden":  # a hedge under the sky
        leaves = 0.5 + 0.25 * np.sin(x * 0.9 + 2 * np.sin(y * 0.7)) + 0.25 * np.sin(y * 1.1 + x * 0.35)
        hedge = _mix((0.22, 0.46, 0.18), (0.46, 0.68, 0.30), leaves)
        sky = np.array((0.66, 0.84, 0.95), np.float32)
        return np.where((y < 7 + 1.5 * np.sin(x * 0.5))[:, :, None], sky, hedge)
    ripples = 0.5 + 0.5 * np.sin(y * 2.2 + np.sin(x * 0.4))  # the harbour: sea and sky
    sea = _mix((0.16, 0.40, 0.58), (0.30, 0.56, 0.70), ripples)
    sky = _mix((0.66, 0.80, 0.90), (0.90, 0.93, 0.92), np.clip(y / 14, 0, 1) + 0 * x)
    return np.where((y < 13)[:, :, None], sky, sea)


def _surface(name: str, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The table over x (to the right) and z (away)."""
    if name == "oak":
        grain = 0.5 + 0.5 * np.sin(x * 2.1 + 1.3 * np.sin(z * 0.16))
        return _mix((0.72, 0.52, 0.32), (0.60, 0.41, 0.24), 0.6 * grain + 0.6 * _lines(x, 13, 0.7))
    if name == "marble":
        vein = np.abs(np.sin(0.13 * x + 0.21 * z + 1.6 * np.sin(0.11 * x - 0.07 * z)))
        return _mix((0.60, 0.62, 0.66), (0.93, 0.93, 0.93), np.clip(vein * 3, 0, 1))
    if name == "slate":
        return _mix((0.30, 0.33, 0.37), (0.38, 0.41, 0.44), 0.5 + 0.5 * np.sin(0.35 * z + 0.2 * x))
    if name == "gingham":
        return _mix((0.96, 0.94, 0.92), (0.80, 0.20, 0.22), 0.5 * _lines(x, 12, 6) + 0.4 * _lines(z, 8, 4))
    if name == "linen":
        return _mix((0.86, 0.81, 0.70), (0.80, 0.74, 0.62), 0.5 + 0.5 * np.sin(x * 2.5) * np.sin(z * 2.5))
    return _mix((0.36, 0.10, 0.30), (0.42, 0.14, 0.36), 0.5 + 0.5 * np.sin(0.2 * x + 0.1 * z))  # velvet
