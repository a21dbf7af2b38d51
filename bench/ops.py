"""attend beside what people use today: `python -m bench.ops [--seconds 1]` writes bench/results/ops.json."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from bench.timing import interleaved, machine

RESULTS = Path(__file__).with_name("results")
K, D = 5, 32
SHAPES = [(1, 256, 32, 32), (1, 256, 64, 64), (1, 64, 128, 128), (1, 256, 50, 76), (2, 128, 57, 83), (1, 512, 16, 16)]
FORMATS = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}


def unfolded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """attend as it is written today without a kernel of its own."""
    (B, C, h, w), D = v.shape, k.shape[1]
    keys = F.unfold(k, K, padding=K // 2).view(B, D, K * K, h, w)
    values = F.unfold(v, K, padding=K // 2).view(B, C, K * K, h, w)
    scores = torch.einsum("bdhiwj,bdphw->bphiwj", q.reshape(B, D, h, 2, w, 2), keys).softmax(1)
    return torch.einsum("bphiwj,bcphw->bchiwj", scores, values).reshape(B, C, 2 * h, 2 * w)


def trained(function: Callable[[], Tensor], inputs: list[Tensor]) -> Callable[[], object]:
    return lambda: torch.autograd.grad(function().sum(), inputs)


def measure(shape: tuple[int, int, int, int], layout: str, seconds: float) -> dict:
    B, C, h, w = shape
    sizes = ((B, D, 2 * h, 2 * w), (B, D, h, w), shape)
    inputs = [torch.randn(size).contiguous(memory_format=FORMATS[layout]).requires_grad_() for size in sizes]
    q, k, v = inputs
    frozen = [x.detach() for x in inputs]
    y = torch.empty(B, C, 2 * h, 2 * w).contiguous(memory_format=FORMATS[layout])
    deconv = torch.nn.ConvTranspose2d(C, C, 2, 2).requires_grad_(False).to(memory_format=FORMATS[layout])
    square = torch.randn(1024, 1024)
    functions: dict[str, Callable[[], object]] = {
        "attend": lambda: sapa.attend(*frozen),
        "bilinear": lambda: F.interpolate(frozen[2], scale_factor=2, mode="bilinear"),
        "bicubic": lambda: F.interpolate(frozen[2], scale_factor=2, mode="bicubic"),
        "conv_transpose": lambda: deconv(frozen[2]),
        "unfold": lambda: unfolded(*frozen),
        "copy of the output": lambda: torch.empty_like(y).copy_(y),
        "gemm 1024": lambda: square @ square,
        "attend, trained": trained(lambda: sapa.attend(q, k, v), inputs),
        "bilinear, trained": trained(lambda: F.interpolate(v, scale_factor=2, mode="bilinear"), [v]),
        "unfold, trained": trained(lambda: unfolded(q, k, v), inputs),
    }
    return {"shape": shape, "layout": layout, "times": interleaved(functions, seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each function")
    arguments = parser.parse_args()
    cases = []
    for shape in SHAPES:
        for layout in FORMATS:
            cases.append(measure(shape, layout, arguments.seconds))
            times = {name: value["ms"] for name, value in cases[-1]["times"].items()}
            print(shape, layout, " ".join(f"{name} {ms:.2f}" for name, ms in times.items()), flush=True)
    report = {
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "kernel_size": K,
        "embed_dim": D,
        "cases": cases,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ops.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
