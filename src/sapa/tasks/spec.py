"""Upsamplers as they are written on a command line: `sapa_b:kernel_size=3,border=mask`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from sapa.checks import suggest
from sapa.nn import UPSAMPLERS, Upsampler, build

WORDS = {"true": True, "false": False}

# the paper's Table 6
SWEEPS: dict[str, tuple[Any, ...]] = {
    "similarity": ("inner", "bilinear", "plain", "gated"),
    "normalize": ("none", "softmax", "relu", "sigmoid", "softplus"),
    "kernel_size": (3, 5, 7),
    "embed_dim": (16, 32, 64, 128),
    "border": ("zero", "mask"),
}
OF_SIMILARITY = {"inner": "sapa_i", "bilinear": "sapa_b", "plain": "sapa_p", "gated": "sapa_g"}


@dataclass(frozen=True)
class Spec:
    """An upsampler and its options; `label` is what was written, and names it everywhere."""

    label: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def build(self, channels: int, guide_channels: int | None = None) -> Upsampler:
        return build(self.name, channels, guide_channels, **dict(self.options))


class Factory:
    """Makes the upsamplers of one model. They draw no numbers from the generator that the rest of the model starts
    from, so that everything else begins equal whatever stands at the steps."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec, self.seed, self.made = spec, seed, 0
        self.__name__ = spec.label  # shown where it does not fit a model

    def __call__(self, channels: int, guide_channels: int | None = None) -> Upsampler:
        self.made += 1
        with seeded(1_000_003 * (self.seed + 1) + self.made):
            return self.spec.build(channels, guide_channels)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers of the CPU from a seed, and afterwards as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def parse(text: str) -> Spec:
    """One upsampler, with options after a colon."""
    name, _, rest = text.strip().partition(":")
    if name not in UPSAMPLERS:
        raise KeyError(f"no upsampler {name!r}.{suggest(name, UPSAMPLERS)}")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ValueError(f"{text!r}: {part!r} is no option; write NAME:option=value, as in sapa_b:kernel_size=3.")
        if key.strip() in ("channels", "guide_channels"):
            raise ValueError(f"{text!r}: {key.strip()} follows from the model; leave it out.")
        options[key.strip()] = value_of(value)
    spec = Spec(text.strip(), name, tuple(options.items()))
    try:
        with torch.device("meta"):
            spec.build(64, 64)
    except TypeError as error:
        raise ValueError(f"{text!r}: {error}") from error
    return spec


def parse_all(texts: str | Iterable[str]) -> list[Spec]:
    """Several, separated by commas: a piece with = but without : is one more option of the upsampler before it."""
    pieces = texts.split(",") if isinstance(texts, str) else list(texts)
    joined: list[str] = []
    for piece in filter(None, map(str.strip, pieces)):
        if "=" in piece and ":" not in piece and joined:
            joined[-1] += f",{piece}"
        else:
            joined.append(piece)
    specs = [parse(text) for text in joined]
    labels = [spec.label for spec in specs]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice or not specs:
        raise ValueError(f"{', '.join(twice)} is named twice." if twice else "name at least one upsampler.")
    return specs


def sweep(option: str, base: str = "sapa_b") -> list[Spec]:
    """One option of SAPA in all its forms, as in the ablations of the paper."""
    if option not in SWEEPS:
        raise KeyError(f"no sweep over {option!r}.{suggest(option, SWEEPS)}")
    if option == "similarity":
        name, colon, rest = base.partition(":")
        if name not in OF_SIMILARITY.values():
            raise ValueError(f"a sweep over similarity needs one of {', '.join(OF_SIMILARITY.values())}, got {name!r}.")
        return [parse(OF_SIMILARITY[kind] + colon + rest) for kind in SWEEPS[option]]
    joint = "," if ":" in base else ":"
    return [parse(f"{base}{joint}{option}={value}") for value in SWEEPS[option]]


def value_of(text: str) -> Any:
    """A number, true, false, or the text itself."""
    text = text.strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
