"""What every metric promises: identity, symmetry, invariances, and summaries that follow their rows."""

import numpy as np
import pytest
from spaces import independent, latent_views, rotation

from coview.alignment import metrics
from coview.alignment.metrics import METRICS, Settings
from coview.alignment.recipes import Layer

SETTINGS = Settings(k=7)
FIXED_WIDTH = Settings(k=7, sigma=12.0)  # half of the rows have another median distance
CHANGES = {
    "rotation": lambda X: X @ rotation(X.shape[1]),
    "scale": lambda X: X * 1e-3,
    "translation": lambda X: X + 5.0,
    "column scale": lambda X: X * np.linspace(0.1, 10, X.shape[1]),
}


def score(name, X, Y, settings=SETTINGS):
    metric = METRICS[name]
    return metric.compare(*(metric.summarise(Layer(side), settings) for side in (X, Y)))


@pytest.mark.parametrize("name", METRICS)
def test_a_space_is_perfectly_aligned_with_itself(name):
    X = latent_views(120, 0)[0]
    order = np.random.default_rng(0).permutation(120)
    perfect = METRICS[name].perfect(SETTINGS.k)
    if name != "cycle_knn":  # a neighbour need not be mutual
        assert score(name, X, X) == pytest.approx(perfect, abs=1e-6)
        assert score(name, X[order], X[order]) == pytest.approx(perfect, abs=1e-6)
    assert score(name, X[order], X) < 0.8 * perfect


@pytest.mark.parametrize("name", METRICS)
def test_symmetry_holds_where_it_is_promised(name):
    X, Y = latent_views(120, 1)
    there, back = score(name, X, Y), score(name, Y, X)
    if METRICS[name].symmetric:
        assert there == pytest.approx(back, abs=1e-9)
    else:
        assert there == pytest.approx(back, abs=0.05)


@pytest.mark.parametrize(("name", "change"), [(n, c) for n in METRICS for c in METRICS[n].invariances])
def test_promised_invariances_hold(name, change):
    X, Y = latent_views(120, 2)
    assert score(name, CHANGES[change](X), Y) == pytest.approx(score(name, X, Y), abs=2e-5)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("kind", ["permutation", "subset"])
def test_summaries_follow_their_rows(name, kind):
    """Asking a summary for rows gives what summarising those rows anew gives."""
    X, Y = latent_views(200, 3)
    index = np.random.default_rng(4).permutation(200)
    index = index if kind == "permutation" else np.sort(index[:100])
    metric = METRICS[name]
    x, y = (metric.summarise(Layer(side), FIXED_WIDTH) for side in (X, Y))
    assert len(x.rows(index)) == len(index)
    anew = score(name, X[index], Y[index], FIXED_WIDTH)
    assert metric.compare(x.rows(index), y.rows(index)) == pytest.approx(anew, abs=2e-6)
    if kind == "permutation":
        anew = score(name, X, Y[index], FIXED_WIDTH)
        assert metric.compare(x, y.rows(index)) == pytest.approx(anew, abs=2e-6)


@pytest.mark.parametrize("name", [name for name in METRICS if METRICS[name].chance])
def test_exact_chance_is_the_mean_over_re_pairings(name):
    X, Y = independent(40, 5)
    metric = METRICS[name]
    x, y = (metric.summarise(Layer(side), SETTINGS) for side in (X, Y))
    rng = np.random.default_rng(6)
    null = np.array([metric.compare(x, y.rows(rng.permutation(40))) for _ in range(3000)])
    error = null.std() / len(null) ** 0.5
    assert metric.chance(x, y, 40, SETTINGS) == pytest.approx(null.mean(), abs=4 * error)
    if metric.deviation is not None:
        assert metric.deviation(x, y) == pytest.approx(null.std(), rel=0.05)


def test_public_functions_are_the_registered_metrics():
    X, Y = latent_views(100, 7)
    assert metrics.cka(X, Y) == pytest.approx(score("unbiased_cka", X, Y))
    assert metrics.cka(X, Y, unbiased=False) == pytest.approx(score("cka", X, Y))
    assert metrics.cka(X, Y, kernel="rbf") == pytest.approx(score("unbiased_cka_rbf", X, Y))
    assert metrics.cknna(X, Y, 7) == pytest.approx(score("cknna", X, Y))
    assert metrics.svcca(X, Y) == pytest.approx(score("svcca", X, Y))
    assert metrics.procrustes(X, Y) == pytest.approx(score("procrustes", X, Y))
    assert metrics.rsa(X, Y) == pytest.approx(score("rsa", X, Y))
