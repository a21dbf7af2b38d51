"""Binds the letters of the shapes across arguments, and writes the errors: who, what, both shapes, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

import torch
from torch import Tensor

from sapa.geometry import Size

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
NORMALIZE = ("softmax", "relu", "sigmoid", "softplus", "none")
BORDER = ("zero", "mask")


def bind(function: str, **arguments: tuple[Tensor, str]) -> dict[str, int]:
    """Check that maps given as name=(tensor, "B C h w") agree on every letter and on the device; return the sizes."""
    sizes: dict[str, int] = {}
    owners: dict[str, str] = {}
    for name, (x, letters) in arguments.items():
        is_map(function, name, x, letters)
        for letter, size in zip(letters.split(), x.shape, strict=True):
            if letter not in owners:
                owners[letter], sizes[letter] = name, size
                if size == 0 and letter != "B":
                    raise ValueError(f"{function}: {letter} is 0 in {describe(name, x, letters)}; only B may be 0.")
            elif size != sizes[letter]:
                first = describe(owners[letter], *arguments[owners[letter]])
                raise ValueError(
                    f"{function}: {owners[letter]} and {name} disagree on {letter}: "
                    f"{first}, {describe(name, x, letters)}."
                )
    same(function, "is on", "move them to one device", {name: x.device for name, (x, _) in arguments.items()})
    return sizes


def is_map(function: str, name: str, x: Tensor, letters: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{function}: {name} must be a tensor ({letters}), got {type(x).__name__}.")
    if x.ndim != len(letters.split()):
        hint = " Add the batch with unsqueeze(0)." if x.ndim == len(letters.split()) - 1 else ""
        raise ValueError(f"{function}: {name} must have the dimensions ({letters}), got {list(x.shape)}.{hint}")
    if x.dtype not in DTYPES:
        raise ValueError(f"{function}: {name} is {plain(x.dtype)}; convert it to {', '.join(map(plain, DTYPES))}.")


def same_dtype(function: str, **arguments: Tensor) -> None:
    hint = "convert them to one dtype, or call under torch.autocast"
    same(function, "is", hint, {name: x.dtype for name, x in arguments.items()})


def same(function: str, verb: str, hint: str, found: dict[str, object]) -> None:
    (first, expected), *others = found.items()
    for name, other in others:
        if other != expected:
            raise ValueError(f"{function}: {first} {verb} {plain(expected)} but {name} {verb} {plain(other)}: {hint}.")


def enlarges(function: str, sizes: dict[str, int]) -> None:
    for high, low in ("Hh", "Ww"):
        if sizes[high] < sizes[low]:
            raise ValueError(
                f"{function}: {high} = {sizes[high]} is smaller than {low} = {sizes[low]}. The output can only be as "
                f"large as the low-res map or larger: are the high-res and the low-res argument the wrong way round?"
            )


def odd_pair(function: str, kernel_size: int | Size) -> Size:
    """Kernel size as (Kh, Kw)."""
    pair = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
    if len(pair) != 2 or not all(isinstance(K, int) and K > 0 and K % 2 == 1 for K in pair):
        raise ValueError(
            f"{function}: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; "
            f"got {kernel_size}."
        )
    return pair


def position_bias(function: str, bias: tuple[Tensor, Tensor], sizes: dict[str, int], kernel_size: Size) -> None:
    if not isinstance(bias, (tuple, list)) or len(bias) != 2:
        raise TypeError(f"{function}: bias must be a pair of tensors, rows [H, Kh] and columns [W, Kw].")
    for name, table, letter, K in zip(("rows", "columns"), bias, "HW", kernel_size, strict=True):
        letters = f"{letter} K{'hw'['HW'.index(letter)]}"
        is_map(function, f"bias {name}", table, letters)
        if tuple(table.shape) != (sizes[letter], K):
            raise ValueError(
                f"{function}: bias {name} must be [{sizes[letter]}, {K}] ({letters}), got {list(table.shape)}."
            )


def grouped(function: str, v: Tensor, w: Tensor, kernel_size: int | Size | None, groups: int) -> Size:
    """Kernel size as (Kh, Kw), from the channels of the weights if it is not given."""
    C, GP = v.shape[1], w.shape[1]
    if not isinstance(groups, int) or groups < 1 or C % groups:
        raise ValueError(f"{function}: groups must divide C; got groups = {groups} and v with C = {C}.")
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
    close = get_close_matches(str(name), list(options), n=1)
    return (f" Did you mean {close[0]!r}?" if close else "") + f" Available: {', '.join(options)}."


def describe(name: str, x: Tensor, letters: str) -> str:
    return f"{name} is {list(x.shape)} ({letters})"


def plain(thing: object) -> str:
    """float32 for torch.float32."""
    return str(thing).removeprefix("torch.")
