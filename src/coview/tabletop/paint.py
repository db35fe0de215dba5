"""Paintings of a scene: 64x64 RGB by NumPy, with a nuisance of their own each time.

The state decides what stands where, the room and its light. Drawn anew for each painting, each with its
knob in `Nuisance`: shift and zoom of the camera, direction and warmth of the light, grain, clutter on the
table that belongs to no scene, and the pose (position, turn, size, mirror image) of every object.
"""

import math

import numpy as np

from coview.tabletop.scene import USUAL, Dice, Nuisance, TableObject, TableScene
from coview.tabletop.shapes import DRAWN, TOP_HEIGHT, Part

SIZE = 64  # of a painting, in pixels
_FINE = 2  # painted twice as fine, then averaged
_EXTENT = SIZE * _FINE
_HORIZON, _FRONT = 25.0, 55.0  # where the table ends and where the front of the table lies, in pixels
_PIXELS = np.arange(_EXTENT, dtype=np.float32)[None, :] / _FINE + 0.25

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
_HEIGHTS = {"small": 15.0, "medium": 22.0, "large": 30.0}  # in pixels at the front of the table
_LIGHTS = {  # colour of the light, ambient share
    "daylight": ((1.04, 1.03, 1.0), 0.55),
    "sunset": ((1.16, 0.86, 0.68), 0.45),
    "lamplight": ((1.08, 0.98, 0.70), 0.35),
    "moonlight": ((0.66, 0.74, 0.98), 0.50),
}


class _Camera:
    """Where a point of the table lies on the painting."""

    def __init__(self, dice: Dice, strength: float):
        self.zoom = 1 + strength * dice.between(-0.12, 0.14)
        self.shift = (strength * dice.between(-6, 6), strength * dice.between(-3, 3))

    def screen(self, x: float, y: float) -> tuple[float, float]:
        middle = SIZE / 2
        return middle + (x - middle) * self.zoom + self.shift[0], middle + (
            y - middle
        ) * self.zoom + self.shift[1]

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """World coordinates of the columns (1, W) and rows (H, 1) of the fine painting."""
        middle = SIZE / 2
        columns = (_PIXELS - middle - self.shift[0]) / self.zoom + middle
        rows = (_PIXELS.T - middle - self.shift[1]) / self.zoom + middle
        return columns, rows


def paint(scene: TableScene, draw: int, nuisance: Nuisance = USUAL) -> np.ndarray:
    """Painting number `draw` of a scene.

    Returns
    -------
    (64, 64, 3) uint8; a pure function of the scene, `draw` and `nuisance`
    """
    dice = Dice(scene.seed, scene.index, 1, draw)
    camera = _Camera(dice, nuisance.camera)
    light, ambient = _LIGHTS[scene.light]
    warmth = nuisance.light * dice.between(-0.09, 0.09)
    light_colour = np.array(light, np.float32) * np.array([1 + warmth, 1, 1 - warmth], np.float32)
    angle = nuisance.light * dice.between(-0.9, 0.9)
    direction = (0.75 * math.sin(angle), 0.55 * math.cos(angle), 0.62)

    columns, rows = camera.grid()
    canvas = _room(scene, columns, rows)
    for _ in range(round(nuisance.clutter * dice.between(0, 5))):
        _clutter(canvas, dice, camera)
    placed = [_pose(scene, i, dice, nuisance) for i in range(len(scene.objects))]
    order = sorted(range(len(placed)), key=lambda i: (-placed[i][1], scene.objects[i].on is not None))
    for i in order:
        if scene.objects[i].on is None:
            _shadow(canvas, placed[i], camera, direction[0])
    for i in order:
        _object(canvas, scene.objects[i], placed[i], camera, direction, ambient, dice)

    small = 0.25 * (canvas[::2, ::2] + canvas[1::2, ::2] + canvas[::2, 1::2] + canvas[1::2, 1::2])
    small *= light_colour
    if scene.light == "lamplight":
        lamp = camera.screen(32 + 26 * math.sin(angle), 20)
        distance = ((_PIXELS[:, ::2] - lamp[0]) ** 2 + (_PIXELS.T[::2] - lamp[1]) ** 2) / 1800.0
        small *= (0.55 + 0.55 * np.exp(-distance))[:, :, None]
    grain = dice.rng.standard_normal((SIZE, SIZE, 1), dtype=np.float32)
    small += nuisance.texture * dice.between(0.01, 0.03) * grain
    return (np.clip(small, 0, 1) * 255 + 0.5).astype(np.uint8)


