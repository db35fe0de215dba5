"""Cross-entropy of the next token over a whole vocabulary, without ever holding the scores of all tokens.

Scores are made for a block of tokens at a time; the block's loss and its share of both gradients are taken
while it is in cache. Plain autograd keeps several arrays of tokens x vocabulary (330 MB each for 10,000
tokens and 8,000 types) and spends most of its time moving them.
"""

import torch
from torch import Tensor

from coview.errors import UsageError

BLOCK = 256  # tokens scored at once


def tied_cross_entropy(hidden: Tensor, vocabulary: Tensor, targets: Tensor) -> Tensor:
    """Sum over tokens of -log softmax(hidden @ vocabulary.T)[target], in nats.

    Parameters
    ----------
    hidden : Tensor of shape (T, W)
    vocabulary : Tensor of shape (types, W), the word embeddings: input and output share them
    targets : int64 Tensor of shape (T,)

    Returns
    -------
    Scalar float32 tensor; it can be differentiated once. Under autocast the products are in its precision,
    the sums always in float32 (float64 for float64 input).
    """
    device = hidden.device.type
    low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    with torch.autocast(device, enabled=False):
        return _TiedCrossEntropy.apply(hidden, vocabulary, targets, low)


class _TiedCrossEntropy(torch.autograd.Function):
    """Value and gradient in one visit; backward only scales what forward has found."""

    @staticmethod
    def forward(ctx, hidden, vocabulary, targets, low):
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        rows, words = hidden.to(low or wide), vocabulary.to(low or wide)
        to_hidden = torch.empty(hidden.shape, dtype=wide, device=hidden.device)
        to_vocabulary = torch.zeros(vocabulary.shape, dtype=wide, device=hidden.device)
        total = torch.zeros((), dtype=wide, device=hidden.device)
        for start in range(0, len(rows), BLOCK):
            part, wanted = rows[start : start + BLOCK], targets[start : start + BLOCK, None]
            scores = (part @ words.T).to(wide)
            log_sums = scores.logsumexp(1, keepdim=True)
            total += (log_sums - scores.gather(1, wanted)).sum()
            pull = scores.sub_(log_sums).exp_()  # softmax, then minus one at the target
            pull.scatter_add_(1, wanted, torch.full_like(wanted, -1, dtype=wide))
            pull = pull.to(rows.dtype)
            to_hidden[start : start + BLOCK] = pull @ words
            to_vocabulary += pull.T @ part
        ctx.save_for_backward(to_hidden.to(hidden.dtype), to_vocabulary.to(vocabulary.dtype))
        return total

    @staticmethod
    def backward(ctx, *grad_outputs):
        if torch.is_grad_enabled():  # create_graph=True
            raise UsageError("the next-token loss can be differentiated once only.")
        to_hidden, to_vocabulary = ctx.saved_tensors
        return grad_outputs[0] * to_hidden, grad_outputs[0] * to_vocabulary, None, None
