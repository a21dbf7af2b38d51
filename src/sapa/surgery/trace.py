"""One run of a model, watched: which tensor was made of which, by what, and where it can be found again."""

import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from sapa.geometry import Size
from sapa.surgery.resize import RESIZES, Looks, looks_of

ROOT = "self"  # the name of the whole model where a path is printed

Place = tuple[str | int, ...]  # the way to a tensor through lists and dicts


class Address(NamedTuple):
    """Where a running model has a tensor: an argument or output of a module, or what a function in it returned.

    `place` starts with the name of the argument, or with the name of the function and how often it was called before.
    """

    path: str
    kind: str  # argument, output or function
    place: Place

    def __str__(self) -> str:
        head, *rest = self.place or ("",)
        index = "".join(f"[{part!r}]" if isinstance(part, str) else f"[{part}]" for part in rest)
        path = self.path or ROOT
        if self.kind == "argument":
            return f"{path}({head}){index}"
        if self.kind == "function":
            return f"{path}:{head}{index}"
        return path + "".join(f"[{part!r}]" if isinstance(part, str) else f"[{part}]" for part in self.place)


@dataclass(eq=False)
class Frame:
    """One call of a module."""

    path: str
    owner: str  # class of the module
    outer: "tuple[Frame, ...]"  # from the whole model to the caller
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # of each function, in this forward itself
    resizes: list["Looks"] = field(default_factory=list)  # the calls that can make a map larger, likewise
    turn: int = 0  # how often the caller called this module before
    children: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # that it called, and how often

    @property
    def stack(self) -> "tuple[Frame, ...]":
        return (*self.outer, self)


@dataclass(eq=False)
class Node:
    """The value of a tensor that comes from the example."""

    time: int
    shape: tuple[int, ...]
    parents: "tuple[Node, ...]"
    function: str
    dtype: torch.dtype
    device: torch.device
    addresses: list[Address] = field(default_factory=list)
    changed: int | None = None  # when a function wrote over it in place

    @property
    def size(self) -> Size | None:
        return (self.shape[2], self.shape[3]) if len(self.shape) == 4 and self.dtype.is_floating_point else None


@dataclass(eq=False)
class Resize:
    """One call of a function that can make a map larger."""

    frame: Frame
    ordinal: int  # among those in the same forward
    function: str
    mode: str
    x: Node
    y: Node
    has_grad: bool


