import pytest

from coview.alignment.signature import format_signature, parse_signature, signature_differences
from coview.errors import InputError

LINE = format_signature("mutual_knn", {"k": 10, "n": 1024, "groups": None, "layers": "max(13x25)"})


def test_round_trip():
    assert LINE == "mutual_knn|k:10|n:1024|layers:max(13x25)"
    assert parse_signature(LINE) == {"metric": "mutual_knn", "k": "10", "n": "1024", "layers": "max(13x25)"}


def test_differences_are_named():
    assert signature_differences(LINE, LINE) == []
    other = format_signature("cka", {"n": 1000, "layers": "max(13x25)"})
    assert signature_differences(LINE, other) == [
        "metric: mutual_knn against cka",
        "k: 10 against not said",
        "n: 1024 against 1000",
    ]


@pytest.mark.parametrize("line", ["", "mutual_knn", "a|b", "|k:1"])
def test_what_is_no_signature(line):
    with pytest.raises(InputError, match="not a signature"):
        parse_signature(line)
