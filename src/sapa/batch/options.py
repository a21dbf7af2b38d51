"""How to upsample, as it is typed and as it is meant."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the process that only hands out work needs no torch
    from sapa.geometry import Size

UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class Options:
    """Those of `sapa.guided_upsample`, and the device.

    Args:
        invalid: value of the points to leave out, besides NaN.
        labels: average nothing, vote; maps with a palette always do.
    """

    size: "Size | None" = None
    kernel_size: int | None = None
    sigma: float | None = None
    iterations: int = 1
    labels: bool = False
    invalid: float | None = None
    memory: int | None = None
    device: str = "cpu"

    @classmethod
    def parse(
        cls,
        size: str | None,
        kernel_size: int | None,
        sigma: float | None,
        iterations: int,
        labels: bool,
        invalid: str,
        memory: str | None,
        device: str,
    ) -> "Options":
        """From what was typed; a ValueError says what cannot be meant, before anything is read."""
        if kernel_size is not None and (kernel_size < 1 or kernel_size % 2 == 0):
            raise ValueError(f"give an odd --kernel-size, such as 5, not {kernel_size}.")
        if sigma is not None and not sigma > 0:
            raise ValueError(f"give a positive --sigma, not {sigma}.")
        check_device(device)
        height_and_width = None if size is None else parse_size(size)
        limit = None if memory is None else parse_memory(memory)
        return cls(height_and_width, kernel_size, sigma, iterations, labels, parse_invalid(invalid), limit, device)

    def shared_by(self, jobs: int) -> "Options":
        """The same for each of several processes, which share the memory."""
        return self if self.memory is None else replace(self, memory=max(self.memory // jobs, 1))


def check_device(device: str) -> None:
    if device == "cpu":  # which needs no torch to know
        return
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"--device {device} cannot be used here: {reason}.") from error


def parse_size(text: str) -> "Size":
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[x,]\s*([1-9]\d*)\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError(f"give --size as HEIGHTxWIDTH, such as 480x640, not {text!r}.")
    return int(found[1]), int(found[2])


def parse_memory(text: str) -> int:
    """Bytes: MB are a million of them, MiB 2**20."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", text.upper())
    amount = float(found[1]) * (1024 if found[3] else 1000) ** UNITS[found[2]] if found else 0
    if amount < 1:
        raise ValueError(f"give --memory as a number of bytes, such as 512MB or 2GB, not {text!r}.")
    return int(amount)


def parse_invalid(text: str) -> float | None:
    """NaN is left out in any case."""
    if text.strip().lower() in ("none", "nan"):
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"give --invalid as a number, nan or none, not {text!r}.") from None
