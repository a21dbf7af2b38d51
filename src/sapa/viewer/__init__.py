"""see(): one page that shows why an upsampler does what it does."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from sapa.viewer.report import Named


def see(
    image: Any = None,
    upsamplers: "Named" = ("nearest", "bilinear", "joint_bilateral", "sapa_i"),
    *,
    x: Tensor | None = None,
    guide: Tensor | None = None,
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
            before training.
        x: decoder map [1, C, h, w] of a network, instead of the features of the photograph.
        guide: its encoder map [1, Cg, H, W].
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
    """
    path = Path(output)
    write = writer(path)
    from sapa.viewer.report import examine

    write(examine(image, upsamplers, x=x, guide=guide, scale=scale, size=size, colours=colours), path)
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
