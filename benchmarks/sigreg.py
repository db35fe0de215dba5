"""SIGReg against its formula in plain autograd: CPU time, extra memory, and error in value and gradient.

    python benchmarks/sigreg.py [--shape N/D/M ...] [--knots 17] [--rounds 3] [--steps 3]

Prints one JSON document. A step is forward and backward on one thread. Extra memory is the growth of the
process's peak in its first step. Errors are relative to the formula in float64. Targets at 4096/512/1024:
at least 5 times less CPU, 20 times less memory, errors below 1e-5.
"""

import argparse
import json
import time

import torch
from rounds import forget_peak_memory, interleaved, peak_megabytes, run_worker, spread

from coview.training.sigreg import KNOTS, T_MAX, directions, sigreg


def plain(x: torch.Tensor, a: torch.Tensor, knots: int) -> torch.Tensor:
    """The Epps-Pulley statistic as the formula is written, with arrays of N x M x knots."""
    t = torch.linspace(0, T_MAX, knots, dtype=x.dtype)
    phi = torch.exp(-(t**2) / 2)
    lengths = torch.full_like(t, 2 * T_MAX / (knots - 1))
    lengths[[0, -1]] /= 2
    angles = (x @ a).unsqueeze(-1) * t
    miss = (angles.cos().mean(-3) - phi).square() + angles.sin().mean(-3).square()
    return (x.shape[-2] * (miss @ (lengths * phi))).mean()


def fused(x: torch.Tensor, a: torch.Tensor, knots: int) -> torch.Tensor:
    return sigreg(x, a, knots=knots)


def off_target(rows: int, width: int) -> torch.Tensor:
    """Where training starts: too narrow, off centre, unlike in its directions."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.linspace(0.3, 1.2, width)
    return torch.randn(rows, width, generator=generator) * scales + 0.1


def one_step(loss_of, x: torch.Tensor, a: torch.Tensor, knots: int) -> tuple[float, torch.Tensor]:
    leaf = x.clone().requires_grad_()
    loss = loss_of(leaf, a, knots)
    loss.backward()
    assert leaf.grad is not None
    return loss.item(), leaf.grad


def measure(loss_of, rows: int, width: int, slices: int, knots: int, steps: int) -> dict:
    one_step(loss_of, off_target(8, 4), directions(4, 8, 0, 0), knots)  # loads what is loaded on first use
    x, a = off_target(rows, width), directions(width, slices, 0, 0)
    forget_peak_memory()
    before = peak_megabytes()
    seconds, extra = [], 0.0
    for step in range(steps):
        start = time.process_time()
        one_step(loss_of, x, a, knots)
        seconds.append(time.process_time() - start)
        if step == 0:
            extra = peak_megabytes() - before
    return {"cpu_seconds": spread(seconds)["median"], "extra_megabytes": extra}


def errors(rows: int, width: int, slices: int, knots: int) -> dict:
    """Both against the formula in float64, which is taken over a few slices at a time."""
    x, a = off_target(rows, width), directions(width, slices, 0, 0)
    parts = [one_step(plain, x.double(), part, knots) for part in a.double().split(16, dim=1)]
    shares = [part.shape[1] / slices for part in a.split(16, dim=1)]
    value = sum(share * part[0] for share, part in zip(shares, parts, strict=True))
    gradient = sum(share * part[1] for share, part in zip(shares, parts, strict=True))
    found = {}
    for name, loss_of in {"fused": fused, "plain": plain}.items():
        got, got_gradient = one_step(loss_of, x, a, knots)
        found[name] = {
            "value": abs(got - value) / value,
            "gradient": (torch.linalg.norm(got_gradient - gradient) / torch.linalg.norm(gradient)).item(),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shape", nargs="+", default=["4096/512/1024", "512/256/256"], metavar="N/D/M")
    parser.add_argument("--knots", type=int, default=KNOTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--worker", choices=["fused", "plain", "errors"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        torch.set_num_threads(1)
        rows, width, slices = map(int, options.shape[0].split("/"))
        if options.worker == "errors":
            print(json.dumps(errors(rows, width, slices, options.knots)))
        else:
            loss_of = {"fused": fused, "plain": plain}[options.worker]
            print(json.dumps(measure(loss_of, rows, width, slices, options.knots, options.steps)))
        return
    shapes = {}
    for shape in options.shape:
        arguments = ["--shape", shape, "--knots", str(options.knots), "--steps", str(options.steps)]
        rounds = interleaved(__file__, ["plain", "fused"], arguments, options.rounds)
        ratios = {
            f"{what}_ratio": spread([each["plain"][what] / each["fused"][what] for each in rounds])
            for what in ("cpu_seconds", "extra_megabytes")
        }
        shapes[shape] = ratios | {"errors": run_worker(__file__, "errors", arguments), "rounds": rounds}
    print(
        json.dumps(
            {"schema": "coview.benchmark.sigreg/1", "torch": torch.__version__, "shapes": shapes}, indent=2
        )
    )


if __name__ == "__main__":
    main()
