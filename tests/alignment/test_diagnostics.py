import numpy as np
import pytest
from spaces import independent, latent_views

from coview.alignment.diagnostics import diagnose
from coview.alignment.neighbours import NeighbourLists, top_neighbours
from coview.alignment.recipes import Layer


def test_facts_equal_their_definitions():
    X = latent_views(120, 0)[0] + 2
    X[50:60] = X[40]
    lists = NeighbourLists(top_neighbours(X, 20), 6)
    facts = diagnose(Layer(X), lists)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert facts.mean_cosine == pytest.approx((unit @ unit.T)[~np.eye(120, dtype=bool)].mean())
    values = np.linalg.eigvalsh(np.cov(X.T))
    assert facts.participation_ratio == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-4)
    squares = np.sort((X**2).sum(axis=0))[::-1]
    assert facts.massive_share == pytest.approx(squares[:3].sum() / squares.sum())
    assert facts.duplicate_share == pytest.approx(10 / 120)
    degrees = np.bincount(lists.ids[:, :6].ravel(), minlength=120)
    assert facts.max_in_degree == degrees.max()
    assert facts.tie_share > 0.05  # rows near the eleven equal ones cannot tell them apart


def test_massive_dimensions_and_hubs_show():
    X = independent(300, 1)[0]
    plain = diagnose(Layer(X), NeighbourLists(top_neighbours(X, 20), 10))
    massive = X.copy()
    massive[:, :3] *= 40
    assert diagnose(Layer(massive)).massive_share > 0.98 > 20 * plain.massive_share / 2
    massive[:, 0] += 200
    assert diagnose(Layer(massive)).mean_cosine > 0.6 > plain.mean_cosine + 0.5
    assert plain.tie_share == 0
    hubs = np.vstack([X[:290], 0.01 * X[290:] + X[:290].mean(axis=0)])
    lists = NeighbourLists(top_neighbours(hubs, 10, metric="euclidean"), 10)
    found = diagnose(Layer(hubs), lists, "euclidean")
    assert found.max_in_degree > 250
    assert found.in_degree_skew > 3 * plain.in_degree_skew


def test_sampled_lists_say_nothing_of_hubs():
    X = independent(50, 2)[0]
    lists = NeighbourLists(top_neighbours(X, 5, queries=np.array([1, 2])), 5, np.array([1, 2]))
    assert diagnose(Layer(X), lists).max_in_degree is None
