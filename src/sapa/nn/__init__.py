"""The upsamplers, by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sapa.checks import suggest
from sapa.geometry import Size
from sapa.nn.base import Upsampler
from sapa.nn.classic import Bilinear, Nearest
from sapa.nn.sapa import SAPA
from sapa.nn.sapa_deform import SAPADeform

__all__ = ["SAPA", "UPSAMPLERS", "Bilinear", "Nearest", "SAPADeform", "Upsampler", "build", "needs_guide"]

UPSAMPLERS: dict[str, Callable[..., Upsampler]] = {
    "nearest": Nearest,
    "bilinear": Bilinear,
    "sapa_i": partial(SAPA, similarity="inner"),
    "sapa_b": partial(SAPA, similarity="bilinear"),
    "sapa_p": partial(SAPA, similarity="plain"),
    "sapa_g": partial(SAPA, similarity="gated"),
    "sapa_d": SAPADeform,
}


def build(
    name: str, channels: int, guide_channels: int | None = None, *, scale: int | Size = 2, **options: Any
) -> Upsampler:
    """Make an upsampler by its name in `UPSAMPLERS`; options go to its class.

    >>> up = sapa.build("sapa_g", 256, guide_channels=64, kernel_size=3)
    """
    if not isinstance(name, str) or name not in UPSAMPLERS:
        raise KeyError(f"no upsampler {name!r}.{suggest(name, UPSAMPLERS)}")
    return UPSAMPLERS[name](channels, guide_channels, scale=scale, **options)


def needs_guide(name: str) -> bool:
    """Whether the upsampler of this name cannot do without a guide."""
    factory = UPSAMPLERS[name]
    return (factory.func if isinstance(factory, partial) else factory).needs_guide  # type: ignore[attr-defined]
