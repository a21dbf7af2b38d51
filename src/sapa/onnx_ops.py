"""What an ONNX file has in place of the operators: graphs of standard ONNX nodes, for sizes known only when it runs.

As in the reference, a map is enlarged one tap at a time: extra memory is a few maps and the scores, whatever K and C.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from onnxscript import opset18
from onnxscript.onnx_types import INT64

import sapa.ops  # noqa: F401, since it registers the operators
from sapa.backends.reference import EPSILON

# a value of the graph that is written; the types onnxscript declares are of its own language, not of a trace
Value = Any
op: Any = opset18

FLOAT, HALF_TYPES = 1, ("FLOAT16", "BFLOAT16")
ACTIVATIONS = {"relu": op.Relu, "sigmoid": op.Sigmoid, "softplus": op.Softplus}


# ---- the operators; the exporter reads these signatures: what has no type is a value of the graph


def attend(q, k, v, rows, columns, kernel_size: Sequence[int], normalize: str, border: str):
    w = _weights(q, k, rows, columns, kernel_size, normalize, border)
    return op.CastLike(_weigh(_wide(v), w, kernel_size, groups=1), v)  # [B, C, H, W]


def kernels(q, k, rows, columns, kernel_size: Sequence[int], normalize: str, border: str):
    return op.CastLike(_weights(q, k, rows, columns, kernel_size, normalize, border), q)  # [B, P, H, W]


def assemble(v, w, kernel_size: Sequence[int], groups: int):
    return op.CastLike(_weigh(_wide(v), _wide(w), kernel_size, groups), v)  # [B, C, H, W]


def project(x, weight, bias, gamma, beta, eps: float | None = None):
    points = op.Transpose(_wide(x), perm=[0, 2, 3, 1])  # [B, H, W, C]
    if eps is not None:
        centred = op.Sub(points, op.ReduceMean(points, _ints(-1)))
        variance = op.ReduceMean(op.Mul(centred, centred), _ints(-1))
        deviation = op.Sqrt(op.Add(variance, op.CastLike(op.Constant(value_float=eps), variance)))
        points = op.Add(op.Mul(op.Div(centred, deviation), _wide(gamma)), _wide(beta))
    y = op.MatMul(points, op.Transpose(_wide(weight), perm=[1, 0]))
    if bias is not None:
        y = op.Add(y, _wide(bias))
    return op.CastLike(op.Transpose(y, perm=[0, 3, 1, 2]), x)  # [B, D, H, W]


def adaptive_avg_pool2d(x, output_size: INT64):
    """PyTorch's own translation keeps the windows of the example, and so is wrong at other sizes (torch 2.14)."""
    rows, columns = (_parts(_length(x, 2 + axis), op.Gather(output_size, _int(axis))) for axis in range(2))
    columns = op.Transpose(op.CastLike(columns, x), perm=[1, 0])
    return op.MatMul(op.CastLike(rows, x), op.MatMul(x, columns))  # [B, C, h, w]


TRANSLATIONS = {
    torch.ops.sapa.attend.default: attend,
    torch.ops.sapa.kernels.default: kernels,
    torch.ops.sapa.assemble.default: assemble,
    torch.ops.sapa.project.default: project,
    torch.ops.aten.adaptive_avg_pool2d.default: adaptive_avg_pool2d,
}

# ---- what they are made of


def _weights(
    q: Value, k: Value, rows: Value, columns: Value, kernel_size: Sequence[int], normalize: str, border: str
) -> Value:
    q, k = _wide(q), _wide(k)
    s = op.Concat(*(op.ReduceSum(op.Mul(q, k_t), _ints(1)) for k_t in _taps(k, q, kernel_size)), axis=1)
    shape = op.Concat(_ints(-1), op.Shape(q, start=2), axis=0)
    if rows is not None:
        tables = (op.CastLike(op.Transpose(table, perm=[1, 0]), s) for table in (rows, columns))  # [Kh, H] [Kw, W]
        s = op.Add(s, op.Reshape(_outer(op.Add, *tables), shape))
    low = op.CastLike(op.Constant(value_float=-torch.inf), s)
    if border == "mask":
        is_inside = op.Reshape(_outer(op.And, *_inside(k, q, kernel_size)), shape)  # [P, H, W]
        s = op.Where(is_inside, s, low)
    zero, one = (op.CastLike(op.Constant(value_float=value), s) for value in (0.0, 1.0))
    if normalize == "none":
        return op.Where(op.Equal(s, low), zero, s)
    if normalize == "softmax":
        lowest = op.CastLike(op.Constant(value_float=torch.finfo(torch.float32).min), s)
        f = op.Exp(op.Sub(s, op.Max(op.ReduceMax(s, _ints(1)), lowest)))
        total = op.ReduceSum(f, _ints(1))
        return op.Div(f, op.Where(op.Equal(total, zero), one, total))
    f = ACTIVATIONS[normalize](s)
    return op.Div(f, op.Add(op.ReduceSum(f, _ints(1)), op.CastLike(op.Constant(value_float=EPSILON), s)))


