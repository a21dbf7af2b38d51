"""The upsamplers, by name."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from sapa.checks import suggest
from sapa.geometry import Size
from sapa.nn.a2u import A2U
from sapa.nn.base import Upsampler
from sapa.nn.bilinear_additive import BilinearAdditive
from sapa.nn.carafe import CARAFE
from sapa.nn.classic import Bicubic, Bilinear, Nearest
from sapa.nn.convolution import Deconv, PixelShuffle
from sapa.nn.dupsample import DUpsample
from sapa.nn.dysample import DySample
from sapa.nn.fade import FADE
from sapa.nn.freqfusion import FreqFusion
from sapa.nn.indexnet import IndexNet
from sapa.nn.joint_bilateral import JointBilateral
from sapa.nn.max_unpool import MaxUnpool
from sapa.nn.pixel_tcl import PixelTCL
from sapa.nn.sapa import SAPA
from sapa.nn.sapa_deform import SAPADeform
from sapa.nn.sierra import SIERRA

__all__ = [
    "A2U",
    "CARAFE",
    "FADE",
    "SAPA",
    "SIERRA",
    "UPSAMPLERS",
    "Bicubic",
    "Bilinear",
    "BilinearAdditive",
    "DUpsample",
    "Deconv",
    "DySample",
    "FreqFusion",
    "IndexNet",
    "JointBilateral",
    "MaxUnpool",
    "Nearest",
    "PixelShuffle",
    "PixelTCL",
    "SAPADeform",
    "Upsampler",
    "build",
    "needs_guide",
]

UPSAMPLERS: dict[str, Callable[..., Upsampler]] = {
    "nearest": Nearest,
    "bilinear": Bilinear,
    "bicubic": Bicubic,
    "joint_bilateral": JointBilateral,
    "max_unpool": MaxUnpool,
    "pixel_shuffle": PixelShuffle,
    "deconv": Deconv,
    "pixel_tcl": PixelTCL,
    "bilinear_additive": BilinearAdditive,
    "dupsample": DUpsample,
    "carafe": CARAFE,
    "indexnet_hin": partial(IndexNet, index="hin"),
    "indexnet_m2o": partial(IndexNet, index="m2o"),
    "indexnet_o2o": partial(IndexNet, index="o2o"),
    "a2u": A2U,
    "sapa_i": partial(SAPA, similarity="inner"),
    "sapa_b": partial(SAPA, similarity="bilinear"),
    "sapa_p": partial(SAPA, similarity="plain"),
    "sapa_g": partial(SAPA, similarity="gated"),
    "sapa_d": SAPADeform,
    "fade": FADE,
    "fade_lite": partial(FADE, is_lite=True),
    "dysample": DySample,
    "dysample_plus": partial(DySample, dyscope=True),
    "dysample_s": partial(DySample, style="pl", groups=8),
    "dysample_s_plus": partial(DySample, style="pl", groups=8, dyscope=True),
    "sierra": SIERRA,
    "freqfusion": FreqFusion,
}


def build(
    name: str, channels: int, guide_channels: int | None = None, *, scale: int | Size = 2, **options: Any
) -> Upsampler:
    """Make an upsampler by its name in `UPSAMPLERS`; options go to its class.

    >>> up = sapa.build("sapa_g", 256, guide_channels=64, kernel_size=3)
    """
    if not isinstance(name, str) or name not in UPSAMPLERS:
        raise KeyError(f"no upsampler {name!r}.{suggest(name, UPSAMPLERS)}")
    factory = UPSAMPLERS[name]
    parameters = signature(factory).parameters
    known = [option for option in parameters if option not in ("channels", "guide_channels")]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for option in options:
        if option not in known and not takes_any:
            raise TypeError(f"build: {name!r} has no option {option!r}.{suggest(option, known)}")
    return factory(channels, guide_channels, scale=scale, **options)


def needs_guide(name: str) -> bool:
    """Whether the upsampler of this name cannot do without a guide."""
    factory = UPSAMPLERS[name]
    return (factory.func if isinstance(factory, partial) else factory).needs_guide  # type: ignore[attr-defined]
