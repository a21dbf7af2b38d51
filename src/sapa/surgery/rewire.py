"""The forward of one module instance, with some of its calls answered by upsamplers.

Everything here survives `copy.deepcopy` and pickle: a copy of a model runs the upsamplers of the copy.
"""

import inspect
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from sapa.geometry import Size, size_of
from sapa.surgery.resize import RESIZES, Looks, looks_of, size_after
from sapa.surgery.trace import ROOT, Address, Place, argument_names, named

CHECKPOINT = checkpoint.__code__.co_filename
HOME = "sapa"  # name of the child that holds the new upsamplers


class State:
    """Of one forward pass: whose forward is running, and the maps that were kept for later."""

    def __init__(self) -> None:
        self.running: Rewired | None = None
        self.kept: dict[str, Tensor] = {}
        self.turns: dict[str, int] = {}  # how often the running module called each rewired one

    def keep(self, key: str, value: Any, place: Sequence[Any]) -> None:
        """Keep a tensor inside lists and dicts. That it is missing matters only to the site that asks for it."""
        self.kept.pop(key, None)
        for part in place:
            # not of a tensor, whose index would be a sample
            is_list = isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value)
            if not is_list and not (isinstance(value, Mapping) and part in value):
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
                    f"run and compile the model as a whole, and let a checkpoint that recomputes {self.name} hold the "
                    f"guide too."
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
        self.resizes: list[Looks] | None = None  # calls of the example; None where they are not always the same
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
    def __globals__(self) -> Any:
        # torch.jit.script asks for them first of all; it could not see the calls that are answered here
        raise AttributeError(
            "a model whose upsampling was swapped cannot be scripted: take torch.compile or torch.export, or script it "
            "after sapa.restore_(model)."
        )

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
                calls = Calls(self, state, None if caller is None else caller.path, turn)
                with Intercept(calls):
                    out = self.call(args, kwargs)
                calls.finish()
            else:
                out = self.call(args, kwargs)
            for key, place in self.keeps["output"]:
                state.keep(key, out, place)
            return out
        finally:
            state.running, state.turns = caller, turns
            for key in self.clears:
                state.kept.pop(key, None)
            if caller is None:
                # of a part that was run alone, too: its maps are no guides for what is run next
                self.shelf.states.pop(thread, None)

    def call(self, args: Any, kwargs: Any) -> Any:
        if self.original is not None:
            return self.original(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)


class Calls:
    """Those of the functions of PyTorch in one forward, counted."""

    def __init__(self, owner: Rewired, state: State, caller: str | None, turn: int) -> None:
        self.owner, self.state, self.caller, self.turn = owner, state, caller, turn
        self.resizes = 0
        self.counts: dict[str, int] = {}
        self.has_grad = torch.is_grad_enabled()

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = self.answer(func, args, kwargs) if func in RESIZES else func(*args, **kwargs)
        if self.owner.keeps["function"] and isinstance(out, (Tensor, list, tuple)):
            name = getattr(func, "__name__", "")
            count = self.counts.get(name, 0)
            self.counts[name] = count + 1
            for key, (of, number, *place) in self.owner.keeps["function"]:
                if of == name and number == count:
                    self.state.keep(key, out, place)
        return out

    def answer(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        number = self.number(looks_of(func, args, kwargs))
        if number is None:
            return func(*args, **kwargs)
        plans = self.owner.plans
        plan = plans.get((None, 0, number)) or plans.get((self.caller, self.turn, number))
        x = args[0] if args else kwargs["input"]
        if plan is None or x.ndim != 4:
            return func(*args, **kwargs)
        size = size_after(func, x, args, kwargs)
        if size == size_of(x) or size[0] < x.shape[2] or size[1] < x.shape[3]:
            return func(*args, **kwargs)
        self.refuse_checkpoint(plan)
        # what the upsampler calls is not counted
        self.state.running = None
        try:
            return plan.answer(self.state, x, size, func, args, kwargs)
        finally:
            self.state.running = self.owner

    def number(self, looks: Looks) -> int | None:
        """Which of the calls of the example this is; None for one that is none of them, as a hook's."""
        known, number = self.owner.resizes, self.resizes
        if known is not None and looks not in known:
            return None
        if self.caller is None and any(caller is not None for caller, _, _ in self.owner.plans):
            raise RuntimeError(
                f"{self.owner.path}: it takes another guide for each of its calls, but it was called from outside the "
                f"model. Run the model as a whole, and leave it out of checkpoints that do not hold its caller."
            )
        self.resizes += 1
        if known is not None and known[number : number + 1] != [looks]:
            swapped = [known[n] for _, _, n in self.owner.plans]
            if looks in swapped or (number < len(known) and known[number] in swapped):
                self.complain()
        return number

    def finish(self) -> None:
        """Complain where a call was left out, and those after it may have been taken for it."""
        known, number = self.owner.resizes or [], self.resizes
        swapped = [known[n] for _, _, n in self.owner.plans if known]
        if number and any(looks in swapped and looks in known[:number] for looks in known[number:]):
            self.complain()

    def complain(self) -> None:
        path = self.owner.path or ROOT
        raise RuntimeError(
            f"{path}: it makes other calls of interpolate and the like than on the example of swap_, so that those "
            f"swapped cannot be told apart: a hook may add one, or a branch for training or for some sizes. Call "
            f"restore_, and swap on an example and in a way that has them, or leave them out with where=."
        )

    def refuse_checkpoint(self, plan: Plan) -> None:
        """A checkpoint between the owner's forward and the call would recompute the original operator."""
        if torch.compiler.is_compiling() or not self.has_grad:
            return
        frame = inspect.currentframe()
        while frame is not None and frame.f_locals.get("self") is not self.owner:
            if frame.f_code.co_filename == CHECKPOINT:
                raise RuntimeError(
                    f"{plan.name}: a checkpoint inside the forward of {self.owner.path or ROOT} would recompute this "
                    f"call without its new upsampler. Make what is checkpointed a module of its own, and swap again."
                )
            frame = frame.f_back


class Intercept(TorchFunctionMode):
    """Shows the calls in one forward to those who count them."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.calls.state.running is not self.calls.owner:
            return func(*args, **(kwargs or {}))
        return self.calls.call(func, args, kwargs or {})
