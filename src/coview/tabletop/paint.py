"""Paintings of a scene: 64x64 RGB by NumPy, with a nuisance of their own each time.

The state decides what stands where, the room and its light. Drawn anew for each painting, each with its
knob in `Nuisance`: shift and zoom of the camera, direction and warmth of the light, grain, clutter on the
table that belongs to no scene, and the pose (position, turn, size, mirror image) of every object.
"""

import math
from typing import NamedTuple

import numpy as np

from coview.tabletop.room import HORIZON, room
from coview.tabletop.scene import USUAL, Dice, Nuisance, TableObject, TableScene
from coview.tabletop.shapes import DRAWN, TOP_HEIGHT, Part

SIZE = 64  # of a painting, in pixels
_FINE = 2  # painted twice as fine, then averaged
_EXTENT = SIZE * _FINE
_FRONT = 55.0  # the row where the front of the table lies
_ACROSS = 25.0  # pixels from the middle of the table to x = 1, at its front
_LEAN = 0.08  # how far a turned object leans, as a slope
_PIXELS = np.arange(_EXTENT, dtype=np.float32)[None, :] / _FINE + 0.25  # centres of the fine pixels

PIGMENTS = {
    "red": (0.84, 0.14, 0.13),
    "orange": (0.96, 0.52, 0.08),
    "yellow": (0.97, 0.85, 0.18),
    "green": (0.16, 0.60, 0.24),
    "blue": (0.14, 0.35, 0.82),
    "purple": (0.55, 0.22, 0.68),
    "white": (0.94, 0.94, 0.92),
    "black": (0.11, 0.11, 0.13),
}
_HEIGHTS = {"small": 16.0, "medium": 25.0, "large": 34.0}  # in pixels at the front of the table
_LIGHTS = {  # colour of the light, share of it that comes from everywhere
    "daylight": ((1.04, 1.03, 1.0), 0.55),
    "sunset": ((1.16, 0.86, 0.68), 0.45),
    "lamplight": ((1.08, 0.98, 0.70), 0.35),
    "moonlight": ((0.66, 0.74, 0.98), 0.50),
}


class _Camera(NamedTuple):
    """Where a point of the world lies on the painting."""

    zoom: float
    shift: tuple[float, float]

    def screen(self, x: float, y: float) -> tuple[float, float]:
        middle = SIZE / 2
        return (
            middle + (x - middle) * self.zoom + self.shift[0],
            middle + (y - middle) * self.zoom + self.shift[1],
        )

    def world(self) -> tuple[np.ndarray, np.ndarray]:
        """World coordinates of the columns (1, W) and rows (H, 1) of the fine painting."""
        middle = SIZE / 2
        columns = (_PIXELS - middle - self.shift[0]) / self.zoom + middle
        rows = (_PIXELS.T - middle - self.shift[1]) / self.zoom + middle
        return columns, rows


class _Light(NamedTuple):
    """Where the light comes from and what it does to colours."""

    angle: float
    direction: tuple[float, float, float]
    colour: np.ndarray
    ambient: float


class _Pose(NamedTuple):
    """Where and how an object stands in one painting; `lift` in pixels at the front of the table."""

    x: float
    depth: float
    lift: float = 0.0
    size: float = 1.0
    turn: float = 0.0


def paint(scene: TableScene, draw: int, nuisance: Nuisance = USUAL) -> np.ndarray:
    """Painting number `draw` of a scene.

    Returns
    -------
    (64, 64, 3) uint8; a pure function of the scene, `draw` and `nuisance`
    """
    dice = Dice(scene.seed, scene.index, 1, draw)
    camera = _Camera(
        zoom=1 + nuisance.camera * dice.between(-0.12, 0.14),
        shift=(nuisance.camera * dice.between(-6, 6), nuisance.camera * dice.between(-3, 3)),
    )
    light = _light(scene.light, dice, nuisance.light)
    canvas = room(scene.place, scene.surface, *camera.world())
    for _ in range(round(nuisance.clutter * dice.between(0, 5))):
        _add_clutter(canvas, dice, camera)
    poses = _poses(scene, dice, nuisance.pose)
    back_to_front = sorted(range(len(poses)), key=lambda i: -poses[i].depth)
    for i in back_to_front:
        if scene.objects[i].on is None:
            _add_shadow(canvas, poses[i], camera, light)
    for i in back_to_front:
        _add_object(canvas, scene.objects[i], poses[i], camera, light)

    painting = 0.25 * (canvas[::2, ::2] + canvas[1::2, ::2] + canvas[::2, 1::2] + canvas[1::2, 1::2])
    painting *= light.colour
    if scene.light == "lamplight":
        x, y = camera.screen(32 + 26 * math.sin(light.angle), 20)
        distance = ((_PIXELS[:, ::2] - x) ** 2 + (_PIXELS.T[::2] - y) ** 2) / 1800.0
        painting *= (0.55 + 0.55 * np.exp(-distance))[:, :, None]
    grain = dice.rng.standard_normal((SIZE, SIZE, 1), dtype=np.float32)
    painting += nuisance.texture * dice.between(0.01, 0.03) * grain
    return (np.clip(painting, 0, 1) * 255 + 0.5).astype(np.uint8)


