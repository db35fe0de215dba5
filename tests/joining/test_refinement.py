"""From a rotation that is off to the one planted; matchings against slow twins."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation as Turn

from coview.joining import refinement
from coview.joining.planted import plant
from coview.joining.read_out import foscttm
from coview.joining.refinement import matched_similarity, polar, soft_steps
from coview.joining.rotation import unit_rows


@pytest.fixture(scope="module")
def cloud():
    planted = plant("clusters", n=900, d=16, noise=0.3, seed=0, held=200)
    sides = [(s - s.mean(axis=0)) for s in (planted.x, planted.y)]
    held = (
        unit_rows(planted.held_x - planted.x.mean(axis=0)),
        unit_rows(planted.held_y - planted.y.mean(axis=0)),
    )
    rng = np.random.default_rng(1)
    off = polar(planted.rotation + 0.22 * rng.normal(size=(16, 16)))
    return *map(unit_rows, sides), *held, off, planted.rotation.astype(np.float32)


@pytest.mark.parametrize(
    "step",
    [
        lambda *given: soft_steps(*given, rounds=6),
        lambda *given: refinement.growing_steps(*given, batches=(300, 500, 700)),
        lambda *given: refinement.neighbour_steps(*given),
    ],
)
def test_every_kind_of_step_comes_nearer(cloud, step):
    x, y, held_x, held_y, off, _ = cloud
    found = step(off, x, y, np.random.default_rng(0))
    assert foscttm(held_x @ found, held_y) < 0.6 * foscttm(held_x @ off, held_y)
    assert_allclose(found @ found.T, np.eye(16), atol=1e-4)


def test_the_score_prefers_the_planted_rotation(cloud):
    x, y, *_, off, truth = cloud
    other = polar(np.random.default_rng(5).normal(size=(16, 16)))
    scores = [matched_similarity(one, x[:300], y[:300]) for one in (truth, off, other)]
    assert scores == sorted(scores, reverse=True)


def test_polar_is_nearest_in_the_plane():
    cross = np.array([[2.0, -1.0], [0.7, 1.5]])
    angles = np.linspace(0, 2 * np.pi, 20_001)
    turns = Turn.from_euler("z", angles[:, None]).as_matrix()[:, :2, :2]
    best = turns[np.argmax(np.einsum("nij,ij->n", turns, cross))]
    assert_allclose(polar(cross), best, atol=1e-3)


def test_known_pairs_weigh_as_much_as_all_matches():
    cross, known = np.diag([100.0, 0.0]), np.diag([0.0, 1e-3])
    assert_allclose(polar(cross, known), np.eye(2), atol=1e-6)
