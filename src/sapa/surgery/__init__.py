"""Put other upsamplers into a model you already have, in that one instance, and take them out again."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from sapa.checks import names as listed
from sapa.checks import suggest
from sapa.nn import UPSAMPLERS, needs_guide
from sapa.surgery.guides import sites_of
from sapa.surgery.install import Surgeon, is_rewired, release
from sapa.surgery.sites import Guide, Site, Sites
from sapa.surgery.trace import Trace, leaves, record

__all__ = ["Guide", "Site", "Sites", "find", "restore_", "swap_"]

Where = str | Iterable[str] | Callable[[Site], bool]


def find(model: nn.Module, *example: Any, kwargs: Mapping[str, Any] | None = None) -> Sites:
    """List where a model makes maps larger, and which of its own maps could guide that.

    The model runs once on the example, in evaluation mode, and is left as it was. `print(sapa.find(model, x))` shows
    a table; each entry is a `Site`. Inputs that the model takes by name go into `kwargs`.

    >>> sapa.find(model, torch.randn(1, 3, 224, 224))
    """
    return sites_of(_record("find", model, example, kwargs or {}))


def swap_(
    model: nn.Module,
    name: str,
    *example: Any,
    where: Where | None = None,
    guide: Mapping[str, str] | None = None,
    unguided: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Sites:
    """Let other upsamplers do the work of a model's own, in this instance only; `restore_` undoes it.

    A site keeps its operator if nothing can guide it, and the result says so. A step of 4 or more becomes a chain
    where the model has maps of the sizes in between. The new parameters lie in a child `sapa` of the module whose
    forward makes the call; all others keep their names.

    Args:
        model: changed in place. Swap before you wrap it in DDP, compile it, or hand its parameters to an optimizer.
        name: of the upsampler, in `sapa.UPSAMPLERS`.
        example: inputs the model can run on.
        where: names of sites, with * and ?, or a function of a `Site`. None takes all but those that only spread a
            pooled map.
        guide: name of a site to the name of the guide it takes, both as `find` prints them.
        unguided: the upsampler for sites without a guide. None keeps their operator.
        kwargs: inputs of the example that the model takes by name.
        options: of the upsampler, such as `kernel_size=3` or `prior="bilinear"`.

    Returns:
        All sites with what stands in their place in `swapped`; prints as a table.

    >>> print(sapa.swap_(model, "sapa_g", torch.randn(1, 3, 224, 224)))
    """
    for given in (name, *([unguided] if unguided else [])):
        if given not in UPSAMPLERS:
            raise KeyError(f"no upsampler {given!r}.{suggest(given, UPSAMPLERS)}")
    if unguided and needs_guide(unguided):
        raise ValueError(f"swap_: {unguided!r} needs a guide, and cannot serve where there is none.")
    for option in ("channels", "guide_channels", "scale"):
        if option in options:
            raise TypeError(f"swap_: {option} follows from the maps of the model; leave it out.")
    trace = _record("swap_", model, example, kwargs or {})
    sites = sites_of(trace)
    chosen = _chosen(sites, where)
    _choose_guides(sites, guide or {})
    surgeon = Surgeon(model, trace)
    try:
        with torch.inference_mode(False):  # in which parameters could not be trained later
            for site in chosen:
                surgeon.swap(site, name, unguided, options)
            if not any(site.swapped for site in sites):
                reasons = "\n".join(f"  {site.name}: {site.note}" for site in chosen)
                raise ValueError(f"swap_: nothing could be swapped:\n{reasons}")
            surgeon.try_out(example, kwargs or {})
    except BaseException:
        release(model)
        raise
    return sites


def restore_(model: nn.Module) -> nn.Module:
    """Give a model its own upsampling back; the new parameters are dropped. Works on copies, too."""
    release(model)
    return model


def _record(function: str, model: nn.Module, example: tuple[Any, ...], named: Mapping[str, Any]) -> Trace:
    if not isinstance(model, nn.Module):
        raise TypeError(f"{function}: give a module, got {type(model).__name__}.")
    if isinstance(model, nn.DataParallel):
        raise TypeError(
            f"{function}: the copies that DataParallel makes on other devices would run the forward of the first. Give "
            f"model.module, and wrap it in DistributedDataParallel afterwards."
        )
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise TypeError(f"{function}: give model.module, and wrap it in DistributedDataParallel afterwards.")
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod") or _is_compiled(module):
            what = f"its part {path}" if path else "the model"
            raise TypeError(
                f"{function}: {what} is compiled. Find and swap before torch.compile; of a scripted model, give the "
                f"original."
            )
    if any(is_rewired(module) for module in model.modules()):
        raise ValueError(f"{function}: the upsampling of this model was swapped before; call restore_(model) first.")
    try:
        return record(model, example, named)
    except Exception as error:
        given = ", ".join(str(list(x.shape)) for _, x in leaves((example, named))) or "no tensors"
        raise ValueError(
            f"{function}: {type(model).__name__} cannot run on the example ({given}): {type(error).__name__}: {error}"
        ) from error


def _is_compiled(module: nn.Module) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None


def _chosen(sites: Sites, where: Where | None) -> list[Site]:
    if not sites:
        raise ValueError("swap_: on this example the model makes no map [B, C, h, w] larger; there is nothing to swap.")
    if where is None:
        return [site for site in sites if not site.is_pooled]
    if callable(where):
        found = [site for site in sites if where(site)]
    else:
        patterns = [where] if isinstance(where, str) else list(where)
        for pattern in patterns:
            if not any(_matches(site, pattern) for site in sites):
                raise ValueError(f"swap_: no site {pattern!r}.{suggest(pattern, [site.name for site in sites])}")
        found = [site for site in sites if any(_matches(site, pattern) for pattern in patterns)]
    if not found:
        raise ValueError(f"swap_: where= chooses none of the sites {listed(site.name for site in sites)}.")
    return found


def _matches(site: Site, pattern: str) -> bool:
    # the brackets of a name are no pattern
    return site.name == pattern or fnmatchcase(site.name, pattern.replace("[", "[[]"))


def _choose_guides(sites: Sites, guide: Mapping[str, str]) -> None:
    for pattern, name in guide.items():
        found = [site for site in sites if _matches(site, pattern)]
        if not found:
            raise ValueError(f"swap_: guide= names no site {pattern!r}.{suggest(pattern, [s.name for s in sites])}")
        for site in found:
            chosen = tuple(candidate for candidate in site.guides if candidate.name == name)
            if not chosen:
                known = [candidate.name for candidate in site.guides]
                hint = suggest(name, known) if known else " There is none."
                raise ValueError(f"swap_: {site.name} has no possible guide {name!r}.{hint}")
            site.guides = chosen
