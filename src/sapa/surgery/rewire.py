"""The forward of one module instance, with some of its calls answered by upsamplers.

Everything here survives `copy.deepcopy` and pickle: a copy of a model runs the upsamplers of the copy.
"""

import inspect
import threading
from collections.abc import Mapping, Sequence
from math import floor
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sapa.geometry import Size, size_of
from sapa.nn import Upsampler
from sapa.ops import is_autocast
from sapa.surgery.trace import RESIZES, Address, Place, argument_names, named

HOME = "sapa"  # name of the child that holds the new upsamplers


class State:
    """Of one forward pass: whose forward is running, and the maps that were kept for later."""

    def __init__(self) -> None:
        self.running: Rewired | None = None
        self.kept: dict[str, Tensor] = {}
        self.turns: dict[str, int] = {}  # how often the running module called each rewired one

    def keep(self, key: str, value: Any, place: Sequence[str | int]) -> None:
        """Keep a tensor inside lists and dicts. That it is missing matters only to the site that asks for it."""
        self.kept.pop(key, None)
        for part in place:
            is_there = part in value if isinstance(value, Mapping) else isinstance(part, int) and part < len(value)
            if not is_there:
                return
            value = value[part]
        if isinstance(value, Tensor):
            self.kept[key] = value


class Shelf:
    """The states of a model, one for each thread that runs it. Nothing of it is copied or saved."""

    def __init__(self) -> None:
        self.states: dict[int, State] = {}

    def __reduce__(self) -> Any:
        return Shelf, ()

    def thread(self) -> int:
        return 0 if torch.compiler.is_compiling() else threading.get_ident()


class Chain(nn.Module):
    """One or more upsamplers in a row, after a 1x1 convolution where the operator replaced changes the channels."""

    def __init__(self, channels: int, out_channels: int, steps: list[Upsampler]) -> None:
        super().__init__()
        self.project = nn.Identity() if channels == out_channels else nn.Conv2d(channels, out_channels, 1)
        self.steps = nn.ModuleList(steps)

    def forward(self, x: Tensor, guides: list[Tensor], size: Size) -> Tensor:
        y = self.project(x)
        if not guides:
            return alone(self.steps[0], y, size).to(x.dtype)
        for i, (up, guide) in enumerate(zip(self.steps, guides, strict=True)):
            y = up(y, fitted(guide, y, size if i == len(guides) - 1 else size_of(guide)))
        return y.to(x.dtype)


def fitted(guide: Tensor, x: Tensor, size: Size) -> Tensor:
    """The guide in this size, or that of x where it is larger."""
    size = (max(size[0], x.shape[2]), max(size[1], x.shape[3]))
    if size_of(guide) != size:
        guide = F.interpolate(guide, size, mode="bilinear", align_corners=False)
    return guide if is_autocast(x.device.type) else guide.to(x.dtype)


def alone(up: Any, x: Tensor, size: Size) -> Tensor:
    """Without a guide, whose size would be the one asked for."""
    if up.any_size:
        up.check(x, None)
        return up.upsample(x, None, size)
    y = up(x)
    return y if size_of(y) == size else F.interpolate(y, size, mode="bilinear", align_corners=False)


class Plan:
    """What stands in the place of one call."""

    def __init__(self, name: str, home: nn.Module, key: str, guides: list[tuple[str, bool]], is_changed: bool) -> None:
        self.name, self.home, self.key, self.guides, self.is_changed = name, home, key, guides, is_changed

    def answer(self, state: State, x: Tensor, size: Size, func: Any, args: Any, kwargs: Any) -> Tensor:
        """In place of func(*args, **kwargs), which would make x this large."""
        chain = getattr(self.home, HOME)[self.key]
        return chain(x.clone() if self.is_changed else x, self.guides_in(state), size)

    def guides_in(self, state: State) -> list[Tensor]:
        guides = []
        for key, is_changed in self.guides:
            if key not in state.kept:
                raise RuntimeError(
                    f"{self.name}: its guide {key} was not made in this forward pass. It was on the example of swap_; "
                    f"run the model as a whole, and let a checkpoint that recomputes {self.name} hold the guide too."
                )
            # backward needs the map as it is now
            guides.append(state.kept[key].clone() if is_changed else state.kept[key])
        return guides


