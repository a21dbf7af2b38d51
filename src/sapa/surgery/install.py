"""Puts upsamplers into the forwards of a model, tries them out, and takes them out again."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from sapa.nn import Upsampler, build, needs_guide
from sapa.ops import is_autocast
from sapa.surgery.chain import Chain
from sapa.surgery.rewire import HOME, Plan, Rewired, Shelf
from sapa.surgery.sites import Guide, Site
from sapa.surgery.trace import Trace, evaluated

ITERATED = (nn.Sequential, nn.ModuleList, nn.ModuleDict)  # another child would take part in their work


class Home(nn.ModuleDict):
    """The new upsamplers of one module."""


class Surgeon:
    def __init__(self, model: nn.Module, trace: Trace) -> None:
        self.model, self.trace = model, trace
        self.shelf = Shelf()
        self.chains: dict[str, Chain] = {}
        self.kept: dict[str, Guide] = {}  # of each address, the guide of the outermost scope

    def swap(self, site: Site, name: str, unguided: str | None, options: dict[str, Any]) -> None:
        """Put the upsampler in the place of a site, or note why not."""
        if needs_guide(name):
            steps, guides = self.guided(site, name, options)
            if not steps and unguided is not None:
                name = unguided
                steps, guides = self.alone(site, name, {}), []
        else:
            steps, guides = self.alone(site, name, options), []
        if steps:
            self.install(site, steps, guides)
            site.swapped = name if len(steps) == 1 else f"{name}, {len(steps)} steps"

    def guided(self, site: Site, name: str, options: dict[str, Any]) -> tuple[list[Upsampler], list[Guide]]:
        problems = []
        for guide in site.guides:
            try:
                last = self.step(site, name, guide, site.low, options)
            except ValueError as error:
                problems.append(f"{guide.name}: {error}")
                continue
            steps, guides, low = [], [], site.low
            for between in site.between:
                try:
                    steps.append(self.step(site, name, between, low, options))
                except ValueError:  # a larger step does without
                    continue
                guides.append(between)
                low = between.size
            if steps:
                last = self.step(site, name, guide, low, options)
            site.guides = (guide, *(other for other in site.guides if other is not guide))
            site.between = tuple(guides)
            return [*steps, last], [*guides, guide]
        note(site, problems[0] if problems else "")
        return [], []

    def step(self, site: Site, name: str, guide: Guide, low: tuple[int, int], options: dict[str, Any]) -> Upsampler:
        scale = (max(1, round(guide.size[0] / low[0])), max(1, round(guide.size[1] / low[1])))
        return build(name, site.out_channels, guide.channels, scale=scale, **options)

    def alone(self, site: Site, name: str, options: dict[str, Any]) -> list[Upsampler]:
        try:
            up = build(name, site.out_channels, scale=site.scale, **options)
        except ValueError as error:
            note(site, str(error))
            return []
        exact = (site.scale[0] * site.low[0], site.scale[1] * site.low[1])
        if not up.any_size and exact != site.size:
            note(site, f"{name} can only multiply the size")
            return []
        return [up]

    def install(self, site: Site, steps: list[Upsampler], guides: list[Guide]) -> None:
        owner = self.model.get_submodule(site.path)
        home = self.home(site)
        chain = Chain(site.channels, site.out_channels, steps).train(owner.training)
        chain.to(site.device, None if is_autocast(site.device.type) else site.dtype)
        if HOME not in home._modules:
            home.add_module(HOME, Home().train(home.training))
        key = str(len(getattr(home, HOME)))
        getattr(home, HOME)[key] = chain
        self.chains[site.name] = chain
        wanted = [(str(guide.address), guide.is_changed) for guide in guides]
        rewired = self.rewired(site.path)
        calls = [frame.resizes for frame in self.trace.frames if frame.path == site.path]
        rewired.resizes = calls[0] if all(found == calls[0] for found in calls) else None
        rewired.plans[site.caller, site.turn, site.ordinal] = Plan(site.name, home, key, wanted, site.is_changed)
        self.fence(site.path)
        if site.caller is not None:
            self.rewired(site.caller)  # which counts the turns
        for guide in guides:
            self.rewired(guide.address.path).keep(guide.address)
            known = self.kept.get(str(guide.address))
            if known is None or guide.depth < known.depth:
                self.kept[str(guide.address)] = guide
            if guide.address.kind == "function":
                self.fence(guide.address.path)
        if isinstance(owner, nn.ConvTranspose2d):
            # they keep their names but take no part, and would wait for a gradient in DDP
            for name in self.idle(owner):
                owner.get_parameter(name).requires_grad_(False)
                rewired.frozen.append(name)

    def idle(self, owner: nn.Module) -> list[str]:
        """Parameters of a transposed convolution, also of its parametrizations, that nothing else uses."""
        others = {id(p) for part in self.model.modules() if part not in set(owner.modules()) for p in _own(part)}
        names = [name for name, p in owner.named_parameters() if p.requires_grad and id(p) not in others]
        return [name for name in names if not name.startswith(f"{HOME}.")]

    def home(self, site: Site) -> nn.Module:
        path = site.path
        while isinstance(self.model.get_submodule(path), ITERATED):
            if not path:
                raise ValueError(
                    f"swap_: {site.name} is a {type(self.model).__name__}, in which a new child would take part. "
                    f"Put the model into a module of its own, and swap in that."
                )
            path = path.rpartition(".")[0]
        home = self.model.get_submodule(path)
        if hasattr(home, HOME) and not isinstance(getattr(home, HOME), Home):
            raise ValueError(f"swap_: {path or 'the model'} has an attribute {HOME!r} already, where upsamplers go.")
        return home

    def rewired(self, path: str) -> Rewired:
        module = self.model.get_submodule(path)
        if not is_rewired(module):
            module.forward = Rewired(module, path, self.shelf)
        return module.__dict__["forward"]

    def fence(self, path: str) -> None:
        """Let the calls inside a module's children not count as its own."""
        for frame in self.trace.frames:
            if frame.path == path:
                for child in sorted(frame.children):
                    self.rewired(child)

    def try_out(self, example: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Run the model once more, and see that every new upsampler is reached."""
        for key, guide in self.kept.items():
            self.rewired(guide.scope).clears.append(key)
        reached: set[str] = set()
        handles = [
            chain.register_forward_hook(lambda *_, name=name: reached.add(name)) for name, chain in self.chains.items()
        ]
        try:
            with evaluated(self.model), torch.no_grad():
                self.model(*example, **named)
        except Exception as error:
            raise RuntimeError(
                f"swap_: the model does not run with its new upsamplers, and is left as it was: {error}"
            ) from error
        finally:
            for handle in handles:
                handle.remove()
        missed = [name for name in self.chains if name not in reached]
        if missed:
            raise RuntimeError(
                f"swap_: {', '.join(missed)} did not run again on the same example, so its calls cannot be told apart. "
                f"The model is left as it was; leave these out with where=."
            )


def _own(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module._parameters.values() if p is not None]


def note(site: Site, text: str) -> None:
    site.note = "; ".join(part for part in (site.note, text) if part)


def is_rewired(module: nn.Module) -> bool:
    return isinstance(module.__dict__.get("forward"), Rewired)


def release(model: nn.Module) -> None:
    """Take out whatever was put in."""
    for module in list(model.modules()):
        if isinstance(module._modules.get(HOME), Home):
            del module._modules[HOME]
        rewired = module.__dict__.get("forward")
        if isinstance(rewired, Rewired):
            del module.__dict__["forward"]
            if rewired.original is not None:
                module.forward = rewired.original
            for name in rewired.frozen:
                module.get_parameter(name).requires_grad_(True)