def _light(name: str, dice: Dice, strength: float) -> _Light:
    colour, ambient = _LIGHTS[name]
    warmth, angle = strength * dice.between(-0.09, 0.09), strength * dice.between(-0.9, 0.9)
    towards = np.array((0.75 * math.sin(angle), 0.55 * math.cos(angle), 0.62))
    across, up, out = (towards / np.linalg.norm(towards)).tolist()
    tinted = np.array(colour, np.float32) * np.array((1 + warmth, 1, 1 - warmth), np.float32)
    return _Light(angle, (across, up, out), tinted, ambient)


def _poses(scene: TableScene, dice: Dice, strength: float) -> list[_Pose]:
    """A pose for each object; what stands on another moves with it."""
    poses = [
        _Pose(
            x=thing.x + strength * dice.between(-0.05, 0.05),
            depth=thing.depth + strength * dice.between(-0.04, 0.04),
            size=1 + strength * dice.between(-0.08, 0.08),
            turn=strength * dice.between(-1, 1),
        )
        for thing in scene.objects
    ]
    for i, thing in enumerate(scene.objects):
        if thing.on is not None:
            lower, base = scene.objects[thing.on], poses[thing.on]
            lift = TOP_HEIGHT[lower.shape] * _HEIGHTS[lower.size] * base.size
            leant = base.x - _LEAN * base.turn * lift / _ACROSS
            poses[i] = poses[i]._replace(x=leant, depth=base.depth - 0.001, lift=lift)
    return poses


def _foot(pose: _Pose, camera: _Camera) -> tuple[float, float, float]:
    """Where an object's foot lies on the painting, and the scale of things there."""
    perspective = 1 - 0.35 * pose.depth
    x = 32 + _ACROSS * pose.x * perspective
    y = HORIZON + (_FRONT - HORIZON) * (1 - 0.72 * pose.depth) - pose.lift * perspective
    return *camera.screen(x, y), perspective * camera.zoom


def _window(left: float, top: float, right: float, bottom: float) -> tuple[slice, slice]:
    """The fine pixels of a box given in pixels, cut at the frame."""
    x0, x1 = (min(_EXTENT, max(0, int(x * _FINE))) for x in (left, right))
    y0, y1 = (min(_EXTENT, max(0, int(y * _FINE))) for y in (top, bottom))
    return slice(y0, y1), slice(x0, x1)


def _add_shadow(canvas: np.ndarray, pose: _Pose, camera: _Camera, light: _Light) -> None:
    x, y, scale = _foot(pose, camera)
    radius = 10.0 * scale * pose.size
    x -= light.direction[0] * radius * 0.7
    box = _window(x - 2 * radius, y - radius, x + 2 * radius, y + radius)
    across, down = (_PIXELS[:, box[1]] - x) / radius, (_PIXELS.T[box[0]] - y + 0.5) / (radius * 0.38)
    canvas[box] *= (1 - 0.5 * np.exp(-((across**2 + down**2) ** 2)))[:, :, None]


