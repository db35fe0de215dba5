import numpy as np
import pytest

from coview.theory import verify
from coview.theory.families import FAMILIES
from coview.theory.verify import HEADLINE, KINDS, WorldRecord, summarise, verify_world, verify_worlds


@pytest.fixture(scope="module")
def records() -> list[WorldRecord]:
    return verify_worlds(60, seed=3, scenes=(6, 24))


def test_random_worlds_break_nothing(records):
    assert [r.violations for r in records if r.violations] == []
    assert max(r.zero_residual for r in records) <= 1e-10
    assert min(r.gap for r in records) >= 1e-3


def test_every_family_meets_every_kind_of_mismatch(records):
    assert {(r.family, r.kind) for r in records} == {(f, k) for f in FAMILIES for k in KINDS}


def test_bounds_that_need_equal_laws_are_left_out_where_laws_differ(records):
    for record in records:
        assert ("rotation, scale matched" in record.bounds) == (record.kind != "other scene law")
        assert HEADLINE in record.bounds


def test_a_world_depends_on_its_number_and_seed_alone(records):
    again = verify_world(17, 3, scenes=(6, 24))
    assert again == records[17]
    assert verify_world(17, 4, scenes=(6, 24)) != again


def test_progress_counts_worlds():
    done = []
    verify_worlds(3, progress=done.append, scenes=(6, 8))
    assert done == [1, 2, 3]


def record_of(error: float, bound: float, residual: float = 1e-15) -> WorldRecord:
    return WorldRecord(
        0,
        "rbf",
        KINDS[0],
        6,
        2,
        2,
        0.1,
        residual,
        {HEADLINE: error},
        {HEADLINE: bound},
        {HEADLINE: bound > 2},
    )


def test_what_is_broken_is_named():
    assert record_of(0.5, 0.4).violations == (HEADLINE,)
    assert record_of(0.5, 0.6, residual=1e-8).violations == ("zero mismatch",)
    assert record_of(0.5, 0.5).violations == ()


def test_ratios_leave_out_rounding_and_infinite_bounds():
    assert record_of(0.1, 0.4).ratio() == pytest.approx(0.25)
    assert np.isnan(record_of(1e-15, 1e-14).ratio())
    assert np.isnan(record_of(0.1, np.inf).ratio())


def test_the_summary_counts_and_takes_the_largest():
    summary = summarise(
        [record_of(0.1, 0.4), record_of(0.9, 3.0), record_of(0.5, 0.4), record_of(1e-16, 1e-15)]
    )
    assert (summary["worlds"], summary["violations"]) == (4, 1)
    assert summary["max_ratio"] == pytest.approx(1.25)
    assert summary["median_ratio"] == pytest.approx(0.3)
    assert summary["bounds"][HEADLINE]["not_vacuous"] == 2


def test_an_error_pushed_over_its_bound_is_caught(monkeypatch):
    """The check can fail: with a bound a thousandth of what it should be, worlds are reported as broken."""
    right = verify.misalignment_bound

    def too_small(*arguments, **options):
        bound = right(*arguments, **options)
        return type(bound)(bound.value / 1000, bound.mismatch, bound.gap, bound.marginal_term, bound.vacuous)

    monkeypatch.setattr(verify, "misalignment_bound", too_small)
    assert summarise(verify_worlds(12, scenes=(6, 12)))["violations"] > 0
