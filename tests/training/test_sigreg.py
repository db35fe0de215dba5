import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sigreg_oracles import sigreg_plain, sigreg_slice_free, trapezoid

from coview.errors import UsageError
from coview.training import sigreg as module
from coview.training.sigreg import directions, effective_weight, gaussian_floor, sigreg


def off_target(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Embeddings that are neither Gaussian nor centred, each column with a scale of its own."""
    generator = np.random.default_rng([seed, *shape])
    scales = generator.uniform(0.3, 1.5, size=shape[-1])
    return torch.as_tensor(generator.uniform(-1, 2, size=shape) * scales).to(dtype)


def value_and_gradient(loss_of, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    leaf = x.detach().clone().requires_grad_()
    loss = loss_of(leaf)
    loss.backward()
    return loss.item(), leaf.grad


def compare_with_plain(x: torch.Tensor, a: torch.Tensor, tolerance: float, **quadrature) -> None:
    value, gradient = value_and_gradient(lambda z: sigreg(z, a, **quadrature), x)
    expected, expected_gradient = value_and_gradient(
        lambda z: sigreg_plain(z, a.to(z.dtype), **quadrature), x
    )
    assert value == pytest.approx(expected, rel=tolerance)
    assert torch.linalg.norm(gradient - expected_gradient) <= tolerance * torch.linalg.norm(expected_gradient)


@pytest.mark.parametrize("shape", [(1, 3), (7, 1), (64, 16), (300, 96), (2, 48, 12), (3, 128, 32)])
@pytest.mark.parametrize("slices", [1, 33, 256])
def test_equals_the_plain_formula_in_value_and_gradient(shape, slices):
    compare_with_plain(off_target(*shape), directions(shape[-1], slices, 0, 0), 1e-5)


@settings(max_examples=25)
@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 12),
    slices=st.integers(1, 40),
    knots=st.integers(2, 30),
    t_max=st.floats(0.1, 8),
    block=st.integers(1, 500),
)
def test_equals_the_plain_formula_whatever_the_knots_and_blocks(rows, width, slices, knots, t_max, block):
    original, module.CPU_BLOCK = module.CPU_BLOCK, block
    try:
        x = off_target(rows, width, dtype=torch.float64)
        compare_with_plain(x, directions(width, slices, 1, 2), 1e-9, knots=knots, t_max=t_max)
    finally:
        module.CPU_BLOCK = original


@pytest.mark.slow
def test_equals_the_plain_formula_at_full_size():
    compare_with_plain(off_target(4096, 512), directions(512, 1024, 0, 0), 1e-5)


def test_gradient_agrees_with_finite_differences_in_float64():
    a = directions(5, 9, 0, 0, dtype=torch.float64)
    for shape in [(6, 5), (2, 4, 5)]:
        x = off_target(*shape, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: sigreg(z, a), x)


def test_outer_gradient_is_passed_on():
    x, a = off_target(20, 6), directions(6, 10, 0, 0)
    _, once = value_and_gradient(lambda z: sigreg(z, a), x)
    _, thrice = value_and_gradient(lambda z: 3 * sigreg(z, a), x)
    torch.testing.assert_close(thrice, 3 * once)


def test_more_directions_approach_the_closed_form():
    x = off_target(60, 24, dtype=torch.float64)
    exact = sigreg_slice_free(x.numpy())
    draws = [sigreg(x, directions(24, 200, 0, step, dtype=torch.float64)).item() for step in range(50)]
    standard_error = np.std(draws, ddof=1) / np.sqrt(len(draws))
    assert standard_error < 0.01 * exact
    assert abs(np.mean(draws) - exact) < 4 * standard_error


def test_closed_form_equals_a_sum_over_many_directions_in_two_dimensions():
    x = off_target(30, 2, dtype=torch.float64)
    angle = torch.arange(720, dtype=torch.float64) * (2 * np.pi / 720)
    circle = torch.stack([angle.cos(), angle.sin()])
    assert sigreg(x, circle).item() == pytest.approx(sigreg_slice_free(x.numpy()), rel=1e-9)


def test_gaussian_floor():
    assert gaussian_floor() == pytest.approx(1.0525, abs=5e-5)
    _, weights, phi = trapezoid(9, 5.0)
    assert gaussian_floor(9, 5.0) == pytest.approx((weights * (1 - phi**2)).sum(), rel=1e-12)


@pytest.mark.parametrize("rows", [10, 400])
def test_gaussian_samples_score_the_floor_on_average(rows):
    generator = np.random.default_rng([7, rows])
    scores = [
        sigreg(torch.as_tensor(generator.standard_normal((rows, 64))), directions(64, 64, 3, step)).item()
        for step in range(60)
    ]
    standard_error = np.std(scores, ddof=1) / np.sqrt(len(scores))
    assert standard_error < 0.03
    assert abs(np.mean(scores) - gaussian_floor()) < 4 * standard_error


def test_collapse_at_zero():
    a = directions(8, 16, 0, 0)
    for rows in (5, 500):
        assert sigreg(torch.zeros(rows, 8), a).item() / rows == pytest.approx(0.40205, abs=5e-5)


def test_views_are_averaged():
    x, a = off_target(3, 40, 8), directions(8, 32, 0, 0)
    assert sigreg(x, a).item() == pytest.approx(np.mean([sigreg(view, a).item() for view in x]), rel=1e-6)


def test_directions_are_unit_and_depend_on_seed_and_step_alone():
    a = directions(30, 50, 4, 17)
    assert a.shape == (30, 50)
    torch.testing.assert_close(a.norm(dim=0), torch.ones(50))
    torch.manual_seed(1)
    np.random.default_rng(1).normal()
    assert torch.equal(a, directions(30, 50, 4, 17))
    for seed, step in [(4, 18), (5, 17), (17, 4)]:
        assert not torch.allclose(a, directions(30, 50, seed, step))
    assert directions(3, 2, 0, 0, dtype=torch.float64).dtype == torch.float64


def test_no_gradient_work_without_need():
    x, a = off_target(20, 6), directions(6, 10, 0, 0)
    trained = sigreg(x.clone().requires_grad_(), a)
    with torch.no_grad():
        evaluated = sigreg(x.clone().requires_grad_(), a)
    assert trained.requires_grad
    assert not evaluated.requires_grad
    assert not sigreg(x, a).requires_grad
    assert evaluated.item() == trained.item()


def test_leaves_autocast_and_computes_half_precision_in_float32():
    x, a = off_target(64, 16), directions(16, 32, 0, 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value, gradient = value_and_gradient(lambda z: sigreg(z, a), x)
    expected, expected_gradient = value_and_gradient(lambda z: sigreg(z, a), x)
    assert value == expected
    assert torch.equal(gradient, expected_gradient)
    half = x.bfloat16().requires_grad_()
    loss = sigreg(half, a)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == sigreg(half.detach().float(), a).item()
    assert half.grad.dtype == torch.bfloat16


def test_second_derivative_is_refused():
    x = off_target(10, 4).requires_grad_()
    loss = sigreg(x, directions(4, 8, 0, 0))
    with pytest.raises(UsageError, match="differentiated once"):
        torch.autograd.grad(loss, x, create_graph=True)


@pytest.mark.parametrize(
    ("x", "a", "message"),
    [
        (torch.zeros(4), torch.ones(4, 2), r"\(N, D\) or \(V, N, D\)"),
        (torch.zeros(0, 4), torch.ones(4, 2), r"not be empty, not \(0, 4\)"),
        (torch.zeros(5, 4), torch.ones(3, 2), r"need shape \(4, M\), not \(3, 2\)"),
        (torch.zeros(5, 4), torch.ones(4), r"not \(4,\)"),
        (torch.zeros(5, 4, dtype=torch.int64), torch.ones(4, 2), "floating point, not torch.int64"),
    ],
)
def test_wrong_shapes_are_named(x, a, message):
    with pytest.raises(UsageError, match=message):
        sigreg(x, a)


def test_wrong_options_are_named():
    x, a = torch.zeros(5, 4), directions(4, 2, 0, 0)
    with pytest.raises(UsageError, match="2 knots"):
        sigreg(x, a, knots=1)
    with pytest.raises(UsageError, match="t_max"):
        sigreg(x, a, t_max=0.0)
    with pytest.raises(UsageError, match="at least 1, not 4 and 0"):
        directions(4, 0, 0, 0)
    with pytest.raises(UsageError, match="reference rows"):
        effective_weight(0.1, 0, 128)


def test_effective_weight_keeps_the_balance_when_the_batch_doubles():
    """Off target the gradient of SIGReg against that of the invariance term must not depend on the rows."""
    generator = np.random.default_rng(5)
    scene = generator.standard_normal((1024, 32))
    views = torch.as_tensor(
        np.stack([0.7 * (scene + 0.5 * generator.standard_normal(scene.shape)) + 0.1 for _ in range(2)])
    )
    a = directions(32, 256, 0, 0)

    def balance(rows: int, weight: float) -> float:
        z = views[:, :rows]
        _, pull = value_and_gradient(lambda z: weight * sigreg(z, a), z)
        _, invariance = value_and_gradient(lambda z: (z - z.mean(0)).square().mean(), z)
        return (pull.norm() / invariance.norm()).item()

    small, large = (balance(rows, effective_weight(0.05, rows, 128)) for rows in (512, 1024))
    assert large / small == pytest.approx(1, abs=0.05)
    assert balance(1024, 0.05) / balance(512, 0.05) == pytest.approx(
        2, abs=0.1
    )  # what it is there to prevent
