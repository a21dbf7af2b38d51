"""An upsampler as a file for other runtimes: ONNX, with any batch and size."""

import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from sapa.geometry import Size
from sapa.nn import Upsampler

LOW = (5, 7)


def export_onnx(up: Upsampler, path: str | Path) -> None:
    """Write an upsampler to an ONNX file, as it is when evaluated.

    The inputs are x [B, C, h, w] and, where it needs one, guide [B, Cg, H, W]; the output is y [B, C, H, W]. B and the
    sizes are free, see docs/export.md for the few limits.

    Args:
        up: any upsampler; its parameters are written too, in their dtype.
        path: of the file to write.

    >>> sapa.export_onnx(sapa.build("sapa_b", 256, guide_channels=64), "up.onnx")
    """
    try:
        from sapa.onnx_ops import TRANSLATIONS
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"export_onnx needs {missing.name}: pip install 'sapa[onnx]'") from missing

    if not isinstance(up, Upsampler):
        raise TypeError(
            f"export_onnx: up must be an upsampler of sapa, got {type(up).__name__}. A model that holds some is "
            f"exported by torch.onnx.export(model, inputs, path, dynamo=True, custom_translation_table=TRANSLATIONS), "
            f"after 'from sapa.onnx_ops import TRANSLATIONS': docs/export.md."
        )
    up = copy.deepcopy(up).eval().cpu()
    inputs, dynamic = _example(up)
    with warnings.catch_warnings():
        # x and guide share their batch, of which the exporter keeps one name
        warnings.filterwarnings("ignore", message="# The axis name", category=UserWarning)
        torch.onnx.export(
            up,
            tuple(inputs.values()),
            path,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=list(inputs),
            output_names=["y"],
            dynamic_shapes=tuple(dynamic.values()),
            custom_translation_table=TRANSLATIONS,
        )


def _example(up: Upsampler) -> tuple[dict[str, torch.Tensor], dict[str, dict[int, Any]]]:
    """The inputs by name, and which of their sizes are free."""
    dtype = next((p.dtype for p in up.parameters()), torch.float32)
    B, h, w = (Dim(name, min=2) for name in ("B", "h", "w"))
    inputs, dynamic = {"x": torch.randn(2, up.channels, *LOW, dtype=dtype)}, {"x": {0: B, 2: h, 3: w}}
    if up.needs_guide:
        size, free = _high(up, (h, w))
        inputs["guide"] = torch.randn(2, up.guide_channels, *size, dtype=dtype)
        dynamic["guide"] = {0: B, 2: free[0], 3: free[1]}
    return inputs, dynamic


def _high(up: Upsampler, low: tuple[Any, Any]) -> tuple[Size, tuple[Any, Any]]:
    (Sy, Sx), (h, w) = up.scale, LOW
    if not up.any_size:
        return (Sy * h, Sx * w), (Sy * low[0], Sx * low[1])
    # a convolution with a stride of S cannot be exported for sizes of which it may leave a single point (torch 2.14)
    return (Sy * h + 1, Sx * w + 1), (Dim("H", min=Sy + 1), Dim("W", min=Sx + 1))
