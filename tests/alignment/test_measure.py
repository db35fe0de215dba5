import subprocess
import sys

import numpy as np
import pytest
from spaces import independent, latent_views

from coview.alignment import align
from coview.alignment.metrics import METRICS
from coview.alignment.neighbours import top_neighbours
from coview.alignment.overlap import mutual_knn
from coview.alignment.signature import parse_signature
from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError


def test_the_score_is_the_mean_overlap_and_all_that_belongs_to_it_is_there():
    X, Y = latent_views(200, 0)
    found = align(X, Y, k=5)
    centred = [top_neighbours(side - side.mean(axis=0), 5) for side in (X, Y)]
    assert found.score == pytest.approx(mutual_knn(*centred).mean())
    assert found.chance == 5 / 199
    assert found.p == 1 / 1001
    assert found.z > 20
    low, high = found.interval
    assert low < found.score < high
    assert 0.005 < found.stderr < 0.03
    assert 0 < found.calibrated < found.score
    assert found.adjusted == pytest.approx((found.score - found.null.mean()) / (1 - found.null.mean()))
    assert found.distinguishable
    parts = parse_signature(found.signature)
    assert parts["metric"] == "mutual_knn"
    assert (parts["k"], parts["n"], parts["recipe"], parts["sim"]) == ("5", "200", "center", "cosine")


def test_unrelated_spaces_are_said_to_be_at_chance():
    found = align(*independent(200, 1))
    assert not found.distinguishable
    assert found.p > 0.05
    assert abs(found.z) < 3
    assert found.calibrated == 0


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_measures_with_all_its_statistics(metric):
    X, Y = latent_views(60, 2)
    found = align(X, Y, metric=metric, k=5, permutations=60, splits=10)
    assert np.isfinite([found.score, found.chance, found.stderr, found.z, found.p]).all()
    assert found.metric == metric
    if metric != "cycle_knn":  # saturated already
        assert found.p < 0.05
    again = align(X, Y, metric=metric, k=5, permutations=60, splits=10)
    assert (again.score, again.stderr, again.p) == (found.score, found.stderr, found.p)  # bit-equal


def test_rows_paired_by_id_may_come_in_any_order():
    X, Y = latent_views(100, 3)
    ids = tuple(f"row {number}" for number in range(100))
    there, back = Embeddings(X, ids), Embeddings(Y, ids)
    order = np.random.default_rng(0).permutation(100)
    shuffled = Embeddings(Y[order], tuple(ids[row] for row in order))
    first, second = align(there, back), align(there, shuffled)
    assert second.score == pytest.approx(first.score, abs=1e-12)
    np.testing.assert_allclose(second.halves, first.halves)
    assert second.signature == first.signature
    assert align(there, Embeddings(Y[order], ids)).p > 0.01  # mis-paired rows are at chance


def test_captions_of_a_scene():
    rng = np.random.default_rng(4)
    images, _ = latent_views(80, 4)
    captions = np.repeat(images, 5, axis=0) + 3 * rng.standard_normal((400, 64))
    scenes = tuple(f"scene {number:02}" for number in np.repeat(np.arange(80), 5))
    text = Embeddings(captions, tuple(f"{scene}#{i % 5}" for i, scene in enumerate(scenes)), scenes)
    image = Embeddings(images, tuple(sorted(set(scenes))))
    scores = {mode: align(text, image, captions=mode, permutations=50) for mode in ("mean", "first", "each")}
    mean = captions.reshape(80, 5, 64).mean(axis=1)
    assert scores["mean"].score == pytest.approx(align(mean, images, permutations=0).score, abs=1e-3)
    single = [align(captions[slot::5], images, permutations=0).score for slot in range(5)]
    assert scores["first"].score == pytest.approx(single[0])
    assert scores["each"].score == pytest.approx(np.mean(single))
    assert scores["each"].stderr < scores["first"].stderr * 1.2
    assert scores["mean"].score > scores["each"].score
    assert all(f"captions:{mode}" in found.signature for mode, found in scores.items())
    assert align(image, text, captions="each", permutations=0).score == pytest.approx(scores["each"].score)


def test_captions_on_both_sides_move_together_and_are_no_neighbours():
    rng = np.random.default_rng(5)
    latent, _ = latent_views(60, 5)
    scene = np.repeat(np.arange(60), 3)
    X, Y = (latent[scene] + 4 * rng.standard_normal((180, 64)) for _ in range(2))
    found = align(X, Y, groups=scene, permutations=100)
    lists = [top_neighbours(side - side.mean(axis=0), 10, groups=scene) for side in (X, Y)]
    assert found.score == pytest.approx(mutual_knn(*lists).mean())
    assert found.chance == pytest.approx(10 / 177)
    assert found.null.mean() == pytest.approx(found.chance, abs=0.005)
    assert "groups:60" in found.signature
    ids = tuple(map(str, range(180)))
    sides = [Embeddings(side, ids, tuple(f"s{number:02}" for number in scene)) for side in (X, Y)]
    assert align(*sides, permutations=0).chance == pytest.approx(found.chance)


