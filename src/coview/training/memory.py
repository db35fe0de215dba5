"""How much memory a text run takes at its peak, counted from its shapes."""

import resource
import sys
from pathlib import Path

from coview.encoders.text import TextEncoderConfig
from coview.training.tied_head import BLOCK

FIRST_USE = 140 * 2**20  # imports at the optimiser's first step, and buffers of PyTorch's libraries
SLACK = 1.25  # the largest batch over the average one (about 1.08), and what the allocator keeps (about 1.15)

# Vectors of the encoder's width that one token leaves in each layer for the backward pass, in units of four
# bytes a number. Full precision: query, key, value (3), attention's output as computed and as packed (2),
# what the two norms read and give (4), the inner part before and after its nonlinearity (8). In bfloat16 the
# inner part takes half, and each linear map keeps its input once more at half size (.5 each for query, key,
# value, the output and the inner part) instead of attention's packed output.
KEPT_IN_A_LAYER = {"fp32": 17.0, "bf16": 14.5}
KEPT_AT_THE_INPUT = 2  # before and after the norm of the embeddings
IN_FLIGHT = 9  # gradients that are alive while the last layer is undone: the inner part twice, its input
FOR_NEXT_TOKEN = 3  # states that have a successor, their gradient, and the gradient as it is scattered back


def estimate_memory(
    shape: TextEncoderConfig, *, parameters: int, tokens: int, precision: str, causal: bool
) -> int:
    """Bytes that this process, which holds the model already, will hold at its peak on a CPU.

    Weights and Adam's two moments are always there. The peak is either when the backward pass begins, with
    all that the forward pass has kept, or when it ends, with all gradients.

    Parameters
    ----------
    parameters : numbers in the model
    tokens : of an average batch, all views together
    precision : fp32 or bf16
    causal : whether the next token is predicted
    """
    vectors = KEPT_AT_THE_INPUT + KEPT_IN_A_LAYER[precision] * shape.layers + IN_FLIGHT
    vectors += FOR_NEXT_TOKEN * causal
    begins = SLACK * 4 * tokens * vectors * shape.width
    begins += 2 * parameters * (precision == "bf16")  # a copy of the weights
    begins += 4 * shape.vocabulary * (3 * BLOCK + 2 * shape.width) * causal  # a block of scores, the gradient
    ends = 4 * parameters
    return round(held_memory() + FIRST_USE + 8 * parameters + max(begins, ends))


def held_memory() -> int:
    """What this process holds in memory now, in bytes; where the system does not say, its peak so far."""
    return _from_linux("VmRSS") or peak_memory()


def peak_memory() -> int:
    """The most this process has held in memory so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # On Linux `ru_maxrss` begins with the size of the process that started this one.
    return _from_linux("VmHWM") or (peak if sys.platform == "darwin" else peak * 1024)


def _from_linux(name: str) -> int:
    """A size from Linux's account of this process, in bytes; 0 elsewhere."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
