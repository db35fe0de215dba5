"""Next-token prediction on a finite world: its second-order form (a truncated SVD) and the full softmax.

With logits h(x, y) = f(x) . g(y) + b(y) taken relative to log p(y), the cross-entropy is
L = -E h + E_x log E_{y ~ p(y)} exp h + H(y): prediction of the continuation y from the prefix x of one
document, and the log-partition that keeps the solution from collapsing.
"""

from dataclasses import dataclass

import numpy as np

from coview.errors import InputError, UsageError


@dataclass(frozen=True)
class NextToken:
    """A population optimum of next-token prediction, one of a family that differs by GL(d).

    Attributes
    ----------
    values : ndarray of shape (n, d), f(x) of the prefixes, mean 0
    targets : ndarray of shape (m, d), g(y) of the continuations
    bias : ndarray of shape (m,)
    singular_values : ndarray, all singular values of T = D_x^(-1/2) (p(x, y) - p(x) p(y)) D_y^(-1/2)
    loss : float, cross-entropy less the entropy of y, in nats; at least -I(x; y)
    """

    values: np.ndarray
    targets: np.ndarray
    bias: np.ndarray
    singular_values: np.ndarray
    loss: float


def next_token(
    joint_xy: np.ndarray, dim: int, *, order: int | str = 2, max_iterations: int = 2000
) -> NextToken:
    """Predict continuations from prefixes with `dim` dimensions.

    Parameters
    ----------
    joint_xy : ndarray of shape (n, m), positive marginals, sum 1
        Law of (prefix, continuation) of one document.
    dim : int
    order : 2 or "softmax"
        2 minimises the loss to second order in the logits: f and g are the leading singular functions of T,
        each scaled by the square root of its singular value (the balanced solution that weight decay and
        gradient flow select). "softmax" minimises the whole loss by L-BFGS from there.

    Notes
    -----
    f -> f M, g -> g M^(-T) leaves the loss as it is for every invertible M: whiten before comparing with a
    measure that is invariant to rotations only.
    """
    joint = np.asarray(joint_xy, dtype=float)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    if not (joint >= 0).all() or abs(joint.sum() - 1) > 1e-9 or rows.min() <= 0 or columns.min() <= 0:
        raise InputError(
            "a law of (prefix, continuation) is non-negative, sums to 1 and has no empty row or column.",
            where="joint_xy",
        )
    if not 1 <= dim < min(joint.shape):
        raise UsageError(f"dim is from 1 to {min(joint.shape) - 1} here, not {dim}.")
    root_x, root_y = np.sqrt(rows), np.sqrt(columns)
    correlation = (joint - np.outer(rows, columns)) / np.outer(root_x, root_y)
    left, singular, right = np.linalg.svd(correlation, full_matrices=False)
    scale = np.sqrt(singular[:dim])
    values = left[:, :dim] * scale / root_x[:, None]
    targets = right[:dim].T * scale / root_y[:, None]
    bias = np.zeros(len(columns))
    if order == "softmax":
        values, targets, bias = _fit_softmax(joint, values, targets, max_iterations)
    elif order != 2:
        raise UsageError(f"order is 2 or 'softmax', not {order!r}.")
    loss, _ = softmax_loss(joint, values, targets, bias)
    return NextToken(values - rows @ values, targets, bias + targets @ (rows @ values), singular, loss)


def softmax_loss(
    joint: np.ndarray, values: np.ndarray, targets: np.ndarray, bias: np.ndarray
) -> tuple[float, np.ndarray]:
    """Cross-entropy less H(y), in nats, and its gradient with respect to the (n, m) logits."""
    from scipy.special import logsumexp

    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    logits = values @ targets.T + bias
    weighted = logits + np.log(columns)
    partition = logsumexp(weighted, axis=1, keepdims=True)
    loss = rows @ partition[:, 0] - (joint * logits).sum()
    return float(loss), rows[:, None] * np.exp(weighted - partition) - joint


def _fit_softmax(joint, values, targets, max_iterations):
    from scipy.optimize import minimize

    (rows, dim), columns = values.shape, len(targets)

    def unpack(flat):
        return (
            flat[: rows * dim].reshape(rows, dim),
            flat[rows * dim : -columns].reshape(columns, dim),
            flat[-columns:],
        )

    def objective(flat):
        f, g, b = unpack(flat)
        loss, gradient = softmax_loss(joint, f, g, b)
        return loss, np.concatenate([(gradient @ g).ravel(), (gradient.T @ f).ravel(), gradient.sum(axis=0)])

    start = np.concatenate([values.ravel(), targets.ravel(), np.zeros(columns)])
    options = {"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": 1e-15, "gtol": 1e-10}
    return unpack(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)