def test_groups_of_unequal_sizes():
    X, Y = latent_views(90, 6)
    found = align(X, Y, groups=np.random.default_rng(0).integers(0, 40, 90), permutations=50)
    assert found.p < 0.05


def test_sampled_queries_are_unbiased_and_say_so():
    X, Y = latent_views(600, 7)
    whole = align(X, Y, permutations=0, splits=0).score
    runs = [align(X, Y, queries=100, permutations=0, seed=seed) for seed in range(40)]
    errors = np.array([run.score - whole for run in runs])
    assert abs(errors.mean()) < 3 * errors.std() / 40**0.5
    assert np.mean([run.stderr for run in runs]) == pytest.approx(errors.std(), rel=0.3)
    assert "queries:100@0" in runs[0].signature
    sampled = align(X, Y, queries=100, permutations=100)
    assert sampled.p < 0.02
    assert sampled.null.mean() == pytest.approx(sampled.chance, abs=0.01)
    with pytest.raises(UsageError, match="queries cannot be sampled"):
        align(X, Y, metric="unbiased_cka", queries=100)


def test_memory_maps_are_measured_like_arrays(tmp_path):
    X, Y = (side.astype(np.float32) for side in latent_views(150, 8))
    for name, side in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", side)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"]
    assert (
        align(*mapped, recipe="prh", permutations=0).score == align(X, Y, recipe="prh", permutations=0).score
    )


def test_low_precision_storage_hardly_matters():
    """Single precision products of bfloat16 rows, even at a mean cosine of .99."""
    import torch

    X, Y = (side + 25 for side in latent_views(400, 9))
    exact = align(X, Y, permutations=0, splits=0).score
    stored = [torch.from_numpy(side).bfloat16() for side in (X, Y)]
    assert align(*stored, permutations=0, splits=0).score == pytest.approx(exact, abs=0.03)
    widened = [side.float().numpy() for side in stored]
    assert align(*stored, permutations=0, splits=0).score == align(*widened, permutations=0, splits=0).score


def test_halves_too_small_for_k_give_no_error_bar_and_say_why():
    found = align(*latent_views(40, 10), metric="cknna", k=25, permutations=50)
    assert np.isnan(found.stderr)
    assert "halves of 40 rows are too small for k = 25" in found.notes[-1]


def test_full_cca_of_few_samples_is_one_and_its_null_says_so():
    found = align(*independent(50, 11, (200, 200)), metric="svcca", components=49, permutations=50)
    assert found.score == pytest.approx(1)
    assert found.chance == pytest.approx(1)
    assert not found.distinguishable


def nan_row(X):
    X[5, 2] = np.nan
    return X


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (nan_row, "A: row 5 holds NaN"),
        (lambda X: np.where(np.arange(40)[:, None] == 7, np.inf, X), "A: row 7 holds NaN or inf"),
        (lambda X: np.where(np.arange(40)[:, None] == 9, 3.0, X), "A: row 9 is constant"),
        (lambda X: X[:39], "39 rows cannot be paired with 40"),
        (lambda X: X[None, None], "paired"),
    ],
)
def test_rows_that_cannot_be_measured_are_refused(spoil, message):
    X, Y = latent_views(40, 12)
    with pytest.raises(InputError, match=message):
        align(spoil(X), Y)


def test_float16_overflow_is_refused():
    X, Y = latent_views(40, 12)
    with np.errstate(over="ignore"), pytest.raises(InputError, match="row 0"):
        align((X * 1e6).astype(np.float16), Y)


@pytest.mark.parametrize("k", [0, 40, 41])
def test_k_must_be_below_n(k):
    with pytest.raises(UsageError, match="between 1 and 39"):
        align(*latent_views(40, 13), k=k, permutations=0)


def test_few_rows_have_no_p():
    X, Y = latent_views(29, 14)
    with pytest.raises(InputError, match="at least 30 rows"):
        align(X, Y)
    assert align(X, Y, permutations=0).p is None


def test_unknown_names():
    X, Y = latent_views(40, 15)
    with pytest.raises(UsageError, match="mutual_knn"):
        align(X, Y, metric="mutualknn")
    with pytest.raises(UsageError, match="cosine"):
        align(X, Y, similarity="cosin")
    with pytest.raises(UsageError, match="cosine"):
        align(X, Y, metric="rsa", similarity="cosin")
    for option in ({"permutations": -1}, {"splits": -1}, {"components": 0}, {"queries": 0}, {"sigma": 0.0}):
        with pytest.raises(UsageError, match="makes no sense"):
            align(X, Y, **option)
    with pytest.raises(InputError, match="39 groups for 40 rows"):
        align(X, Y, groups=range(39))


def test_no_torch_is_needed():
    script = """
import sys
sys.modules["torch"] = None
import numpy as np
from coview.alignment import align
X = np.random.default_rng(0).standard_normal((40, 6))
assert align(X, X, recipe="prh").score == 1
"""
    subprocess.run([sys.executable, "-c", script], check=True)
