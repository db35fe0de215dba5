"""The ten shapes of the embedded world as coverage and surface normals on a small grid of pixels.

A shape is drawn in its own frame: `u` runs left to right, `v` upwards from the table, the shape stands
between v = 0 and about v = 1. Both are (H, W) arrays. Each shape is a list of parts, painted in order.
"""

import math
from typing import NamedTuple

import numpy as np

_TILT = 0.22  # how far the painter looks down: a circle on the table is an ellipse this flat


class Part(NamedTuple):
    """One smooth piece of a shape.

    Attributes
    ----------
    cover : (H, W) share of each pixel that the part covers, 0 to 1
    across, up : (H, W) or scalar, components of the surface normal to the right and upwards
    tint : brightness of the part against the rest of the shape
    colour : a colour of the part's own, RGB in [0, 1], or None for the object's
    """

    cover: np.ndarray
    across: np.ndarray | float
    up: np.ndarray | float
    tint: float = 1.0
    colour: tuple[float, float, float] | None = None


def _soft(distance: np.ndarray, pixel: float) -> np.ndarray:
    """Coverage from a signed distance, inside positive, smoothed over one pixel."""
    return np.clip(distance / pixel + 0.5, 0.0, 1.0)


def _ellipse(u, v, centre: tuple[float, float], radii: tuple[float, float], pixel: float, **look) -> Part:
    """An ellipsoid."""
    across, up = (u - centre[0]) / radii[0], (v - centre[1]) / radii[1]
    radius = np.sqrt(across**2 + up**2)
    return Part(_soft((1 - radius) * min(radii), pixel), across, up, **look)


def _lid(u, v, height: float, radius: float, pixel: float, tint: float) -> Part:
    """A horizontal disc: the top of a tin, the mouth of a mug."""
    disc = _ellipse(u, v, (0.0, height), (radius, radius * _TILT), pixel)
    return Part(disc.cover, 0.0, 0.75, tint)


def _turned(u, v, heights: tuple[float, ...], radii: tuple[float, ...], pixel: float) -> Part:
    """A solid of revolution with the given profile, seen from slightly above."""
    radius = np.maximum(np.interp(v, heights, radii), 1e-3).astype(np.float32)
    across = np.clip(u / radius, -1, 1)
    height = v + _TILT * radius * np.sqrt(1 - across**2)  # the front of a circle lies lower on the painting
    radius = np.maximum(np.interp(height, heights, radii), 1e-3).astype(np.float32)
    slope = np.interp(height, heights, np.gradient(radii, heights)).astype(np.float32)
    inside = np.minimum(
        radius - np.abs(u), np.minimum(height - heights[0], heights[-1] - height + _TILT * radii[-1])
    )
    norm = np.sqrt(1 + slope**2)
    return Part(_soft(inside, pixel), np.clip(u / radius, -1, 1) / norm, -slope / norm)


def _hoop(u, v, centre: tuple[float, float], radius: float, thickness: float, pixel: float) -> Part:
    """A torus seen through its hole."""
    across, up = u - centre[0], v - centre[1]
    distance = np.hypot(across, up) + 1e-6
    slope = (distance - radius) / thickness
    cover = _soft(thickness * (1 - np.abs(slope)), pixel)
    slope = np.clip(slope, -1, 1)
    return Part(cover, slope * across / distance, slope * up / distance)


def _polygon(u, v, corners: list[tuple[float, float]], pixel: float, across: float, up: float) -> Part:
    """A flat convex face; corners run counter-clockwise."""
    inside = np.full(np.broadcast(u, v).shape, np.inf, np.float32)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        length = math.hypot(x1 - x0, y1 - y0)
        inside = np.minimum(inside, ((x1 - x0) * (v - y0) - (y1 - y0) * (u - x0)) / length)
    return Part(_soft(inside, pixel), across, up)


def ball(u, v, turn, pixel):
    return [_ellipse(u, v, (0.0, 0.42), (0.44, 0.44), pixel)]


