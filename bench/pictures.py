"""The pictures of docs/upsamplers.md, one for each upsampler, and of docs/guided.md: `python -m bench.pictures`."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from skimage import data
from torch import Tensor

from sapa import UPSAMPLERS, assemble, build
from sapa.demo import motorcycle
from sapa.viewer.features import features, painter

FOLDER = Path(__file__).parents[1] / "docs" / "img" / "upsamplers"
SCALE, CHANNELS = 4, 128  # dysample_s has 8 groups of channels in each of the 4*4 points of a cell
TOP, LEFT, SIDE = 32, 128, 256  # of the photograph that is shown, halved: the face of the astronaut
POINT = (84, 80)  # row and column in the high-res map: the wall, just beside the collar
REACH = 3  # low-res points to each side of the one under POINT: wider than all windows, so that they can be compared
ZOOM, GAP, COLOURS = 2, 8, 96
POSITIVE, NEGATIVE = torch.tensor([0.0, 0.27, 0.53]), torch.tensor([0.84, 0.37, 0.0])


def main() -> None:
    guided = motorcycle.lift().picture()
    guided.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(FOLDER.with_name("guided.png"), optimize=True)
    photo = torch.from_numpy(data.astronaut()).permute(2, 0, 1)[None].float() / 255
    photo = F.avg_pool2d(photo[..., TOP : TOP + SIDE, LEFT : LEFT + SIDE], 2)
    guide = features(photo, CHANNELS)  # [1, C, H, W]
    x = F.avg_pool2d(guide, SCALE)  # [1, C, h, w]
    colours = painter(guide)
    FOLDER.mkdir(parents=True, exist_ok=True)
    save("input", photo[0].permute(1, 2, 0), colours(x))
    for name in UPSAMPLERS:
        torch.manual_seed(0)
        up = build(name, CHANNELS, scale=SCALE).eval()
        with torch.no_grad():
            y = up(x, guide)
        save(name, turned(y, colours(guide)), shade(weights(up, x, guide)))


def weights(up: Any, x: Tensor, guide: Tensor) -> Tensor:
    """What each low-res point around POINT adds to it, [7, 7]: the derivative by x, all channels taken together."""
    x = x.clone().requires_grad_()
    if hasattr(up, "kernels"):
        # kernels that are made from x have a derivative of their own, which is no weight
        y = assemble(x, up.kernels(x, guide).detach(), groups=getattr(up, "groups", 1))
    else:
        y = up(x, guide)
    (gradient,) = torch.autograd.grad(y[0, :, POINT[0], POINT[1]].mean(), x)
    row, column = (n // SCALE for n in POINT)
    return gradient[0].sum(0)[row - REACH : row + REACH + 1, column - REACH : column + REACH + 1]


def turned(y: Tensor, target: Tensor) -> Tensor:
    """The linear combinations of its channels that come nearest to these colours, as a learned layer may mix them."""
    points = F.pad(y[0].flatten(1).T, (0, 1), value=1.0)  # [H*W, C + 1]
    # smooth features depend on each other almost linearly: the directions that are noise are left out
    fit = torch.linalg.lstsq(points, target.flatten(0, 1), driver="gelsd", rcond=1e-3).solution
    return (points @ fit).clamp(0, 1).view_as(target)


def shade(w: Tensor) -> Tensor:
    """White for 0, blue for positive weights and orange for negative ones; the largest is full."""
    strength = (w / w.abs().max().clamp_min(1e-12))[..., None]
    return 1 - strength.clamp_min(0) * (1 - POSITIVE) - (-strength).clamp_min(0) * (1 - NEGATIVE)


def save(name: str, left: Tensor, right: Tensor) -> None:
    """A map with the window around POINT framed, and beside it a second map of the same size on the page."""
    side = ZOOM * left.shape[0]
    canvas = Image.new("RGB", (2 * side + GAP, side), "white")
    for i, pixels in enumerate((left, right)):
        image = Image.fromarray((pixels.numpy() * 255).round().astype(np.uint8))
        canvas.paste(image.resize((side, side), Image.Resampling.NEAREST), (i * (side + GAP), 0))
    draw = ImageDraw.Draw(canvas)
    top, start = (ZOOM * SCALE * (n // SCALE - REACH) for n in POINT)
    extent = ZOOM * SCALE * (2 * REACH + 1)
    draw.rectangle((start, top, start + extent, top + extent), outline="white", width=2)
    y, x = (ZOOM * n for n in POINT)
    draw.rectangle((x - 2, y - 2, x + ZOOM + 1, y + ZOOM + 1), outline="black", fill="white")
    draw.rectangle((side + GAP, 0, 2 * side + GAP - 1, side - 1), outline="grey")
    canvas.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