def _weigh(v: Value, w: Value, kernel_size: Sequence[int], groups: int) -> Value:
    size, y = op.Shape(w, start=2), None
    split = op.Reshape(w, op.Concat(_ints(0, groups, -1), size, axis=0))  # [B, G, P, H, W]
    grouped = op.Reshape(v, op.Concat(_ints(0, groups, -1), op.Shape(v, start=2), axis=0))  # [B, G, C/G, h, w]
    for t, v_t in enumerate(_taps(grouped, w, kernel_size, leading=3)):
        part = op.Mul(op.Gather(split, _ints(t), axis=2), v_t)
        y = part if y is None else op.Add(y, part)
    return op.Reshape(y, op.Concat(op.Shape(v, end=2), size, axis=0))


def _taps(low: Value, high: Value, kernel_size: Sequence[int], leading: int = 2) -> Iterator[Value]:
    """The low-res map as tap t of each high-res point sees it, row by row: b[c(p) + t], zero outside."""
    before = [0] * leading + [K // 2 for K in kernel_size]
    padded = op.Pad(low, _ints(*before, *before))
    rows, columns = (_centres(_length(high, axis), _length(low, axis)) for axis in (-2, -1))
    for i in range(kernel_size[0]):
        line = op.Gather(padded, op.Add(rows, _int(i)), axis=-2)
        for j in range(kernel_size[1]):
            yield op.Gather(line, op.Add(columns, _int(j)), axis=-1)


def _centres(high: Value, low: Value) -> Value:
    """c(p) = floor((p + 1/2) * low / high), in integers as in geometry.py."""
    p = op.Range(_int(0), high, _int(1))
    return op.Div(op.Mul(op.Add(op.Mul(p, _int(2)), _int(1)), low), op.Mul(high, _int(2)))


def _inside(low: Value, high: Value, kernel_size: Sequence[int]) -> Iterator[Value]:
    """Whether a tap lies in the image, along each axis: [Kh, H] and [Kw, W]."""
    for axis, K in zip((-2, -1), kernel_size, strict=True):
        length = _length(low, axis)
        offsets = op.Constant(value_ints=[t - K // 2 for t in range(K)])
        i = op.Add(_centres(_length(high, axis), length), op.Unsqueeze(offsets, _ints(1)))
        yield op.And(op.GreaterOrEqual(i, _int(0)), op.Less(i, length))


def _outer(combine: Any, rows: Value, columns: Value) -> Value:
    return combine(op.Unsqueeze(rows, _ints(1, 3)), op.Unsqueeze(columns, _ints(0, 2)))  # [Kh, Kw, H, W]


def _parts(high: Value, low: Value) -> Value:
    """The mean over each of `low` parts as a matrix [low, high]; neighbours overlap where the ratio is not whole."""
    i, p = op.Unsqueeze(op.Range(_int(0), low, _int(1)), _ints(1)), op.Range(_int(0), high, _int(1))
    start = op.Div(op.Mul(i, high), low)
    end = op.Div(op.Sub(op.Add(op.Mul(op.Add(i, _int(1)), high), low), _int(1)), low)
    is_part = op.Cast(op.And(op.GreaterOrEqual(p, start), op.Less(p, end)), to=FLOAT)
    return op.Div(is_part, op.Cast(op.Sub(end, start), to=FLOAT))


def _length(x: Value, axis: int) -> Value:
    return op.Gather(op.Shape(x), _int(axis))


def _int(value: int) -> Value:
    return op.Constant(value_int=value)


def _ints(*values: int) -> Value:
    return op.Constant(value_ints=list(values))


def _wide(x: Value) -> Value:
    """At least float32: half types only enter and leave."""
    return op.Cast(x, to=FLOAT) if x.dtype.name in HALF_TYPES else x
