import numpy as np
import pytest
import torch

from coview.errors import UsageError
from coview.training.objectives import (
    effective_rank,
    invariance,
    lejepa,
    next_token,
    vicreg,
    view_shuffle_control,
)
from coview.training.sigreg import directions, gaussian_floor, sigreg

# Two views of three scenes in the plane, small enough to work out by hand.
HAND = torch.tensor(
    [[[1.0, 0.0], [0.0, 2.0], [-1.0, -2.0]], [[3.0, 0.0], [0.0, 0.0], [-1.0, -2.0]]], dtype=torch.float64
)


def scenes_and_noise(views: int, rows: int, width: int, noise: float, seed: int = 0) -> torch.Tensor:
    generator = np.random.default_rng([seed, views, rows, width])
    scene = generator.standard_normal((1, rows, width))
    return torch.as_tensor(scene + noise * generator.standard_normal((views, rows, width)))


def test_invariance_by_hand():
    # deviations from the scenes' means: +-(1, 0), +-(0, 1), 0: four ones over 2 * 3 * 2 numbers
    assert invariance(HAND).item() == pytest.approx(4 / 12)


def test_invariance_is_the_pairwise_distance_in_other_units():
    z = scenes_and_noise(4, 20, 5, 0.7)
    pairs = [(z[v] - z[w]).square().sum(-1).mean() for v in range(4) for w in range(4) if v != w]
    assert invariance(z).item() == pytest.approx(torch.stack(pairs).mean().item() * 3 / (2 * 4 * 5))


def test_lejepa_is_the_weighted_sum_at_the_reference():
    z, a = scenes_and_noise(3, 50, 8, 0.5), directions(8, 64, 0, 0)
    loss = lejepa(z, a, weight=0.1, reference_rows=50)
    expected = 0.9 * (z - z.mean(0)).square().mean() + 0.1 * sum(sigreg(view, a) for view in z) / 3
    assert loss.total.item() == pytest.approx(expected.item())
    assert loss.terms["effective_weight"] == pytest.approx(0.1)
    assert lejepa(z, a, weight=0.1, reference_rows=200).terms["effective_weight"] == pytest.approx(0.4)


def test_lejepa_pinned():
    a = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    loss = lejepa(HAND, a, weight=0.02, reference_rows=3)
    assert loss.terms["invariance"].item() == pytest.approx(0.3333333, abs=1e-6)
    assert loss.terms["sigreg"].item() == pytest.approx(0.7303755, abs=1e-6)
    assert loss.total.item() == pytest.approx(0.98 / 3 + 0.02 * 0.7303755, abs=1e-6)


@pytest.mark.parametrize("views", [2, 4])
def test_balance_of_lejepa_depends_on_neither_batch_nor_views(views):
    """Gradient of the regulariser over that of the invariance term, off target, at one stated weight."""
    a = directions(16, 256, 0, 0)

    def balance(views: int, rows: int) -> float:
        z = (0.5 * scenes_and_noise(views, rows, 16, 0.3) + 0.1).requires_grad_()

        def gradient(loss: torch.Tensor) -> torch.Tensor:
            return torch.autograd.grad(loss, z, retain_graph=True)[0]

        whole = gradient(lejepa(z, a, weight=0.05, reference_rows=256).total)
        pull = 0.95 * gradient(invariance(z))
        # the share of views in the deviation from their mean is (V - 1) / V by definition: not a weight
        return ((whole - pull).norm() / pull.norm()).item() * ((views - 1) / views) ** 0.5

    reference = balance(2, 512)
    assert balance(views, 1024) == pytest.approx(reference, rel=0.05)
    assert balance(views, 2048) == pytest.approx(reference, rel=0.05)


def test_gaussian_embeddings_stand_at_the_floor():
    z = scenes_and_noise(2, 4000, 6, 0.0)
    loss = lejepa(z, directions(6, 128, 0, 0), weight=0.02, reference_rows=4000)
    assert loss.terms["invariance"].item() == pytest.approx(0, abs=1e-12)
    assert loss.terms["sigreg"].item() == pytest.approx(gaussian_floor(), rel=0.6)


def vicreg_by_loops(z: torch.Tensor) -> tuple[float, float]:
    views, rows, width = z.shape
    v_pairs = [(v, w) for v in range(views) for w in range(views) if v != w]
    distance = np.mean([(z[v] - z[w]).square().sum(-1).mean().item() for v, w in v_pairs])
    f = z - z.mean((0, 1))
    products = [
        (f[v, n] @ f[w, m]).item() ** 2
        for n in range(rows)
        for m in range(rows)
        if n != m
        for v in range(views)
        for w in range(views)
    ]
    return distance, np.mean(products) - 2 * f.square().sum(-1).mean().item() + width


@pytest.mark.parametrize("shape", [(2, 2, 3), (3, 9, 4)])
def test_vicreg_equals_loops_over_pairs(shape):
    z = scenes_and_noise(*shape, 0.6)
    distance, covariance = vicreg_by_loops(z)
    loss = vicreg(z, penalty=2.5)
    assert loss.terms["distance"].item() == pytest.approx(distance)
    assert loss.terms["covariance"].item() == pytest.approx(covariance)
    assert loss.total.item() == pytest.approx(distance + 2.5 * covariance)


def test_vicreg_by_hand():
    # squared distances of the views: 4, 4 and 0; the covariance term worked out in fractions
    loss = vicreg(HAND, penalty=1.0)
    assert loss.terms["distance"].item() == pytest.approx(8 / 3)
    assert loss.terms["covariance"].item() == pytest.approx(-1 / 3)


