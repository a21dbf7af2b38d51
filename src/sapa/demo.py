"""The first minute: one photograph, its features at 1/8, and what three upsamplers make of them. No training."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from skimage import data
from torch import Tensor

from sapa.nn import build

SCALE = 8
CHANNELS = 64
ZOOM = (0.25, 0.02, 0.61, 0.38)  # left, top, right, bottom, as parts of the photograph
TITLES = {"nearest": "nearest", "bilinear": "bilinear", "sapa_i": "SAPA-I, no parameters"}
SIDE, MARGIN, CAPTION = 320, 8, 28


@dataclass
class Demo:
    picture: Image.Image
    errors: dict[str, float]  # mean absolute error of each upsampler against the features at full size


def run() -> Demo:
    """Shrink the features of the astronaut, enlarge them again, and draw the results side by side."""
    photo = torch.from_numpy(data.astronaut()).permute(2, 0, 1)[None].float() / 255
    full = features(photo)  # [1, C, H, W]
    x = F.avg_pool2d(full, SCALE)  # [1, C, h, w]
    with torch.inference_mode():
        results = {
            "nearest": build("nearest", CHANNELS)(x, full),
            "bilinear": build("bilinear", CHANNELS)(x, full),
            "sapa_i": build("sapa_i", CHANNELS, border="mask")(x, full),
        }
    paint = painter(full)
    errors = {name: float((y - full).abs().mean()) for name, y in results.items()}
    columns = [("photograph", photo[0].permute(1, 2, 0))]
    columns += [(f"{TITLES[name]}: error {errors[name]:.3f}", paint(y)) for name, y in results.items()]
    return Demo(compose(columns), errors)


def features(photo: Tensor) -> Tensor:
    """Random Fourier features: their inner product falls with the distance of two colours, as of trained features."""
    generator = torch.Generator().manual_seed(0)
    directions = 3 * torch.randn(CHANNELS, 3, 1, 1, generator=generator)
    phases = 2 * torch.pi * torch.rand(CHANNELS, generator=generator)
    return torch.cos(F.conv2d(photo, directions, phases))


def painter(reference: Tensor):
    """Colours for feature maps: their first three principal components, fitted once so that maps can be compared."""
    points = reference[0].flatten(1)  # [C, H*W]
    mean = points.mean(1, keepdim=True)
    components = torch.linalg.eigh(torch.cov(points)).eigenvectors[:, -3:].T  # [3, C]
    levels = torch.quantile((components @ (points - mean))[:, ::16], torch.tensor([0.01, 0.99]), dim=1)  # [2, 3]

    def paint(y: Tensor) -> Tensor:
        projected = components @ (y[0].flatten(1) - mean)
        colours = (projected - levels[0, :, None]) / (levels[1] - levels[0])[:, None]
        return colours.clamp(0, 1).T.unflatten(0, y.shape[-2:])  # [H, W, 3]

    return paint


def compose(columns: list[tuple[str, Tensor]]) -> Image.Image:
    """One column a map: the whole above, a part enlarged below, the title under both."""
    step = SIDE + MARGIN
    canvas = Image.new("RGB", (MARGIN + len(columns) * step, MARGIN + 2 * step + CAPTION), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=18)
    for i, (title, pixels) in enumerate(columns):
        whole = Image.fromarray((pixels.numpy() * 255).round().astype(np.uint8))
        left, top, right, bottom = (part * side for part, side in zip(ZOOM, 2 * whole.size, strict=True))
        part = whole.resize((SIDE, SIDE), Image.Resampling.NEAREST, box=(left, top, right, bottom))
        x = MARGIN + i * step
        canvas.paste(whole.resize((SIDE, SIDE), Image.Resampling.LANCZOS), (x, MARGIN))
        canvas.paste(part, (x, MARGIN + step))
        frame = [part * SIDE + edge for part, edge in zip(ZOOM, (x, MARGIN, x, MARGIN), strict=True)]
        draw.rectangle(frame, outline="white", width=2)
        draw.text((x + SIDE / 2, MARGIN + 2 * step + CAPTION / 2 - 6), title, "black", font, anchor="mm")
    return canvas


def save(path: Path) -> Demo:
    demo = run()
    path.parent.mkdir(parents=True, exist_ok=True)
    demo.picture.save(path)
    return demo
