"""see(): one page that shows why an upsampler does what it does."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from sapa.viewer.report import Named


def see(
    image: Any = None,
    upsamplers: "Named | None" = None,
    *,
    x: Tensor | None = None,
    guide: Tensor | None = None,
    model: nn.Module | None = None,
    stage: str | int | None = None,
    output: str | Path = "report.html",
    scale: int = 4,
    size: int = 192,
    colours: Iterable[int] | None = None,
) -> Path:
    """Write a page on which one points at a pixel and sees, for each upsampler, the low-res points it is made of.

    Args:
        image: a photograph: path, PIL image, array [H, W, 3] or tensor [3, H, W]. Its features are random Fourier
            features of the colours, and the low-res map their means over cells. None where x and guide are.
        upsamplers: names in `UPSAMPLERS`, modules, or a dict of names to show and either. A name stands for the module
            before training. None takes those that need none: nearest, bilinear, joint_bilateral and, where both maps
            have the same channels, sapa_i.
        x: decoder map [1, C, h, w] of a network, instead of the features of the photograph.
        guide: its encoder map [1, Cg, H, W].
        model: any model that takes a photograph, to show one of its stages on this one, which it gets with the mean
            and deviation of ImageNet, as most expect. What it does there itself comes first.
        stage: name or number of the stage, as in `sapa.surgery.stages`; the last if None.
        output: a page if it ends in .html; a figure to print if it ends in .png or .pdf.
        scale: S, high-res points in a low-res one along each axis; x and guide have their own.
        size: of the longer side of the high-res map; photographs are shrunk to it.
        colours: one or three channels to paint feature maps with, instead of the first three principal components.

    Returns:
        The path of what was written.

    >>> sapa.see("photo.jpg", ["bilinear", "sapa_i"])
    PosixPath('report.html')
    >>> sapa.see(x=decoder_map, guide=encoder_map, upsamplers={"trained": model.up1, "bilinear": "bilinear"})
    PosixPath('report.html')
    >>> sapa.see("photo.jpg", model=torchvision.models.segmentation.fcn_resnet50(weights="DEFAULT"))
    PosixPath('report.html')
    """
    path = Path(output)
    write = writer(path)
    from sapa.viewer.report import examine, examine_model

    if model is None:
        report = examine(image, upsamplers, x=x, guide=guide, scale=scale, size=size, colours=colours)
    elif image is None or x is not None or guide is not None:
        raise ValueError("see: with a model give an image, and neither x nor guide: the model makes them.")
    else:
        report = examine_model(image, model, stage, upsamplers, size=size, colours=colours)
    write(report, path)
    return path


def writer(path: Path) -> Any:
    """The function that writes a report to a file of this suffix."""
    if path.suffix.lower() not in (".html", ".htm", ".png", ".pdf"):
        raise ValueError(f"see: output must end in .html, .png or .pdf, got {path.name!r}.")
    try:
        if path.suffix.lower() in (".html", ".htm"):
            from sapa.viewer.page import write
        else:
            from sapa.viewer.figures import write
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"see needs {missing.name}: pip install 'sapa[see]'", name=missing.name) from missing
    return write