def test_vicreg_does_not_pay_for_the_size_of_the_batch():
    """White embeddings score 0 on average, where the batch's covariance alone would cost D (D + 1) / N."""
    width, rows = 16, 40
    scores = []
    for seed in range(300):
        z = scenes_and_noise(2, rows, width, 0.0, seed)
        scores.append(vicreg(z, penalty=1.0).terms["covariance"].item())
    assert abs(np.mean(scores)) < 0.05 * width * (width + 1) / rows


def test_vicreg_has_the_minimiser_of_theory():
    """A world of 4 states where a view stays with probability 1 - e and else moves to any state.

    The kernel's eigenvalue on non-constant functions is 1 - e, so each of the 3 dimensions should have
    variance 1 - e / penalty (the constant function takes none).
    """
    states, move, penalty = 4, 0.3, 2.0
    counts = torch.full((states, states), 40 * move / states)  # 40 visits from each state
    counts += torch.eye(states) * 40 * (1 - move)
    pairs = torch.cartesian_prod(torch.arange(states), torch.arange(states))
    first, second = pairs.repeat_interleave(counts.flatten().round().long(), dim=0).T
    table = torch.as_tensor(np.random.default_rng(0).standard_normal((states, 3))).requires_grad_()
    optimiser = torch.optim.Adam([table], lr=0.02)
    for _ in range(800):
        optimiser.zero_grad()
        vicreg(torch.stack([table[first], table[second]]), penalty=penalty).total.backward()
        optimiser.step()
    centred = (table - table.mean(0)).detach()
    covariance = centred.T @ centred / states
    torch.testing.assert_close(
        covariance, (1 - move / penalty) * torch.eye(3, dtype=torch.float64), rtol=0, atol=0.02
    )


def test_next_token_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]))
    loss = next_token(logits, torch.eye(3), torch.tensor([0, 2]))
    assert loss.total.item() == pytest.approx((np.log(2) + np.log(10)) / 2)
    assert loss.terms["cross_entropy"].item() == loss.total.item()


def test_effective_rank():
    corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert effective_rank(corners).item() == pytest.approx(2)
    assert effective_rank(torch.nn.functional.pad(corners, (0, 5))).item() == pytest.approx(2)
    assert effective_rank(corners[:, :1] * torch.ones(1, 6)).item() == pytest.approx(1)
    assert effective_rank(torch.ones(5, 4)).item() == pytest.approx(1)
    # variances 4 and 1: shares .8 and .2
    stretched = corners * torch.tensor([2.0, 1.0])
    assert effective_rank(stretched).item() == pytest.approx(np.exp(-0.8 * np.log(0.8) - 0.2 * np.log(0.2)))
    assert effective_rank(stretched.expand(3, 4, 2) + 7).item() == pytest.approx(
        effective_rank(stretched).item()
    )


@pytest.mark.parametrize("views", [2, 3])
def test_view_shuffle_control_equals_all_pairs_of_different_scenes(views):
    z = scenes_and_noise(views, 12, 5, 0.8) + torch.arange(views).view(-1, 1, 1)
    same, different = [], []
    for v in range(views):
        for w in range(views):
            if v != w:
                distances = torch.cdist(z[v], z[w]).square()
                same.append(distances.diagonal().mean())
                different.append((distances.sum() - distances.diagonal().sum()) / (12 * 11))
    expected = torch.stack(different).mean() / torch.stack(same).mean()
    assert view_shuffle_control(z).item() == pytest.approx(expected.item())


def test_view_shuffle_control_reads_one_for_views_that_carry_nothing():
    unrelated = torch.as_tensor(np.random.default_rng(3).standard_normal((2, 2000, 16)))
    assert view_shuffle_control(unrelated).item() == pytest.approx(1, abs=0.05)
    assert view_shuffle_control(scenes_and_noise(2, 2000, 16, 0.5)).item() == pytest.approx(5, rel=0.05)
    assert view_shuffle_control(torch.zeros(2, 5, 3)).item() == 0


def test_half_precision_is_summed_in_float32():
    z, a = scenes_and_noise(2, 600, 8, 0.5).bfloat16(), directions(8, 16, 0, 0)
    for half, full in [
        (lejepa(z, a, weight=0.1, reference_rows=600), lejepa(z.float(), a, weight=0.1, reference_rows=600)),
        (vicreg(z, penalty=1.0), vicreg(z.float(), penalty=1.0)),
    ]:
        assert half.total.dtype == torch.float32
        assert half.total.item() == full.total.item()


def test_wrong_input_is_named():
    a = directions(4, 3, 0, 0)
    with pytest.raises(UsageError, match=r"at least two views, not \(1, 5, 4\)"):
        lejepa(torch.zeros(1, 5, 4), a, weight=0.1, reference_rows=5)
    with pytest.raises(UsageError, match=r"in \[0, 1\], not 2"):
        lejepa(torch.zeros(2, 5, 4), a, weight=2, reference_rows=5)
    with pytest.raises(UsageError, match="two scenes"):
        vicreg(torch.zeros(2, 1, 4), penalty=1.0)
    with pytest.raises(UsageError, match="two scenes"):
        view_shuffle_control(torch.zeros(2, 1, 4))
    with pytest.raises(UsageError, match=r"were \(5, 4\) and \(4,\)"):
        next_token(torch.zeros(5, 4), torch.zeros(3, 4), torch.zeros(4, dtype=torch.long))
