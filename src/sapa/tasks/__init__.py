"""Which upsampler is best for a task? Data, metrics, training and comparison. Nothing heavy is imported here."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapa.tasks.task import Task

__all__ = ["TASKS", "address_of", "load"]

# a task is one file and one line here
TASKS = {
    "segmentation": "sapa.tasks.segmentation:Segmentation",
    "detection": "sapa.tasks.detection:Detection",
    "depth": "sapa.tasks.depth:Depth",
    "matting": "sapa.tasks.matting:Matting",
}


def load(name: str) -> "type[Task]":
    """The class of a task, by its name in `TASKS` or by its own address, as in mymodule:MyTask."""
    from sapa.checks import suggest

    address = TASKS.get(name, name)
    home, _, attribute = address.partition(":")
    if not attribute:
        raise KeyError(f"no task {name!r}.{suggest(name, TASKS)} One of your own is given as module:Class.")
    try:
        return getattr(import_module(home), attribute)
    except AttributeError:
        raise KeyError(f"module {home} has no task {attribute!r}.") from None
    except ModuleNotFoundError as missing:
        if missing.name is not None and home.startswith(missing.name):
            raise KeyError(f"no module {missing.name!r}, where the task {name!r} should be.") from None
        text = f"the task {name} needs {missing.name}: pip install 'sapa[tasks]'"
        raise ModuleNotFoundError(text, name=missing.name) from missing


def address_of(task: "type[Task]") -> str:
    """What `load` finds it by."""
    address = f"{task.__module__}:{task.__qualname__}"
    return next((name for name, known in TASKS.items() if known == address), address)
