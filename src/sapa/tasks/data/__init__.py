"""Data of the four tasks: readers of the published layouts, scenes drawn on the spot, augmentations and batches."""

from sapa.tasks.data.augment import augment
from sapa.tasks.data.collate import collate
from sapa.tasks.data.hub import Hub
from sapa.tasks.data.layouts import LAYOUTS, detect, open_data
from sapa.tasks.data.sample import IGNORE, BadSample, Data, Sample
from sapa.tasks.data.scenes import Scenes

__all__ = [
    "IGNORE",
    "LAYOUTS",
    "BadSample",
    "Data",
    "Hub",
    "Sample",
    "Scenes",
    "augment",
    "collate",
    "detect",
    "open_data",
]
