"""The upsampling steps of a model with the maps that reach them, to look at."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from sapa.geometry import Size, size_of
from sapa.nn import Upsampler
from sapa.surgery import restore_, swap_
from sapa.surgery.chain import fitted
from sapa.surgery.rewire import Plan, Rewired, State
from sapa.surgery.sites import Site
from sapa.surgery.trace import evaluated

OURS = ("nearest", "bilinear", "bicubic")  # modes of interpolate that upsamplers of these names compute


@dataclass(frozen=True)
class Stage:
    """One upsampling step, as it ran on the example.

    Attributes:
        name: path of the upsampler, or name of the site; with a number where it ran more than once.
        operator: class of the upsampler, or the function that the model calls instead.
        x: the low-res map, [B, C, h, w].
        guide: the high-res map, [B, Cg, H, W]; None where the step has none.
        size: of the result.
        up: what the model does there: a module, or the name of an upsampler that does just the same.
    """

    name: str
    operator: str
    x: Tensor
    guide: Tensor | None
    size: Size
    up: nn.Module | str


def stages(model: nn.Module, *example: Any) -> list[Stage]:
    """The steps of a model in the order in which they run; the model is left as it was.

    These are its upsamplers, if it has any of this library. Else they are the sites that `swap_` would take, each with
    the operator and the maps that it has now.
    """
    found: list[Stage] = []
    has_upsamplers = any(isinstance(module, Upsampler) for module in model.modules())
    (_watch_upsamplers if has_upsamplers else _watch_sites)(model, example, found.append)
    names = [stage.name for stage in found]
    numbered = [(stage, names[:i].count(stage.name), names.count(stage.name)) for i, stage in enumerate(found)]
    return [replace(stage, name=f"{stage.name}#{i}") if n > 1 else stage for stage, i, n in numbered]


def _watch_upsamplers(model: nn.Module, example: tuple[Any, ...], found: Callable[[Stage], None]) -> None:
    def watched(name: str, up: Upsampler) -> Callable[..., Tensor]:
        def upsample(x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
            # one that can only multiply is told the size before it is cut
            shown = size if guide is None else size_of(guide)
            found(Stage(name, type(up).__name__, x.clone(), None if guide is None else guide.clone(), shown, up))
            return original(x, guide, size)

        original = up.upsample
        return upsample

    # all that an upsampler is called by ends in this method
    upsamplers = {name: module for name, module in model.named_modules() if isinstance(module, Upsampler)}
    try:
        for name, up in upsamplers.items():
            up.upsample = watched(name, up)
        with evaluated(model), torch.no_grad():
            model(*example)
    finally:
        for up in upsamplers.values():
            up.__dict__.pop("upsample", None)


def _watch_sites(model: nn.Module, example: tuple[Any, ...], found: Callable[[Stage], None]) -> None:
    # any upsampler with a guide would do: it is installed for its guides, and does not run
    try:
        sites = {site.name: site for site in swap_(model, "joint_bilateral", *example)}
    except ValueError as error:
        raise ValueError(f"stages: {str(error).removeprefix('swap_: ')}") from error
    try:
        for module in model.modules():
            rewired = module.__dict__.get("forward")
            if isinstance(rewired, Rewired):
                rewired.plans = {key: Peek(plan, sites[plan.name], found) for key, plan in rewired.plans.items()}
        with evaluated(model), torch.no_grad():
            model(*example)
    finally:
        restore_(model)


class Peek(Plan):
    """Looks at the maps of a site, and lets its own operator do the work."""

    def __init__(self, plan: Plan, site: Site, found: Callable[[Stage], None]) -> None:
        super().__init__(plan.name, plan.home, plan.key, plan.guides, plan.is_changed)
        self.site, self.found = site, found

    def answer(self, state: State, x: Tensor, size: Size, func: Any, args: Any, kwargs: Any) -> Tensor:
        guide = fitted(self.guides_in(state)[-1], x, size).clone()
        is_ours = self.site.mode in OURS and not kwargs.get("align_corners")
        up = self.site.mode if is_ours else Own(func, args, kwargs)
        self.found(Stage(self.name, self.site.operator, x.clone(), guide, size, up))
        return func(*args, **kwargs)


class Own(nn.Module):
    """A call of a function with another map in the place of its first argument."""

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self.func, self.rest = func, args[1:]
        self.named = {name: value for name, value in kwargs.items() if name != "input"}

    def forward(self, x: Tensor) -> Tensor:
        rest = [value.to(x.dtype) if isinstance(value, Tensor) else value for value in self.rest]
        named = {name: value.to(x.dtype) if isinstance(value, Tensor) else value for name, value in self.named.items()}
        return self.func(x, *rest, **named)
