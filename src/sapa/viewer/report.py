"""What a page or a figure shows: the two maps, and for each upsampler its output and its weights."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sapa import checks
from sapa.geometry import Size, size_of
from sapa.nn import Upsampler, build
from sapa.viewer import photo as photos
from sapa.viewer.features import CHANNELS, channel_painter, features, painter
from sapa.viewer.points import Point, suggest
from sapa.viewer.stage import beside, look, maps_of
from sapa.viewer.weights import Weights, call, weights

DEFAULT = ("nearest", "bilinear", "joint_bilateral", "sapa_i")
SHOWN = 768  # the longer side of the photograph on the page
# the form that is exact up to the frame, where nothing was trained with the other
OPTIONS: dict[str, dict[str, Any]] = {"sapa_i": {"border": "mask"}}

Named = str | nn.Module | Iterable[str | nn.Module] | Mapping[str, str | nn.Module]


@dataclass(frozen=True)
class Seen:
    """One upsampler at work."""

    name: str
    picture: Tensor  # its output in colours, [H, W, 3]
    weights: Weights
    error: float | None  # mean absolute difference from the features at full size, where those are known
    is_trained: bool | None  # False for one built by name, None where there is nothing to train
    has_gate: bool  # part of the guide passes by the weights


@dataclass(frozen=True)
class Report:
    title: str
    photo: Tensor  # [H', W', 3], at least as fine as the map
    guide: Tensor  # in colours, [H, W, 3]
    x: Tensor  # [h, w, 3]
    seen: list[Seen]
    points: list[tuple[str, Point]]
    channels: Size  # of x and of the guide
    is_photograph: bool  # or two maps of somebody's network
    colours: tuple[int, ...] | None = None

    @property
    def size(self) -> Size:
        return self.guide.shape[0], self.guide.shape[1]

    @property
    def low(self) -> Size:
        return self.x.shape[0], self.x.shape[1]

    @property
    def window(self) -> Size:
        """The widest of all upsamplers."""
        Kh, Kw = (max(3, *(seen.weights.kernel_size[axis] for seen in self.seen)) for axis in (0, 1))
        return Kh, Kw


def examine(
    image: Any = None,
    upsamplers: Named | None = None,
    *,
    x: Tensor | None = None,
    guide: Tensor | None = None,
    scale: int = 4,
    size: int = 192,
    colours: Iterable[int] | None = None,
    title: str | None = None,
    tick: Callable[[str], None] = lambda name: None,
) -> Report:
    """Upsample the features of a photograph, or a pair of given maps, and keep what there is to see."""
    checks.positive("see", scale=scale, size=size)
    is_equal = x is None or guide is None or x.shape[1:2] == guide.shape[1:2]
    modules = _modules(defaults(is_equal) if upsamplers is None else upsamplers)
    channels = None if colours is None else tuple(colours)
    is_photograph = x is None and guide is None
    if image is None and is_photograph:
        raise ValueError("see: give an image, or the two maps x [1, C, h, w] and guide [1, Cg, H, W].")
    shown = None if image is None else photos.read(image)
    if x is None or guide is None:
        if shown is None or not is_photograph:
            raise ValueError("see: x and guide belong together; give both, or neither and an image.")
        x, guide = _maps_of(shown, modules, scale, size)
    x, guide = _checked(x, guide, size)
    is_one_space = is_photograph and x.shape[1] == guide.shape[1]
    paint_guide = _painter(guide, channels)
    paint = paint_guide if is_one_space else _painter(x, channels)
    seen = []
    built = {name: _built(module, x, guide) for name, module in modules.items()}
    for name, up in built.items():
        tick(name)
        with torch.no_grad():
            y = call(up, x, guide)
            if size_of(y) != size_of(guide):
                raise ValueError(
                    f"see: {name} makes {list(y.shape[2:])} of x, but guide is {list(guide.shape[2:])}; the output "
                    f"must have the size of the guide."
                )
            found = weights(up, x, guide)
        error = float((y - guide).abs().mean()) if is_one_space and y.shape == guide.shape else None
        own = paint if y.shape[1] == x.shape[1] else _painter(y, channels)
        has_gate = getattr(up, "gate_generator", None) is not None
        seen.append(Seen(name, own(y), found, error, _is_trained(modules[name], up), has_gate))
    colour = paint_guide(guide)
    return Report(
        title or _title(image),
        colour if shown is None else _display(shown, size_of(guide)),
        colour,
        paint(x),
        seen,
        suggest(x, guide),
        (x.shape[1], guide.shape[1]),
        is_photograph,
        channels,
    )


def examine_model(
    image: Any,
    model: nn.Module,
    which: str | int | None,
    upsamplers: Named | None = None,
    *,
    size: int = 192,
    colours: Iterable[int] | None = None,
    tick: Callable[[str], None] = lambda name: None,
) -> Report:
    """The same for one stage of a model, on the maps that it makes of a photograph there."""
    photo = photos.read(image)
    tick("the model")
    stage, name = look(model, photo, which, size)
    x, guide = maps_of(stage, photo)
    others = defaults(x.shape[1] == guide.shape[1]) if upsamplers is None else upsamplers
    title = f"{_title(image)}, {type(model).__name__}, {name}"
    seen = beside(stage, _modules(others))
    return examine(image, seen, x=x, guide=guide, size=size, colours=colours, title=title, tick=tick)


def defaults(is_equal: bool) -> tuple[str, ...]:
    """What needs no training; SAPA-I compares the channels of both maps one by one."""
    return tuple(name for name in DEFAULT if is_equal or name != "sapa_i")


def _modules(upsamplers: Named) -> dict[str, str | nn.Module]:
    """By the name they are shown under; two of one name are numbered."""
    found: dict[str, str | nn.Module] = {}
    if isinstance(upsamplers, Mapping):
        found = {str(name): up for name, up in upsamplers.items()}
    else:
        listed = [upsamplers] if isinstance(upsamplers, (str, nn.Module)) else list(upsamplers)
        for up in listed:
            name = up if isinstance(up, str) else type(up).__name__
            same = sum(other.split(" ")[0] == name for other in found)
            found[f"{name} {same + 1}" if same else name] = up
    if not found:
        raise ValueError("see: upsamplers is empty; name at least one, such as 'sapa_i'.")
    return found


def _maps_of(photo: Tensor, modules: dict[str, str | nn.Module], scale: int, size: int) -> tuple[Tensor, Tensor]:
    """Features as a trained module expects them, averaged over cells: [1, C, h, w], and at full size."""
    known = {name: up for name, up in modules.items() if isinstance(up, Upsampler)}
    guided = {name: up for name, up in known.items() if up.needs_guide}
    C = _agreed("x", {name: up.channels for name, up in known.items()})
    Cg = _agreed("guide", {name: up.guide_channels for name, up in guided.items()} or {"": C})
    if scale > size:
        raise ValueError(f"see: scale is {scale}, but a map of size={size} has no more than {size} points a side.")
    pair = (scale, scale)
    small = photos.fit(photo, photos.cells(size_of(photo), pair, size), pair)
    return F.avg_pool2d(features(small, C), scale), features(small, Cg)


def _agreed(map: str, channels: dict[str, int]) -> int:
    if len(set(channels.values())) > 1:
        listed = ", ".join(f"{name} {C}" for name, C in channels.items())
        raise ValueError(f"see: the upsamplers of one page share their maps, but take channels of {map}: {listed}.")
    return next(iter(channels.values()), CHANNELS)


def _checked(x: Tensor, guide: Tensor, size: int) -> tuple[Tensor, Tensor]:
    sizes = checks.bind("see", x=(x, "B C h w"), guide=(guide, "B Cg H W"))
    if sizes["B"] != 1:
        raise ValueError(f"see: a page shows one sample, but x has {sizes['B']}: pass x[:1] and guide[:1].")
    for name, map in (("x", x), ("guide", guide)):
        if not map.isfinite().all():
            raise ValueError(f"see: {name} holds NaN or infinity, which has no colour; try {name}.nan_to_num(0, 0, 0).")
    if max(sizes["H"], sizes["W"]) > size:
        raise ValueError(
            f"see: guide is {sizes['H']}x{sizes['W']}, but a page of size={size} holds that many points a side. Crop "
            f"both maps, or pass a larger size; each upsampler adds about K*K*H*W bytes."
        )
    return x.detach().float().cpu(), guide.detach().float().cpu()


def _built(module: str | nn.Module, x: Tensor, guide: Tensor) -> nn.Module:
    if isinstance(module, nn.Module):
        return copy.deepcopy(module).float().cpu().eval()
    scale = tuple(-(-N // n) for N, n in zip(size_of(guide), size_of(x), strict=True))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(module, x.shape[1], guide.shape[1], scale=scale, **OPTIONS.get(module, {})).eval()  # type: ignore[arg-type]


def _is_trained(module: str | nn.Module, up: nn.Module) -> bool | None:
    return None if next(up.parameters(), None) is None else isinstance(module, nn.Module)


def _painter(reference: Tensor, channels: tuple[int, ...] | None) -> Callable[[Tensor], Tensor]:
    return painter(reference) if channels is None else channel_painter(reference, channels)


def _display(photo: Tensor, size: Size) -> Tensor:
    """The photograph in a size that is a multiple of the map's, so that points and pixels keep their places."""
    H, W = size_of(photo)
    finer = max(1, min(SHOWN // max(size), max(H, W) // max(size)))
    return photos.fit(photo, size, (finer, finer))[0].permute(1, 2, 0)


def _title(image: Any) -> str:
    return Path(image).name if isinstance(image, (str, Path)) else "feature maps" if image is None else "photograph"
