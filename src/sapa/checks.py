"""Binds the letters of the shapes across arguments, and writes the errors: who, what, both shapes, what to do."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from numbers import Integral

import torch
from torch import Tensor

from sapa.geometry import Size, size_of

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
NORMALIZE = ("softmax", "relu", "sigmoid", "softplus", "none")
BORDER = ("zero", "mask")


def bind(function: str, **arguments: tuple[Tensor, str]) -> dict[str, int]:
    """Check that maps given as name=(tensor, "B C h w") agree on every letter and on the device, and that the high-res
    ones are not the smaller; return the size of each letter."""
    sizes: dict[str, int] = {}

    def shape_of(letter: str) -> str:
        return next(describe(name, x, letters) for name, (x, letters) in arguments.items() if letter in letters.split())

    for name, (x, letters) in arguments.items():
        is_float_tensor(function, name, x, letters)
        for letter, size in zip(letters.split(), x.shape, strict=True):
            known = sizes.setdefault(letter, size)
            if size != known:
                owner = shape_of(letter).split()[0]
                raise ValueError(
                    f"{function}: {owner} and {name} disagree on {letter}: "
                    f"{shape_of(letter)}, {describe(name, x, letters)}."
                )
            if size == 0 and letter != "B":
                raise ValueError(f"{function}: {letter} is 0: {shape_of(letter)}. Only B may be 0.")
    for high, low in ("Hh", "Ww"):
        if high in sizes and low in sizes and sizes[high] < sizes[low]:
            raise ValueError(
                f"{function}: {high} is smaller than {low}: {shape_of(high)}, {shape_of(low)}. "
                f"The output cannot be smaller than the low-res map; are the two the wrong way round?"
            )
    same(function, "is on", "move them to one device", {name: x.device for name, (x, _) in arguments.items()})
    return sizes


def is_float_tensor(function: str, name: str, x: Tensor, letters: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{function}: {name} must be a tensor ({letters}), got {type(x).__name__}.")
    if x.ndim != len(letters.split()):
        hint = " Add the batch with unsqueeze(0)." if letters[0] == "B" and x.ndim == len(letters.split()) - 1 else ""
        raise ValueError(f"{function}: {name} must have the dimensions ({letters}), got {list(x.shape)}.{hint}")
    if x.dtype not in DTYPES:
        raise ValueError(f"{function}: {name} is {plain(x.dtype)}; convert it to one of {names(DTYPES)}.")


def same_dtype(function: str, **arguments: Tensor) -> None:
    found = {name: x.dtype for name, x in arguments.items()}
    hint = "convert them to one dtype"
    if torch.float64 not in found.values():  # which autocast leaves alone
        hint += ", or call under torch.autocast"
    same(function, "is", hint, dict(found))


def same(function: str, verb: str, hint: str, found: dict[str, object]) -> None:
    (first, expected), *others = found.items()
    for name, other in others:
        if other != expected:
            raise ValueError(f"{function}: {first} {verb} {plain(expected)} but {name} {verb} {plain(other)}: {hint}.")


def positive(function: str, **values: int) -> None:
    for name, value in values.items():
        if not is_whole(value) or value < 1:
            raise ValueError(f"{function}: {name} must be a positive integer, got {value!r}.")


def is_whole(value: object) -> bool:
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def scale_pair(function: str, scale: int | Size) -> Size:
    """Scale as (S_y, S_x)."""
    return whole_pair(function, "scale", scale)


def whole_pair(function: str, argument: str, value: int | Size) -> Size:
    pair = value if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2 or not all(is_whole(n) and n > 0 for n in pair):
        raise ValueError(f"{function}: {argument} must be a positive integer, or a pair of them, got {value!r}.")
    return int(pair[0]), int(pair[1])


def odd_pair(function: str, kernel_size: int | Size) -> Size:
    """Kernel size as (Kh, Kw)."""
    pair = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size, kernel_size)
    if len(pair) != 2 or not all(is_whole(K) and K > 0 and K % 2 == 1 for K in pair):
        raise ValueError(
            f"{function}: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; "
            f"got {kernel_size!r}."
        )
    return int(pair[0]), int(pair[1])


def position_bias(function: str, bias: tuple[Tensor, Tensor], q: Tensor, kernel_size: Size) -> None:
    if not isinstance(bias, (tuple, list)) or len(bias) != 2:
        raise TypeError(f"{function}: bias must be a pair of tensors, rows [H, Kh] and columns [W, Kw].")
    expected = zip(("rows", "columns"), bias, ("H Kh", "W Kw"), size_of(q), kernel_size, strict=True)
    for name, table, letters, length, K in expected:
        is_float_tensor(function, f"bias {name}", table, letters)
        if tuple(table.shape) != (length, K):
            raise ValueError(f"{function}: bias {name} must be [{length}, {K}] ({letters}), got {list(table.shape)}.")
        same(function, "is on", "move them to one device", {"q": q.device, f"bias {name}": table.device})


def grouped(function: str, v: Tensor, w: Tensor, kernel_size: int | Size | None, groups: int) -> Size:
    """Kernel size as (Kh, Kw), from the channels of the weights if it is not given."""
    C, GP = v.shape[1], w.shape[1]
    if not is_whole(groups) or groups < 1 or C % groups:
        raise ValueError(f"{function}: groups must divide C; got groups = {groups!r} and v with C = {C}.")
    if kernel_size is None:
        K = round((GP // groups) ** 0.5)
        if groups * K * K != GP or K % 2 == 0:
            raise ValueError(
                f"{function}: w has {GP} channels, which is not groups * K * K for groups = {groups} and an odd K; "
                f"pass kernel_size."
            )
        return K, K
    Kh, Kw = odd_pair(function, kernel_size)
    if groups * Kh * Kw != GP:
        raise ValueError(
            f"{function}: w must have groups * Kh * Kw = {groups} * {Kh} * {Kw} = {groups * Kh * Kw} channels, "
            f"got {GP}."
        )
    return Kh, Kw


def one_of(function: str, argument: str, value: str, options: Iterable[str]) -> None:
    if value not in options:
        raise ValueError(f"{function}: no {argument} {value!r}.{suggest(value, options)}")


def suggest(name: str, options: Iterable[str]) -> str:
    likeness = {option: SequenceMatcher(None, str(name).lower(), option).ratio() for option in options}
    closest = max(likeness, key=lambda option: likeness[option])
    return (f" Did you mean {closest!r}?" if likeness[closest] > 0.6 else "") + f" Available: {names(options)}."


def describe(name: str, x: Tensor, letters: str) -> str:
    return f"{name} is {list(x.shape)} ({letters})"


def names(things: Iterable[object]) -> str:
    return ", ".join(map(plain, things))


def plain(thing: object) -> str:
    """float32 for torch.float32."""
    return str(thing).removeprefix("torch.")
