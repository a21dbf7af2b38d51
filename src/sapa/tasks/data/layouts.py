"""Which layout is in a folder, and a split of it."""

from collections.abc import Iterable
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

from sapa.checks import one_of
from sapa.tasks.data.hub import PREFIX, Hub
from sapa.tasks.data.sample import Data
from sapa.tasks.data.scenes import KINDS, Scenes

# each module has TASKS, SIGN (what it looks for), is_here(root) and open_split(task, root, split, options); the first
# that is there counts, so the particular ones come first
LAYOUTS = {
    "camvid": "sapa.tasks.data.camvid",
    "ade20k": "sapa.tasks.data.ade20k",
    "coco": "sapa.tasks.data.coco",
    "nyu_lists": "sapa.tasks.data.nyu_lists",
    "nyu_labelled": "sapa.tasks.data.nyu_labelled",
    "nyu_frames": "sapa.tasks.data.nyu_frames",
    "sunrgbd": "sapa.tasks.data.sunrgbd",
    "sunrgbd_labels": "sapa.tasks.data.sunrgbd_labels",
    "composition1k": "sapa.tasks.data.composition1k",
    "alphamatting": "sapa.tasks.data.alphamatting",
    "folder": "sapa.tasks.data.folder",
}
BUILTIN = "builtin"
# the validation scenes are none of those that are trained on
SEEDS = {"train": 0, "val": 1, "test": 2}


def detect(path: str | Path) -> str:
    """The name of the layout in a folder."""
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(f"{root}: there is no such folder.")
    for name in LAYOUTS:
        if _module(name).is_here(root):
            return name
    signs = "\n".join(f"  {name}: {_module(name).SIGN}" for name in LAYOUTS)
    raise ValueError(f"{root}: has no layout that is known. Looked for\n{signs}")


def open_data(task: str, path: str | Path | None = None, split: str = "train", **options: Any) -> Data | Hub:
    """The data of a task.

    Args:
        task: segmentation, detection, depth or matting.
        path: a folder, in any of `LAYOUTS`; hub:NAME for a set of the Hugging Face hub, which is streamed; None or
            "builtin" for scenes drawn on the spot. Options can follow: FOLDER?backgrounds=OTHER&copies=4.
        split: train, val or test; where a set has no validation part, val is its test part.
        options: of the layout; `layout` itself, where a folder fits several.

    >>> data = open_data("segmentation", "CamVid", "train")
    >>> data[0]["mask"].shape, data.classes
    """
    one_of("open_data", "task", task, KINDS)
    one_of("open_data", "split", split, SEEDS)
    text, _, query = str(path or BUILTIN).partition("?")
    options = dict(parse_qsl(query, strict_parsing=bool(query))) | options
    if text == BUILTIN:
        _check(text, "the built-in scenes", options, () if query else signature(Scenes).parameters)
        return Scenes(task, **{"length": 400, "seed": SEEDS[split], **options})
    if text.startswith(PREFIX):
        _check(text, "a set of the hub", options, [*signature(Hub).parameters][3:])
        return Hub(task, text.removeprefix(PREFIX), split, **options)
    name = options.pop("layout", None) or detect(text)
    one_of("open_data", "layout", name, LAYOUTS)
    module = _module(name)
    if task not in module.TASKS:
        raise ValueError(f"{text}: is {name}, which has {' and '.join(module.TASKS)}, not {task}.")
    _check(text, name, options, [*signature(module.open_split).parameters][3:])
    found: Data = module.open_split(task, Path(text), split, **options)
    if not len(found):
        raise FileNotFoundError(f"{text}: is {name}, but has no images for {split}.")
    return found


def _check(path: str, what: str, options: Iterable[str], known: Iterable[str]) -> None:
    for option in options:
        if option not in known:
            found = ", ".join(known) or "none"
            raise ValueError(f"{path}: is {what}, which has no option {option!r} here. Available: {found}.")


def _module(name: str) -> ModuleType:
    return import_module(LAYOUTS[name])
