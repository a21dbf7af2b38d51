"""ONNX files: onnxruntime computes what PyTorch does, at other batches and sizes than those of the export."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from typer.testing import CliRunner

import sapa
from sapa.cli import app
from sapa.geometry import Size
from sapa.onnx_ops import TRANSLATIONS

C = 32
DOCS = Path(__file__).parents[1] / "docs"
OPTIONS: dict[str, dict[str, Any]] = {"sapa_d": {"points": 2}}  # the time of an export grows with the points


def run(path: Path, *inputs: Tensor) -> list[Tensor]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feed = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    return [torch.from_numpy(np.asarray(y)) for y in session.run(None, feed)]


def example(up: sapa.Upsampler, batch: int, low: Size, size: Size) -> tuple[Tensor, ...]:
    x = torch.randn(batch, up.channels, *low)
    if not up.needs_guide:
        return (x,)
    size = size if up.any_size else (up.scale[0] * low[0], up.scale[1] * low[1])
    return x, torch.randn(batch, up.guide_channels, *size)


@pytest.mark.parametrize("name", sapa.UPSAMPLERS)
def test_onnxruntime_agrees_at_any_batch_and_size(name: str, tmp_path: Path) -> None:
    up = sapa.build(name, C, **OPTIONS.get(name, {})).eval()
    sapa.export_onnx(up, tmp_path / "up.onnx")
    for batch, low, size in ((1, (4, 5), (8, 10)), (3, (5, 6), (13, 17))):
        args = example(up, batch, low, size)
        (y,) = run(tmp_path / "up.onnx", *args)
        with torch.no_grad():
            torch.testing.assert_close(y, up(*args), rtol=1e-5, atol=1e-5)


class Operators(nn.Module):
    """Every option of the operators, in one graph."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, w: Tensor, rows: Tensor, columns: Tensor) -> list[Tensor]:
        window: dict[str, Any] = {"kernel_size": (3, 1), "bias": (rows, columns)}
        y = [sapa.attend(q, k, v, normalize=f, border="mask", **window) for f in ("softmax", "relu", "none")]
        y += [sapa.attend(q, k, v, normalize=f, kernel_size=(1, 3)) for f in ("softmax", "sigmoid", "softplus")]
        y += [sapa.attend(q.to(t), k.to(t), v.to(t), kernel_size=(1, 3)) for t in (torch.float16, torch.float64)]
        y += [sapa.kernels(q, k, **window), sapa.kernels(q, k, kernel_size=3, border="mask")]
        y += [sapa.assemble(v, w, groups=2), sapa.assemble(v, w, kernel_size=(3, 1), groups=6, border="mask")]
        return y


def operands(batch: int, low: Size, size: Size) -> tuple[Tensor, ...]:
    q, k, v, w = (torch.randn(batch, D, *s) for D, s in ((4, size), (4, low), (6, low), (18, size)))
    # a point all of whose taps are left out
    rows, columns = torch.randn(size[0], 3), torch.randn(size[1], 1)
    rows[0] = -torch.inf
    return q, k, v, w, rows, columns


def test_every_option_of_the_operators(tmp_path: Path) -> None:
    B, h, w, H, W = (Dim(name, min=2) for name in ("B", "h", "w", "H", "W"))
    of_high, of_low = {0: B, 2: H, 3: W}, {0: B, 2: h, 3: w}
    with pytest.warns(UserWarning, match="The axis name"):
        torch.onnx.export(
            Operators().eval(),
            operands(2, (3, 4), (7, 9)),
            tmp_path / "operators.onnx",
            dynamo=True,
            verbose=False,
            dynamic_shapes=(of_high, of_low, of_low, of_high, {0: H}, {0: W}),
            custom_translation_table=TRANSLATIONS,
        )
    args = operands(3, (5, 3), (11, 6))
    for y, expected in zip(run(tmp_path / "operators.onnx", *args), Operators()(*args), strict=True):
        torch.testing.assert_close(y, expected)


def test_adaptive_pooling_at_any_ratio(tmp_path: Path) -> None:
    """On which PyTorch's own translation is wrong without a word."""

    class Pool(nn.Module):
        def forward(self, x: Tensor) -> list[Tensor]:
            return [nn.functional.adaptive_avg_pool2d(x, low) for low in ((3, 4), (6, 5), (1, 1), (1, 7))]

    torch.onnx.export(
        Pool().eval(),
        (torch.randn(2, 3, 20, 20),),
        tmp_path / "pool.onnx",
        dynamo=True,
        verbose=False,
        dynamic_shapes=({2: Dim("H", min=2), 3: Dim("W", min=2)},),
        custom_translation_table=TRANSLATIONS,
    )
    for size in ((7, 9), (13, 6), (4, 12)):
        x = torch.randn(2, 3, *size)
        for y, expected in zip(run(tmp_path / "pool.onnx", x), Pool()(x), strict=True):
            torch.testing.assert_close(y, expected)


def test_a_module_in_training_is_exported_as_evaluated_and_left_as_it_was(tmp_path: Path) -> None:
    up = sapa.build("indexnet_hin", 8).train()
    sapa.export_onnx(up, tmp_path / "up.onnx")
    assert all(module.training for module in up.modules())
    args = example(up, 2, (3, 4), (6, 8))
    torch.testing.assert_close(run(tmp_path / "up.onnx", *args)[0], up.eval()(*args).detach(), rtol=1e-5, atol=1e-5)


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "up.onnx"
    options = ["--channels", "8", "--guide-channels", "4", "--scale", "3", "-o", str(path)]
    result = CliRunner().invoke(app, ["export", "sapa_b", *options])
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("up.onnx takes x [B, 8, h, w], guide [B, 4, H, W]\n")
    assert run(path, torch.randn(1, 8, 4, 5), torch.randn(1, 4, 12, 15))[0].shape == (1, 8, 12, 15)


def test_command_says_what_is_wrong() -> None:
    result = CliRunner().invoke(app, ["export", "sappa_b"])
    assert result.exit_code == 1
    assert "no upsampler 'sappa_b'. Did you mean 'sapa_b'?" in str(result.exception)


def test_a_model_is_told_where_to_go() -> None:
    model: Any = torch.nn.Conv2d(3, 3, 1)
    with pytest.raises(
        TypeError, match=r"^export_onnx: up must be an upsampler of sapa, got Conv2d\. A model that holds"
    ):
        sapa.export_onnx(model, "never.onnx")


def test_the_command_makes_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "up.onnx"
    assert CliRunner().invoke(app, ["export", "nearest", "--channels", "2", "-o", str(path)]).exit_code == 0
    assert path.exists()


def test_without_onnx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sapa.onnx_ops")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ModuleNotFoundError, match=r"^export_onnx needs onnxscript: pip install 'sapa\[onnx\]'$"):
        sapa.export_onnx(sapa.build("nearest", 8), "never.onnx")


def test_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "export.md").read_text(), re.DOTALL)
    code = "\n".join([*blocks, "print(y.shape)"])
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.endswith("(1, 256, 33, 31)\n"), result.stderr
    assert (tmp_path / "model.onnx").exists()