def block(u, v, turn, pixel):
    edge = 0.22 * turn  # where the vertical edge between the two visible faces stands
    low, high, rise = 0.1, 0.62, 0.2
    left, right = (-0.42, low), (0.42, low)
    top_left, top_right = (-0.42, high + low), (0.42, high + low)
    near, top_near, top_far = (edge, 0.0), (edge, high), (-edge, high + rise)
    return [
        _polygon(u, v, [left, near, top_near, top_left], pixel, -0.6, 0.0),
        _polygon(u, v, [near, right, top_right, top_near], pixel, 0.6, 0.0),
        _polygon(u, v, [top_left, top_near, top_right, top_far], pixel, 0.0, 0.85),
    ]


def cone(u, v, turn, pixel):
    return [_turned(u, v, (0.0, 0.5, 1.0), (0.42, 0.22, 0.02), pixel)]


def tin(u, v, turn, pixel):
    return [_turned(u, v, (0.0, 0.4, 0.8), (0.33, 0.33, 0.33), pixel), _lid(u, v, 0.8, 0.33, pixel, 1.25)]


def ring(u, v, turn, pixel):
    return [_hoop(u, v, (0.0, 0.44), 0.31, 0.13, pixel)]


def star(u, v, turn, pixel):
    height = v - 0.44
    sector = 2 * math.pi / 5
    angle = np.arctan2(u, height)
    offset = (angle + sector / 2) % sector - sector / 2  # from the nearest point of the star
    radius = np.hypot(u, height)
    along, beside = radius * np.cos(offset), radius * np.sin(np.abs(offset))
    tip, waist = 0.5, (0.22 * math.cos(sector / 2), 0.22 * math.sin(sector / 2))
    edge_x, edge_y = waist[0] - tip, waist[1]
    inside = (edge_x * beside - edge_y * (along - tip)) / math.hypot(edge_x, edge_y)
    facet = angle - offset + np.sign(offset) * sector / 4  # which of the ten bevelled facets
    return [Part(_soft(inside, pixel), 0.6 * np.sin(facet), 0.6 * np.cos(facet))]


def bottle(u, v, turn, pixel):
    heights = (0.0, 0.05, 0.5, 0.66, 0.74, 0.95, 0.96, 1.04)
    radii = (0.21, 0.24, 0.24, 0.16, 0.075, 0.075, 0.1, 0.1)
    return [_turned(u, v, heights, radii, pixel), _lid(u, v, 1.04, 0.1, pixel, 0.5)]


def mug(u, v, turn, pixel):
    side = math.copysign(1.0, turn)
    return [
        _hoop(u, v, (side * 0.34, 0.4), 0.17, 0.055, pixel),
        _turned(u, v, (0.0, 0.35, 0.72), (0.29, 0.31, 0.33), pixel),
        _lid(u, v, 0.72, 0.33, pixel, 1.05),
        _lid(u, v, 0.715, 0.28, pixel, 0.45),
    ]


def bowl(u, v, turn, pixel):
    heights = (0.0, 0.06, 0.14, 0.28, 0.46)
    radii = (0.22, 0.24, 0.38, 0.5, 0.56)
    return [
        _turned(u, v, heights, radii, pixel),
        _lid(u, v, 0.46, 0.56, pixel, 1.1),
        _lid(u, v, 0.455, 0.5, pixel, 0.5),
    ]


def duck(u, v, turn, pixel):
    u = u * math.copysign(1.0, turn)  # it looks left or right
    orange, ink = (0.95, 0.5, 0.1), (0.08, 0.08, 0.1)
    return [
        _ellipse(u, v, (-0.4, 0.44), (0.16, 0.12), pixel, tint=0.95),
        _ellipse(u, v, (-0.04, 0.28), (0.44, 0.28), pixel),
        _ellipse(u, v, (0.5, 0.66), (0.14, 0.06), pixel, colour=orange),
        _ellipse(u, v, (0.22, 0.7), (0.24, 0.23), pixel),
        _ellipse(u, v, (0.3, 0.76), (0.045, 0.05), pixel, colour=ink),
        _ellipse(u, v, (-0.12, 0.32), (0.2, 0.12), pixel, tint=0.88),
    ]


DRAWN = {
    "ball": ball,
    "block": block,
    "cone": cone,
    "tin": tin,
    "ring": ring,
    "star": star,
    "bottle": bottle,
    "mug": mug,
    "bowl": bowl,
    "duck": duck,
}
# Height above the table of the top face, for what stands on it.
TOP_HEIGHT = {"block": 0.72, "tin": 0.8}