class Rewired:
    """Stands in `module.forward` of one instance: keeps maps that guide sites, and answers the calls of the sites.

    A module that has nothing of this but is called by one that has is rewired too, so that its calls are not counted.
    """

    def __init__(self, module: nn.Module, path: str, shelf: Shelf) -> None:
        self.module, self.path, self.shelf = module, path, shelf
        self.original = module.__dict__.get("forward")
        self.names = argument_names(module)
        self.plans: dict[tuple[str | None, int, int], Plan] = {}  # by caller, turn and ordinal; None at any
        self.keeps: dict[str, list[tuple[str, Place]]] = {"argument": [], "output": [], "function": []}
        self.clears: list[str] = []
        self.frozen: list[str] = []

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.forward)

    @property
    def __code__(self) -> Any:
        return self.forward.__code__  # torch.export asks for its file and line

    @property
    def forward(self) -> Any:
        return self.original or type(self.module).forward.__get__(self.module)

    def keep(self, address: Address) -> None:
        entry = (str(address), address.place)
        if entry not in self.keeps[address.kind]:
            self.keeps[address.kind].append(entry)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        thread = self.shelf.thread()
        state = self.shelf.states.setdefault(thread, State())
        caller, state.running = state.running, self
        turns, state.turns = state.turns, {}
        turn = turns.get(self.path, 0)
        turns[self.path] = turn + 1
        try:
            for key, place in self.keeps["argument"]:
                state.keep(key, named(self.names, args, kwargs), place)
            if self.plans or self.keeps["function"]:
                with Intercept(self, state, None if caller is None else caller.path, turn):
                    out = self.call(args, kwargs)
            else:
                out = self.call(args, kwargs)
            for key, place in self.keeps["output"]:
                state.keep(key, out, place)
            return out
        finally:
            state.running, state.turns = caller, turns
            for key in self.clears:
                state.kept.pop(key, None)
            if caller is None and not state.kept:
                self.shelf.states.pop(thread, None)

    def call(self, args: Any, kwargs: Any) -> Any:
        if self.original is not None:
            return self.original(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)


class Intercept(TorchFunctionMode):
    """Sees the calls of the functions of PyTorch in one forward."""

    def __init__(self, owner: Rewired, state: State, caller: str | None, turn: int) -> None:
        super().__init__()
        self.owner, self.state, self.caller, self.turn = owner, state, caller, turn
        self.resizes = 0
        self.calls: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        owner, state = self.owner, self.state
        if state.running is not owner:
            return func(*args, **kwargs)
        out = self.answer(func, args, kwargs) if func in RESIZES else func(*args, **kwargs)
        if owner.keeps["function"] and isinstance(out, (Tensor, list, tuple)):
            name = getattr(func, "__name__", "")
            call = self.calls.get(name, 0)
            self.calls[name] = call + 1
            for key, (of, number, *place) in owner.keeps["function"]:
                if of == name and number == call:
                    state.keep(key, out, place)
        return out

    def answer(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        plans = self.owner.plans
        plan = plans.get((None, 0, self.resizes)) or plans.get((self.caller, self.turn, self.resizes))
        self.resizes += 1
        x = args[0] if args else kwargs["input"]
        if plan is None or x.ndim != 4:
            return func(*args, **kwargs)
        size = size_after(func, x, args, kwargs)
        if size == size_of(x) or size[0] < x.shape[2] or size[1] < x.shape[3]:
            return func(*args, **kwargs)
        # what the upsampler calls is not counted
        self.state.running = None
        try:
            return plan.answer(self.state, x, size, func, args, kwargs)
        finally:
            self.state.running = self.owner


def size_after(func: Any, x: Tensor, args: Any, kwargs: Any) -> Size:
    """The size of the result, as the function itself would have it."""
    low = size_of(x)
    if func is F.pixel_shuffle:
        factor = args[1] if len(args) > 1 else kwargs["upscale_factor"]
        return low[0] * factor, low[1] * factor
    if func is F.interpolate:
        size = args[1] if len(args) > 1 else kwargs.get("size")
        if size is not None:
            return (size[0], size[1]) if isinstance(size, (tuple, list)) else (size, size)
        factor = args[2] if len(args) > 2 else kwargs["scale_factor"]
        factors = factor if isinstance(factor, (tuple, list)) else (factor, factor)
        return times(low[0], factors[0]), times(low[1], factors[1])
    names = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    kernel = given["weight"].shape[2:]
    stride, dilation = pair(given.get("stride", 1)), pair(given.get("dilation", 1))
    padding, extra = pair(given.get("padding", 0)), pair(given.get("output_padding", 0))
    height, width = (
        (low[i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + extra[i] + 1 for i in (0, 1)
    )
    return height, width


def times(n: int, factor: float) -> int:
    # a whole factor keeps a size of torch.export symbolic
    return n * int(factor) if factor == int(factor) else floor(n * factor)


def pair(value: Any) -> tuple[int, int]:
    return (value[0], value[-1]) if isinstance(value, (tuple, list)) else (value, value)