def _pose(
    scene: TableScene, i: int, dice: Dice, nuisance: Nuisance
) -> tuple[float, float, float, float, float]:
    """Where and how object i stands in this painting: x, depth, lift, size factor, turn."""
    thing = scene.objects[i]
    jitter = nuisance.pose
    x, depth = thing.x + jitter * dice.between(-0.05, 0.05), thing.depth + jitter * dice.between(-0.04, 0.04)
    factor, turn = 1 + jitter * dice.between(-0.08, 0.08), jitter * dice.between(-1, 1)
    lift = 0.0
    if thing.on is not None:
        base = scene.objects[thing.on]
        x, depth = thing.x, thing.depth - 0.001
        lift = TOP_HEIGHT[base.shape] * _HEIGHTS[base.size]
    return x, depth, lift, factor, turn


def _foot(pose: tuple, camera: _Camera) -> tuple[float, float, float]:
    """Screen position of an object's foot and pixels per unit of its height at that depth."""
    x, depth, lift, _, _ = pose
    perspective = 1 - 0.35 * depth
    across = 32 + 25 * x * perspective
    down = _HORIZON + (_FRONT - _HORIZON) * (1 - 0.72 * depth) - lift * perspective
    return *camera.screen(across, down), perspective * camera.zoom


def _window(left: float, top: float, right: float, bottom: float) -> tuple[slice, slice] | None:
    """The fine pixels of a box given in painting pixels, cut at the frame; None if nothing is left."""
    x0, x1 = max(0, int(left * _FINE)), min(_EXTENT, int(right * _FINE) + 1)
    y0, y1 = max(0, int(top * _FINE)), min(_EXTENT, int(bottom * _FINE) + 1)
    return (slice(y0, y1), slice(x0, x1)) if x0 < x1 and y0 < y1 else None


def _shadow(canvas: np.ndarray, pose: tuple, camera: _Camera, light_across: float) -> None:
    x, y, scale = _foot(pose, camera)
    radius = 9.0 * scale * pose[3]
    x -= light_across * radius * 0.7
    box = _window(x - 2 * radius, y - radius, x + 2 * radius, y + radius)
    if box is None:
        return
    distance = ((_PIXELS[:, box[1]] - x) / radius) ** 2 + (
        (_PIXELS.T[box[0]] - y + 0.5) / (radius * 0.38)
    ) ** 2
    canvas[box] *= (1 - 0.5 * np.exp(-(distance**2)))[:, :, None]


def _object(canvas, thing: TableObject, pose: tuple, camera: _Camera, direction, ambient: float, dice: Dice):
    x, y, scale = _foot(pose, camera)
    height = _HEIGHTS[thing.size] * scale * pose[3]
    box = _window(x - 0.7 * height, y - 1.25 * height, x + 0.7 * height, y + 0.2 * height)
    if box is None:
        return
    u = (_PIXELS[:, box[1]] - x) / height
    v = (y - _PIXELS.T[box[0]]) / height
    lean = 0.08 * pose[4]
    u, v = u + lean * v, v - lean * u
    patch = canvas[box]
    for part in DRAWN[thing.shape](u, v, pose[4], 1 / (height * _FINE)):
        colour, cover = _shade(part, thing, u, v, direction, ambient, dice)
        patch += cover[:, :, None] * (colour - patch)


def _shade(part: Part, thing: TableObject, u, v, direction, ambient: float, dice: Dice):
    """Colour (H, W, 3) and coverage (H, W) of one part under the light."""
    across, up, _ = np.broadcast_arrays(part.across, part.up, part.cover)
    towards = np.sqrt(np.maximum(0.0, 1 - across**2 - up**2))
    facing = across * direction[0] + up * direction[1] + towards * direction[2]
    brightness = ambient + (1.15 - ambient) * np.maximum(facing, 0)
    pigment = np.array(part.colour or PIGMENTS[thing.colour], np.float32)
    cover, gloss, sharp = part.cover, 0.25, False
    colour = pigment[None, None]
    if part.colour is not None:
        pass
    elif thing.material == "striped":
        band = np.clip(4 * np.sin(v * 26) + 0.5, 0, 1)[:, :, None]
        colour = pigment + band * (_contrast(thing.colour) - pigment)
    elif thing.material == "dotted":
        dots = np.sin(u * 17) * np.sin(v * 17)
        colour = pigment + np.clip(5 * (np.abs(dots) - 0.45), 0, 1)[:, :, None] * (
            _contrast(thing.colour) - pigment
        )
    elif thing.material == "woollen":
        fuzz = dice.rng.standard_normal(cover.shape, dtype=np.float32)
        brightness = brightness * (0.92 + 0.14 * fuzz)
        cover, gloss = cover * (0.93 + 0.07 * np.sign(fuzz)), 0.0
    elif thing.material == "metal":
        brightness = brightness * (0.8 + 0.45 * np.sin(7 * up + 4 * across))
        colour, gloss, sharp = 0.72 * colour + 0.12, 0.9, True
    elif thing.material == "glass":
        cover, gloss, sharp = cover * np.clip(0.38 + 0.75 * (1 - towards) ** 1.5, 0, 0.95), 1.2, True
        brightness = brightness * 1.15
    elif thing.material == "glazed":
        gloss, sharp = 0.8, True
    shine = np.square(np.square(np.clip(facing, 0, 1)))
    shine = gloss * (np.square(np.square(shine)) if sharp else np.square(shine))  # facing^16 or facing^8
    return colour * (brightness * part.tint)[:, :, None] + shine[:, :, None], cover


