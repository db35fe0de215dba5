import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coview.report.text import mean, number, study_table, verdicts, wins


def rows_of(table: str) -> dict[str, str]:
    """Lines of the table by how they begin."""
    return {line.split("  ")[0]: line for line in table.splitlines()}


def test_every_arm_has_one_row_with_its_mean_its_error_and_every_seed(result):
    rows = rows_of(study_table(result))
    for name, arm in result["arms"].items():
        scores = arm["mutual_knn"]
        assert f"{sum(scores) / 3:.4f} ± 0.0030" in rows[name]
        assert " ".join(f"{score:.3f}" for score in scores) in rows[name]
        assert " ".join(f"{value:.2f}" for value in arm["scene_explained_fraction"]) in rows[name]
    assert "0.0097 ± 0.0009" in rows["shuffled pairs"]


def test_what_is_needed_to_believe_the_numbers_is_there(result):
    table = study_table(result)
    assert "1,000 held-out scenes; chance of mutual 10-NN 0.0100; seeds 0 1 2" in table
    assert f"signature: {result['signature']}" in table
    assert table.endswith(f"next: {result['next']}")


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
def test_no_line_of_the_table_is_wider_than_a_terminal(result_of, count):
    result = result_of(list(range(count)))
    result["controls"]["a frozen encoder with a long name (has seen the test photos' captions)"] = {
        "mutual_knn": 0.1
    }
    lines = study_table(result).splitlines()
    whole = ("signature:", "next:", "texts:", "images:")
    assert max(len(line) for line in lines if not line.startswith(whole)) <= 100
    shown = " ".join(lines)
    for arm in result["arms"].values():
        assert all(f"{score:.3f}" in shown for score in arm["mutual_knn"])


def test_plain_text_without_colours_and_without_markup_in_names(result):
    result["controls"]["[red]:smile: model[/red]"] = {"mutual_knn": 0.05}
    table = study_table(result)
    assert "\x1b" not in table
    assert "[red]:smile:" in table.replace("\n", " ")


def test_unknown_values_are_dashes(result):
    rows = rows_of(study_table(result))
    assert rows["noise"].split()[1:] == ["0.0102", "-", "-", "-"]


def test_verdict_of_a_win_in_every_seed(result):
    first, second, third, fourth = verdicts(result)
    assert first == (
        "good is on average 1.6 times bad and 2.0 times next-token in mutual 10-NN, and ahead in every seed."
    )
    assert (
        second == "good has the larger scene-explained fraction, 0.8041 against 0.6606 for bad and "
        "0.6078 for next-token, in every seed."
    )
    assert third == "good beats every control in mutual 10-NN by two standard errors or more."
    assert fourth.startswith("Every arm is above chance in every seed (smallest z ")


def test_one_seed_lost_is_said(result):
    bad = result["arms"]["bad"]["mutual_knn"]
    bad[1] = result["arms"]["good"]["mutual_knn"][1]  # a tie is no win
    sentences = verdicts(result)
    assert sentences[0] == "good is on average 2.0 times next-token in mutual 10-NN, and ahead in every seed."
    assert (
        sentences[1] == f"good is above bad in mutual 10-NN in 2 of 3 seeds: 0.1247 against {mean(bad):.4f}."
    )


def test_an_arm_that_wins_nowhere_is_said_to(result_of):
    result = result_of([0])
    result["arms"]["bad"]["scene_explained_fraction"] = [0.9]
    score = mean(result["arms"]["good"]["scene_explained_fraction"])
    assert (
        f"good is above bad in scene-explained fraction in none of 1 seed: {score:.4f} against 0.9000."
        in (verdicts(result))
    )


def test_a_control_that_is_not_beaten_is_named(result):
    result["controls"]["bag of words"]["mutual_knn"] = 0.2
    assert "good does not beat these controls in mutual 10-NN: bag of words 0.2000." in verdicts(result)


def test_an_interval_over_seeds_that_holds_0_is_said(result):
    result["differences"]["good - bad"]["mutual_knn"].update(low=-0.001, high=0.09)
    assert "Over seeds, the 95 % interval of good - bad in mutual 10-NN holds 0." in verdicts(result)


def test_an_arm_at_chance_is_named(result):
    result["arms"]["next-token"]["z"][2] = 0.4
    assert verdicts(result)[-1] == "Not above chance in every seed: next-token (z 0.4)."


def test_one_seed_promises_nothing_for_others(result_of):
    result = result_of([4])
    assert verdicts(result)[0].endswith("in the one seed that was run.")
    assert "every seed" not in " ".join(verdicts(result))
    assert "nan" not in study_table(result)


def test_no_ratio_to_a_mean_that_is_not_positive(result):
    result["arms"]["bad"]["mutual_knn"] = [0.0, 0.0, 0.0]
    assert verdicts(result)[0].startswith("good is on average above bad and 2.0 times next-token")


def test_a_lead_too_small_for_one_decimal_gets_two(result):
    result["arms"]["bad"]["mutual_knn"] = [score / 1.02 for score in result["arms"]["good"]["mutual_knn"]]
    assert verdicts(result)[0].startswith("good is on average 1.02 times bad")


numbers = st.one_of(st.none(), st.floats())


@given(st.lists(numbers))
def test_the_mean_is_of_what_is_known(values):
    known = [value for value in values if value is not None and math.isfinite(value)]
    assert mean(values) == (sum(known) / len(known) if known else None)


@given(numbers)
def test_a_number_is_shown_or_is_a_dash(value):
    shown = number(value, 2)
    if value is None or not math.isfinite(value):
        assert shown == "-"
    else:
        assert float(shown) == round(value, 2)


def test_wins_need_pairs():
    assert wins([1, 2, 3], [0, 2, 4]) == 1
    with pytest.raises(ValueError, match="argument"):
        wins([1, 2], [1])


def test_a_control_within_two_standard_errors_is_named(result):
    good = result["arms"]["good"]["mutual_knn"]
    close = sum(good) / len(good) - 0.001
    result["controls"]["bag of words"] = {"mutual_knn": close, "mutual_knn_stderr": 0.004}
    sentence = f"good beats these controls by less than two standard errors: bag of words {close:.4f}."
    assert sentence in verdicts(result)


def test_arms_that_are_not_above_the_untrained_encoder_are_named(result):
    bad = result["arms"]["bad"]["mutual_knn"]
    result["controls"]["untrained encoder"] = {"mutual_knn": sum(bad) / len(bad)}
    said = [sentence for sentence in verdicts(result) if sentence.startswith("Not above the untrained")]
    assert len(said) == 1
    assert "bad" in said[0]
    assert "good" not in said[0]
