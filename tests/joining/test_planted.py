"""Planted clouds are what they are said to be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from coview.errors import UsageError
from coview.joining.planted import LATENTS, plant


@pytest.mark.parametrize("latent", LATENTS)
def test_the_rotation_brings_held_out_pairs_together_unless_independent(latent):
    cloud = plant(latent, n=300, d=8, noise=0.1, seed=0)
    assert_allclose(cloud.rotation @ cloud.rotation.T, np.eye(8), atol=1e-9)
    apart = np.linalg.norm(cloud.held_x @ cloud.rotation - cloud.held_y, axis=1).mean()
    chance = np.linalg.norm(cloud.held_x @ cloud.rotation - np.roll(cloud.held_y, 1, axis=0), axis=1).mean()
    assert (apart < 0.3 * chance) == (latent != "independent")
    again = plant(latent, n=300, d=8, noise=0.1, seed=0)
    assert_array_equal(again.x, cloud.x)
    assert_array_equal(again.y, cloud.y)


def test_an_unknown_latent_is_refused():
    with pytest.raises(UsageError, match="clusters"):
        plant("cluster", n=10, d=3, noise=0, seed=0)