def _contrast(colour: str) -> np.ndarray:
    """The second colour of a pattern."""
    return np.array((0.12, 0.14, 0.35) if colour in ("white", "yellow") else (0.97, 0.95, 0.88), np.float32)


def _clutter(canvas: np.ndarray, dice: Dice, camera: _Camera) -> None:
    """A crumb, a coin, a pencil, a leaf: something that no describer mentions."""
    depth = dice.between(-0.15, 1.0)
    x, y, scale = _foot((dice.between(-1.1, 1.1), depth, 0.0, 1.0, 0.0), camera)
    length, width = scale * dice.between(0.8, 3.5), scale * dice.between(0.5, 1.1)
    box = _window(x - length - 1, y - length - 1, x + length + 1, y + length + 1)
    if box is None:
        return
    turn = dice.between(0, math.pi)
    across, down = _PIXELS[:, box[1]] - x, (_PIXELS.T[box[0]] - y) * 1.6
    along = (across * math.cos(turn) + down * math.sin(turn)) / length
    beside = (down * math.cos(turn) - across * math.sin(turn)) / width
    cover = np.clip((1 - np.hypot(along, beside)) * width * _FINE + 0.5, 0, 1)[:, :, None]
    colour = np.array([dice.between(0.15, 0.9) for _ in range(3)], np.float32)
    canvas[box] += cover * (colour - canvas[box])


def _room(scene: TableScene, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The wall of the place above the horizon and the table's surface below, (128, 128, 3)."""
    edge = int(np.searchsorted(rows[:, 0], _HORIZON))
    above, below = rows[:edge], rows[edge:]
    distance = 18.0 / (below - _HORIZON + 12)  # what lies farther back is seen smaller
    surface = _surface(scene.surface, (columns - 32) * distance, 60 * distance)
    surface *= np.minimum(0.8 + 0.2 * (below - _HORIZON) / 25, 1.05)[:, :, None]
    return np.concatenate([_wall(scene.place, columns, above), surface])


def _lines(coordinate: np.ndarray, period: float, width: float) -> np.ndarray:
    """1 on thin lines that repeat, 0 between."""
    return (np.mod(coordinate, period) < width).astype(np.float32)


def _mix(first, second, share) -> np.ndarray:
    first, second = np.array(first, np.float32), np.array(second, np.float32)
    return first + share[:, :, None] * (second - first)


def _wall(place: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if place == "kitchen":
        return _mix((0.78, 0.88, 0.86), (0.95, 0.96, 0.94), np.maximum(_lines(x, 8, 1), _lines(y + 3, 8, 1)))
    if place == "nursery":
        return _mix((0.97, 0.80, 0.82), (0.98, 0.92, 0.86), _lines(x, 9, 4.5) + 0 * y)
    if place == "workshop":
        return _mix(
            (0.52, 0.38, 0.26),
            (0.36, 0.25, 0.17),
            np.maximum(_lines(x, 11, 1), 0.3 * _lines(y + x / 9, 3, 1)),
        )
    if place == "study":
        book = np.mod(np.floor(x / 3) * 7, 5) / 4 + 0 * y  # spines of different darkness
        spines = _mix((0.34, 0.15, 0.14), (0.20, 0.26, 0.30), book)
        return spines * (1 - 0.6 * np.maximum(_lines(x, 3, 0.6), _lines(y + 2, 13, 1.6)))[:, :, None]
    if place == "garden":
        leaves = 0.5 + 0.25 * np.sin(x * 0.9 + 2 * np.sin(y * 0.7)) + 0.25 * np.sin(y * 1.1 + x * 0.35)
        hedge = _mix((0.22, 0.46, 0.18), (0.46, 0.68, 0.30), leaves)
        return np.where(
            (y < 7 + 1.5 * np.sin(x * 0.5))[:, :, None], np.array((0.66, 0.84, 0.95), np.float32), hedge
        )
    ripple = 0.5 + 0.5 * np.sin(y * 2.2 + np.sin(x * 0.4))
    sea = _mix((0.16, 0.40, 0.58), (0.30, 0.56, 0.70), ripple)
    sky = _mix((0.66, 0.80, 0.90), (0.90, 0.93, 0.92), np.clip(y / 14, 0, 1) + 0 * x)
    return np.where((y < 13)[:, :, None], sky, sea)


def _surface(name: str, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    flat = 0 * (x + z)
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
    return _mix((0.36, 0.10, 0.30), (0.42, 0.14, 0.36), 0.5 + 0.5 * np.sin(0.2 * x + 0.1 * z) + flat)
