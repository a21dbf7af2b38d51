"""Pictures side by side, each with its title and the same part of it enlarged."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

WIDTH, MARGIN, CAPTION = 400, 8, 30

Part = tuple[float, float, float, float]  # left, top, right, bottom, as parts of the picture


def compose(columns: list[tuple[str, Tensor]], zoom: Part) -> Image.Image:
    """One column a picture [H, W, 3]: the whole above, the part below, the title under both."""
    H, W, _ = columns[0][1].shape
    left, top, right, bottom = zoom
    tall, deep = round(WIDTH * H / W), round(WIDTH * (bottom - top) * H / ((right - left) * W))
    step = WIDTH + MARGIN
    canvas = Image.new("RGB", (MARGIN + len(columns) * step, tall + deep + 3 * MARGIN + CAPTION), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=20)
    for i, (title, pixels) in enumerate(columns):
        whole = Image.fromarray((pixels.numpy() * 255).round().astype(np.uint8))
        box = (left * W, top * H, right * W, bottom * H)
        x = MARGIN + i * step
        canvas.paste(whole.resize((WIDTH, tall), Image.Resampling.LANCZOS), (x, MARGIN))
        canvas.paste(whole.resize((WIDTH, deep), Image.Resampling.NEAREST, box=box), (x, 2 * MARGIN + tall))
        frame = (x + left * WIDTH, MARGIN + top * tall, x + right * WIDTH, MARGIN + bottom * tall)
        draw.rectangle(frame, outline="white", width=2)
        draw.text((x + WIDTH / 2, tall + deep + 2 * MARGIN + CAPTION / 2), title, "black", font, anchor="mm")
    return canvas
