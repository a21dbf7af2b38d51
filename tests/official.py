"""How to build here what the official code of each method builds from its own options: used with its golden numbers."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.nn import FreqFusion
from sapa.nn.fade import H2L_NAMES

SIMILARITY = {"encoder_only": "bilinear", "cat": "plain", "gate": "gated"}


def sapa_d(config: dict, x: Tensor, guide: Tensor) -> sapa.Upsampler:
    return sapa.build(
        "sapa_d",
        x.shape[1],
        guide.shape[1],
        scale=config["up_factor"],
        points=config["num_point"],
        groups=config["groups"],
        embed_dim=config["embedding_dim"],
        is_high_res=config["high_offset"],
        norm="group" if config.get("norm") else "none",
    )


def sapa_i(config: dict, x: Tensor, guide: Tensor) -> sapa.Upsampler:
    return sapa.build("sapa_i", x.shape[1], scale=config["up_factor"], kernel_size=config["up_kernel_size"])


def sapa_b(config: dict, x: Tensor, guide: Tensor, norm: str = "layer") -> sapa.Upsampler:
    return sapa.SAPA(
        x.shape[1],
        guide.shape[1],
        similarity=SIMILARITY[config.get("q_mode", "encoder_only")],
        scale=config["up_factor"],
        kernel_size=config["up_kernel_size"],
        embed_dim=config["embedding_dim"],
        norm=norm,
        normalize=config.get("kernel_norm", "softmax"),
        out_channels=(config.get("out_dim") or x.shape[1]) if config.get("v_embed") else None,
        bias=config.get("qkv_bias", True),
    )


def sapa_b_gn(config: dict, x: Tensor, guide: Tensor) -> sapa.Upsampler:
    return sapa_b(config, x, guide, norm="group" if config.get("norm", True) else "none")


def carafe(config: dict, x: Tensor) -> sapa.Upsampler:
    options = {name: value for name, value in config.items() if name not in ("channels", "scale_factor")}
    return sapa.build("carafe", x.shape[1], scale=config["scale_factor"], **options)


def fade(config: dict, x: Tensor, guide: Tensor, **options) -> sapa.Upsampler:
    return sapa.build("fade", x.shape[1], guide.shape[1], kernel_size=config["up_kernel_size"], **options)


def dysample(config: dict, x: Tensor) -> sapa.Upsampler:
    options = {name: config[name] for name in ("scale", "style", "groups", "dyscope")}
    return sapa.build("dysample", x.shape[1], **options)


def sierra(config: dict, x: Tensor) -> sapa.Upsampler:
    return sapa.build("sierra", x.shape[1], **config)


def indexnet(config: dict, x: Tensor, guide: Tensor, index: str) -> sapa.Upsampler:
    options = {name: config[name] for name in ("use_nonlinear", "use_context")}
    return sapa.build(f"indexnet_{index}", x.shape[1], guide.shape[1], **options)


def a2u(config: dict, x: Tensor, guide: Tensor) -> sapa.Upsampler:
    options = {name: value for name, value in config.items() if name != "c"}
    return sapa.build("a2u", x.shape[1], guide.shape[1], with_pool=True, **options)


def freqfusion(config: dict, x: Tensor, guide: Tensor) -> sapa.Upsampler:
    # the release never reads use_low_pass, and fails for any scale_factor but 1
    unused = ("hr_channels", "lr_channels", "use_low_pass", "scale_factor")
    options = {name: value for name, value in config.items() if name not in unused}
    return sapa.build("freqfusion", x.shape[1], guide.shape[1], **options)


def freqfusion_outputs(up: FreqFusion, x: Tensor, guide: Tensor) -> dict[str, Tensor]:
    return dict(zip(("out", "out_hr"), up.fuse(x, guide), strict=True))


def pixeltcl(config: dict, x: Tensor, form: str = "dcl") -> sapa.Upsampler:
    activation = config.get("activation", "relu")
    return sapa.build(
        "pixel_tcl",
        x.shape[1],
        form=form,
        kernel_size=config["kernel_size"],
        out_channels=config["out_num"],
        activation=None if activation in (None, "none", "identity", "linear") else getattr(F, activation),
    )


def dupsample(config: dict, x: Tensor) -> sapa.Upsampler:
    return sapa.build("dupsample", x.shape[1], scale=config["scale_factor"], out_channels=config["out_channels"])


OFFICIAL: dict[str, Callable[..., sapa.Upsampler]] = {
    "sapa_i": sapa_i,
    **dict.fromkeys(("sapa_b", "sapa_g", "sapa_cat"), sapa_b),
    "sapa_d": sapa_d,
    "sapa_b_gn": sapa_b_gn,
    "carafe": carafe,
    **{f"indexnet_{index}": partial(indexnet, index=index) for index in ("hin", "m2o", "o2o")},
    "a2u": a2u,
    "fade": fade,
    "fade_without_gate": partial(fade, gate=False),
    "fade_lite": partial(fade, is_lite=True),
    "fade_lite_without_gate": partial(fade, is_lite=True, gate=False),
    "dysample": dysample,
    "sierra": sierra,
    "freqfusion": freqfusion,
    "pixeltcl": pixeltcl,
    "pixeltcl_i": partial(pixeltcl, form="idcl"),
    "dupsample": dupsample,
}


def own_name(key: str) -> str:
    """The name that a parameter of the official code has here, where load_state_dict translates it."""
    for old, new in H2L_NAMES.items():
        key = key.replace(old, new)
    return key


# where one operator has several official functions with the same options: function -> operator
OTHER_FORMS: dict[str, str] = {"ipixel_dcl": "pixeltcl_i"}

# where the official module returns more than the upsampled map: operator -> function(up, x, [guide]) -> every output
FURTHER_OUTPUTS: dict[str, Callable[..., dict[str, Tensor]]] = {"freqfusion": freqfusion_outputs}
