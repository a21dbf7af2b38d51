"""Calls that are unlike the usual one, chosen so that together they meet every option of the kernels."""

from collections.abc import Iterator
from dataclasses import replace

from bench.gpu.build import Problem

LARGE = 8256  # points in a row and a column of a map with 32 channels or more: offsets of 64 bits
PLANAR = "planar"

ATTEND = {
    "A1": Problem(D=64, dtype="bfloat16", normalize="relu", border="mask"),
    "A2": Problem(
        *(32, 32, 4, (3, 3)),
        low=(LARGE // 4, LARGE // 4),
        dtype="float16",
        layout=PLANAR,
        has_bias=True,
        normalize="sigmoid",
        border="mask",
    ),
    "A3": Problem(1, 4, 8, (1, 3), dtype="float64", layout=PLANAR, normalize="softplus"),
    "A4": Problem(2048, 128, dtype="bfloat16", q_layout=PLANAR, normalize="none", border="mask"),
    "A5": Problem(scale=1.5, layout=PLANAR),
}
ASSEMBLE = {
    "B1": Problem(D=None, dtype="bfloat16", layout=PLANAR),
    "B2": Problem(1, None, 3, (3, 3), groups=4, low=(LARGE // 3, LARGE // 3), dtype="float64"),
    "B3": Problem(2048, None, 8, (1, 1), groups=4, dtype="float16", layout=PLANAR),
    "B4": Problem(D=None, scale=2.5),
}
OTHER_SCALES = {("scatter", "A2"): 3, ("scatter_keys", "A2"): 1}  # for which maps do not load in fours


def problem(kernel: str, case: str) -> Problem:
    found = (ATTEND | ASSEMBLE)[case]
    if scale := OTHER_SCALES.get((kernel, case)):
        found = replace(found, scale=scale, low=(LARGE // scale, LARGE // scale))
    return found


def cases() -> Iterator[tuple[str, str]]:
    """Kernel and case."""
    for kernel in ("attend", "points", "scatter", "scatter_keys"):
        yield from ((kernel, case) for case in ATTEND)
    for kernel in ("assemble", "scatter", "assemble_weights"):
        yield from ((kernel, case) for case in ASSEMBLE)
