"""Is a rotation found without pairs the rotation, or would the search have come back with anything?

Three questions, none of which needs a pair. Do searches on halves of the rows that share nothing find the
same rotation? Does it match rows it has not seen better than rotations that fit variances as well? And does
it bring the sides about as near to each other as each is to itself?
"""

from dataclasses import dataclass

import numpy as np

from coview.joining.read_out import foscttm
from coview.joining.refinement import draw, matched_similarity
from coview.joining.rotation import unit_rows

COMPARED = 1000
SCORED = 300
DRAWS = 49
# Agreement of 1 is the same rotation, 0 unrelated ones. Where signs of axes are undetermined halves agree to
# .1 to .7 by chance; where clusters determine them, to .99 and more.
LEAST_AGREEMENT = 0.95
# Unrelated clusters are brought within .35 of what true partners reach, clouds of one shape within .8 to 1.
LEAST_FIT = 0.55
# Flips of axes that leave a side as near to itself as it was have nothing to tell shapes by.
LEAST_REACH = 0.01


@dataclass(frozen=True)
class Evidence:
    """What speaks for a rotation.

    Attributes
    ----------
    score : float
        Mean cosine of matched rows, under the rotation of each half of the rows on the other half.
    null : tuple of float
        The same after flips of random principal axes of Y: rotations that fit the covariances as well.
    self_score : float
        The same between two batches of one side, mean of both sides: about what the truth reaches.
    agreement : float
        1 - 2 FOSCTTM between rows mapped by the rotations of both halves.
    """

    score: float
    null: tuple[float, ...]
    self_score: float
    agreement: float

    @property
    def p_value(self) -> float:
        """Share of flips, the rotation itself counted, that score no worse."""
        return (1 + sum(value >= self.score for value in self.null)) / (1 + len(self.null))

    @property
    def fit(self) -> float:
        """Where the score lies between the mean of the null (0) and the score of a side with itself (1).

        0 too where flips make no difference to a side, as for an isotropic Gaussian.
        """
        floor = float(np.mean(self.null))
        reach = self.self_score - floor
        return (self.score - floor) / reach if reach > LEAST_REACH else 0.0

    def objections(self) -> tuple[str, ...]:
        """Why the rotation should not be believed; empty if nothing speaks against it."""
        found = []
        if self.agreement < LEAST_AGREEMENT:
            found.append(f"searches on disjoint halves of the rows disagree (agreement {self.agreement:.2f})")
        if self.p_value > 1 / (1 + len(self.null)):
            found.append(f"the score does not beat flipped axes (p = {self.p_value:.2f})")
        if self.fit < LEAST_FIT:
            found.append(f"the sides come only {self.fit:.2f} of the way to where one shape would bring them")
        return tuple(found)


def agreement(one: np.ndarray, other: np.ndarray, x: np.ndarray) -> float:
    """How far two rotations (Dx, Dy) send rows to the same places: 1 the same, 0 unrelated."""
    return 1 - 2 * foscttm(unit_rows(x @ one), unit_rows(x @ other))


def weigh(
    rotations: tuple[np.ndarray, np.ndarray],
    halves_x: tuple[np.ndarray, np.ndarray],
    halves_y: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
) -> Evidence:
    """Gather the evidence for rotations found on halves, each judged on the half it has not seen.

    Parameters
    ----------
    rotations : the rotation (Dx, Dy) found on each half
    halves_x, halves_y : unit rows of each half, (N, Dx) and (M, Dy)
    rng : draws rows and flips
    """
    score = 0.0
    null = np.zeros(DRAWS)
    for rotation, x, y in zip(rotations, halves_x[::-1], halves_y[::-1], strict=True):
        a, b = draw(rng, x, SCORED), draw(rng, y, SCORED)
        score += matched_similarity(rotation, a, b) / 2
        axes = np.linalg.eigh((y.T @ y).astype(np.float64))[1]
        for index in range(DRAWS):
            signs = rng.choice([-1.0, 1.0], size=len(axes))
            flip = ((axes * signs) @ axes.T).astype(np.float32)
            null[index] += matched_similarity(rotation @ flip, a, b) / 2
    own = [_self_score(draw(rng, np.concatenate(sides), 2 * SCORED)) for sides in (halves_x, halves_y)]
    compared = draw(rng, np.concatenate(halves_x), COMPARED)
    return Evidence(score, tuple(null.tolist()), float(np.mean(own)), agreement(*rotations, compared))


def _self_score(rows: np.ndarray) -> float:
    half = len(rows) // 2
    return matched_similarity(np.eye(rows.shape[1], dtype=np.float32), rows[:half], rows[half : 2 * half])
