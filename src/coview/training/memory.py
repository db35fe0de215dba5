"""How much memory a text run takes at its peak, from its shapes."""

import resource
import sys

from coview.config import TrainConfig
from coview.encoders.text import TextEncoderConfig

RUNTIME = 280 * 2**20  # Python, PyTorch and its first buffers, before any tensor of ours
SPREAD = 1.1  # the largest batch over the average one


def peak_memory() -> int:
    """Largest resident set of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def estimate_memory(
    config: TrainConfig, shape: TextEncoderConfig, tokens_per_step: int, *, half: bool
) -> int:
    """Bytes of the whole process at its peak.

    Counted are weights, gradients and Adam's two moments (16 bytes a parameter), what each layer keeps for
    its backward pass, and for next-token the scores of the whole vocabulary.
    """
    width, ffn = shape.width, 4 * shape.width
    per_layer = 12 * width * width
    parameters = (
        shape.layers * per_layer + (shape.vocabulary + shape.max_length) * width + width * shape.output
    )
    number = 2 if half else 4
    return RUNTIME + parameters * 16
