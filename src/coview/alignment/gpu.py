"""Products of blocks on a GPU, for features that are already there. PyTorch is imported only then."""

from dataclasses import dataclass
from typing import Any

import numpy as np


def gpu_of(X) -> Any:
    """The device of a PyTorch tensor on an accelerator, or of the one behind a layer; else None."""
    while hasattr(X, "source"):
        X = X.source
    device = getattr(X, "device", None)
    return device if getattr(device, "type", "cpu") not in ("cpu", "meta") else None


@dataclass(frozen=True)
class TensorScores:
    """The same as `search.ArrayScores`, held as a tensor; only candidates are copied to the CPU."""

    values: Any

    @classmethod
    def multiply(cls, left: np.ndarray, right: np.ndarray, device) -> "TensorScores":
        import torch

        a, b = (torch.from_numpy(np.ascontiguousarray(rows)).to(device) for rows in (left, right))
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # the tolerances are those of true single precision
        try:
            return cls(a @ b.T)
        finally:
            torch.set_float32_matmul_precision(precision)

    def transposed(self) -> "TensorScores":
        return TensorScores(self.values.T)

    def less(self, offset: np.ndarray | None) -> "TensorScores":
        """With a number for each column subtracted."""
        if offset is None:
            return self
        return TensorScores(self.values - self.values.new_tensor(offset))

    def about_largest(self, depth: int) -> np.ndarray:
        """Each row's depth-th largest."""
        return self.values.topk(depth, dim=1).values[:, -1].cpu().numpy()

    def at_least(self, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows (ascending), columns and values of the entries that reach their row's floor."""
        row, column = (self.values >= self.values.new_tensor(floor)[:, None]).nonzero(as_tuple=True)
        return row.cpu().numpy(), column.cpu().numpy(), self.values[row, column].cpu().numpy()