class Trace:
    """What a run left behind."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.resizes: list[Resize] = []
        self.frames: list[Frame] = []
        self.found: dict[Address, list[tuple[int, Frame, Node]]] = defaultdict(list)

    def at(self, address: Address, time: int) -> tuple[Frame, Node] | None:
        """What lay at this address last, before this time."""
        before = [(frame, node) for t, frame, node in self.found[address] if t < time]
        return before[-1] if before else None


def record(model: nn.Module, example: tuple[Any, ...], named: Mapping[str, Any]) -> Trace:
    """Run the model once on the example, in evaluation mode, and leave it as it was.

    With gradients, to see which sites have them; a model that cannot run so is run without.
    """
    with evaluated(model), torch.inference_mode(False):
        example, named = _plain((example, dict(named)))
        for watch, mode in ((Watch(model), torch.enable_grad()), (Watch(model, has_grad=True), torch.no_grad())):
            try:
                with mode, watch.hooks(), watch:
                    model(*example, **named)
                return watch.trace
            except Exception:
                if watch.has_grad:
                    raise
    raise RuntimeError("unreachable")


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


class Watch(TorchFunctionMode):
    def __init__(self, model: nn.Module, has_grad: bool = False) -> None:
        super().__init__()
        self.model, self.trace = model, Trace()
        self.has_grad = has_grad  # of every site, where it cannot be seen
        self.node_of = WeakTensorKeyDictionary()
        self.running: list[Frame] = []

    @contextmanager
    def hooks(self) -> Iterator[None]:
        with ExitStack() as stack:
            for path, module in self.model.named_modules():
                before = module.register_forward_pre_hook(self.entering(path), with_kwargs=True)
                after = module.register_forward_hook(self.leaving, with_kwargs=True)
                stack.callback(before.remove)
                stack.callback(after.remove)
            yield

    def entering(self, path: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            frame = Frame(path, type(module).__name__, tuple(self.running))
            if self.running:
                frame.turn = self.running[-1].children[path]
                self.running[-1].children[path] += 1
            self.running.append(frame)
            self.trace.frames.append(frame)
            for place, x in leaves(named(argument_names(module), args, kwargs)):
                if x not in self.node_of and not frame.outer:
                    self.new(x, (), "example")
                if x in self.node_of:
                    self.note(Address(path, "argument", place), self.node_of[x])

        return hook

    def leaving(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        inputs = tuple(self.node_of[x] for _, x in leaves((args, kwargs)) if x in self.node_of)
        for place, y in leaves(out):
            # made by something PyTorch does not report, such as an autograd.Function
            if y not in self.node_of and inputs:
                self.new(y, inputs, type(module).__name__)
            if y in self.node_of:
                self.note(Address(self.running[-1].path, "output", place), self.node_of[y])
        self.running.pop()

    def new(self, x: Tensor, parents: tuple[Node, ...], function: str) -> Node:
        node = Node(len(self.trace.nodes), tuple(x.shape), parents, function, x.dtype, x.device)
        if x in self.node_of:
            # written over in place, and with it all that are views of the same memory
            memory = x.untyped_storage().data_ptr()
            for other, known in list(self.node_of.items()):
                if other is x or other.untyped_storage().data_ptr() == memory:
                    known.changed = node.time
        self.trace.nodes.append(node)
        self.node_of[x] = node
        return node

    def note(self, address: Address, node: Node) -> None:
        if address not in node.addresses:
            node.addresses.append(address)
        self.trace.found[address].append((len(self.trace.nodes) - 1, self.running[-1], node))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not self.running:
            return out
        name = getattr(func, "__name__", str(func))
        frame = self.running[-1]
        resize = func in RESIZES
        if resize:
            frame.resizes.append(looks_of(func, args, kwargs))
        results = [args[0]] if name == "__setitem__" else [y for _, y in leaves(out)]
        if name == "__get__" or not results:
            return out
        call, frame.calls[name] = frame.calls[name], frame.calls[name] + 1
        parents = tuple(self.node_of[x] for _, x in leaves((args, kwargs)) if x in self.node_of)
        if not parents:
            return out
        for i, y in enumerate(results):
            node = self.new(y, parents, name)
            place = (name, call) if isinstance(out, Tensor) else (name, call, i)
            if name != "__setitem__":  # which returns nothing that could be kept
                self.note(Address(frame.path, "function", place), node)
            if resize and len(node.shape) == 4:
                has_grad = self.has_grad or torch.is_grad_enabled()
                _, mode, _ = frame.resizes[-1]
                ordinal = len(frame.resizes) - 1
                self.trace.resizes.append(Resize(frame, ordinal, name, mode, parents[0], node, has_grad))
        return out


def _plain(example: Any) -> Any:
    """Tensors made in inference mode as others, which can have gradients."""
    return tree_map_only(Tensor, lambda x: x.clone() if x.is_inference() else x, example)


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Tensor]]:
    """The tensors in lists and dicts of any depth, each with the way to it."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(key, (str, int)):
                yield from leaves(part, (*place, key))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from leaves(part, (*place, i))


def argument_names(module: nn.Module) -> tuple[str, ...]:
    """Of those that forward takes by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(name for name, p in inspect.signature(module.forward).parameters.items() if p.kind in kinds)


def named(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str | int, Any]:
    """The arguments by name, however they were given; those of *args by their position."""
    found: dict[str | int, Any] = {names[i] if i < len(names) else i: value for i, value in enumerate(args)}
    found.update(kwargs)
    return found
