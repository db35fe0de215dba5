"""The signature of an alignment number: one line that says everything that moves it.

``mutual_knn|k:10|n:1024|sim:cosine|recipe:center|layers:max(13x25)|captions:one|ties:index|rows:1f3a90bc|v:0.1``

Two numbers may be compared only when their signatures are equal. The encoders' names are not part of it, for
they are what is compared; the rows are (a hash of their ids), and so is every choice of the measurement.
"""

from coview.errors import InputError


def format_signature(metric: str, parts: dict) -> str:
    """The signature line of a metric and its ordered parts; parts that are None are left out."""
    return "|".join([metric, *(f"{name}:{value}" for name, value in parts.items() if value is not None)])


def parse_signature(line: str) -> dict[str, str]:
    """The parts of a signature line, the metric's name under ``metric``.

    Raises
    ------
    InputError
        The line is not a signature.
    """
    metric, *parts = line.split("|")
    pairs = [part.partition(":") for part in parts]
    if not metric or not pairs or any(not mark for _, mark, _ in pairs):
        raise InputError(f"not a signature: {line!r}.")
    return {"metric": metric, **{name: value for name, _, value in pairs}}


def signature_differences(first: str, second: str) -> list[str]:
    """What differs between two signatures, in words; empty when numbers under them are comparable."""
    a, b = parse_signature(first), parse_signature(second)
    names = [*a, *(name for name in b if name not in a)]
    return [
        f"{name}: {a.get(name, 'not said')} against {b.get(name, 'not said')}"
        for name in names
        if a.get(name) != b.get(name)
    ]