def _add_clutter(canvas: np.ndarray, dice: Dice, camera: _Camera) -> None:
    """A crumb, a bead, a leaf: something that no describer mentions."""
    x, y, scale = _foot(_Pose(dice.between(-1.1, 1.1), dice.between(-0.15, 1.0)), camera)
    length, width = scale * dice.between(0.8, 3.5), scale * dice.between(0.5, 1.1)
    turn = dice.between(0, math.pi)
    box = _window(x - length - 1, y - length - 1, x + length + 1, y + length + 1)
    across, down = _PIXELS[:, box[1]] - x, (_PIXELS.T[box[0]] - y) * 1.6
    along = (across * math.cos(turn) + down * math.sin(turn)) / length
    beside = (down * math.cos(turn) - across * math.sin(turn)) / width
    cover = np.clip((1 - np.hypot(along, beside)) * width * _FINE + 0.5, 0, 1)[:, :, None]
    colour = np.array([dice.between(0.15, 0.9) for _ in range(3)], np.float32)
    canvas[box] += cover * (colour - canvas[box])


def _add_object(canvas: np.ndarray, thing: TableObject, pose: _Pose, camera: _Camera, light: _Light) -> None:
    x, y, scale = _foot(pose, camera)
    height = _HEIGHTS[thing.size] * scale * pose.size
    box = _window(x - 0.7 * height, y - 1.25 * height, x + 0.7 * height, y + 0.2 * height)
    u, v = (_PIXELS[:, box[1]] - x) / height, (y - _PIXELS.T[box[0]]) / height
    lean = _LEAN * pose.turn
    u, v = u + lean * v, v - lean * u
    patch = canvas[box]
    for part in DRAWN[thing.shape](u, v, pose.turn, 1 / (height * _FINE)):
        colour, cover = _shade(part, thing, u, v, light)
        patch += cover[:, :, None] * (colour - patch)


def _shade(part: Part, thing: TableObject, u: np.ndarray, v: np.ndarray, light: _Light):
    """Colour (H, W, 3) and coverage (H, W) of one part of an object under the light."""
    across, up, cover = np.broadcast_arrays(part.across, part.up, part.cover)
    towards = np.sqrt(np.maximum(0.0, 1 - across**2 - up**2))
    facing = np.maximum(
        0, across * light.direction[0] + up * light.direction[1] + towards * light.direction[2]
    )
    brightness = part.tint * (light.ambient + (1.15 - light.ambient) * facing)
    material = thing.material if part.colour is None else "plain"
    pigment = np.array(part.colour or PIGMENTS[thing.colour], np.float32)
    colour, gloss = pigment, 0.0
    if material == "glazed":
        gloss = 0.8
    elif material == "metal":  # reflects its surroundings in bands
        brightness = brightness * (0.8 + 0.45 * np.sin(7 * up + 4 * across))
        colour, gloss = 0.72 * pigment + 0.12, 0.9
    elif material == "glass":  # clear where it is seen face on
        cover = cover * np.clip(0.38 + 0.75 * (1 - towards) ** 1.5, 0, 0.95)
        brightness, gloss = brightness * 1.15, 1.2
    elif material == "woollen":
        knit = np.sin(40 * u + 3 * np.sin(25 * v)) * np.sin(36 * v + 3 * np.sin(28 * u))
        brightness = 0.95 * brightness + 0.22 * knit
    elif material == "striped":
        colour = _patterned(thing.colour, np.clip(4 * np.sin(26 * v) + 0.5, 0, 1))
    elif material == "dotted":
        colour = _patterned(thing.colour, np.clip(5 * (np.abs(np.sin(17 * u) * np.sin(17 * v)) - 0.45), 0, 1))
    shaded = colour * brightness[:, :, None]
    if gloss:
        shaded += (gloss * _highlight(across, up, towards, light))[:, :, None]
    return shaded, cover


def _highlight(across: np.ndarray, up: np.ndarray, towards: np.ndarray, light: _Light) -> np.ndarray:
    """Mirror image of the light (Blinn's half vector), to the power of 16."""
    x, y, z = light.direction
    half = (across * x + up * y + towards * (z + 1)) / math.hypot(x, y, z + 1)
    return np.square(np.square(np.square(np.square(half))))


def _patterned(colour: str, share: np.ndarray) -> np.ndarray:
    """The object's colour with a second colour where `share` is 1."""
    first = np.array(PIGMENTS[colour], np.float32)
    second = np.array((0.12, 0.14, 0.35) if colour in ("white", "yellow") else (0.97, 0.95, 0.88), np.float32)
    return first + share[:, :, None] * (second - first)
