"""The pictures of docs/results.md: what upsamplers predict, beside the truth."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from bench import report
from bench.experiments import EXPERIMENTS
from sapa.tasks.compare import run_folder
from sapa.tasks.pictures import read_pictures

HOME = report.ROOT / "docs" / "img" / "results"
GAP, HEAD, WIDTH = 4, 36, 200


def draw(name: str, folder: Path) -> None:
    """Two rows for each sample: image, truth and predictions; the errors below."""
    experiment = EXPERIMENTS[name]
    if not experiment.pictured:
        return
    rows: list[list[Image.Image | None]] = []
    shown = {label: read_pictures(run_folder(folder, label, 0)) for label in experiment.pictured}
    for i in experiment.samples:
        first = shown[experiment.pictured[0]][i]
        last = list(first)[-1]  # the error, or where there is none the prediction
        rows.append(
            [opened(first["image"]), opened(first["truth"]), *(opened(p[i]["prediction"]) for p in shown.values())]
        )
        if last != "prediction":
            rows.append([None, None, *(opened(pictures[i][last]) for pictures in shown.values())])
    heights = [max(picture.height for picture in row if picture is not None) for row in rows]
    sheet = Image.new("RGB", (len(rows[0]) * (WIDTH + GAP) - GAP, HEAD + sum(heights) + GAP * (len(rows) - 1)), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=12)
    for j, title in enumerate(("image", "truth", *experiment.pictured)):
        pen.text((j * (WIDTH + GAP), 3), title.replace(":", ":\n", 1), fill="black", font=font)  # options below
    top = HEAD
    for row, height in zip(rows, heights, strict=True):
        for j, picture in enumerate(row):
            if picture is not None:
                sheet.paste(picture, (j * (WIDTH + GAP), top))
        top += height + GAP
    HOME.mkdir(parents=True, exist_ok=True)
    sheet.save(HOME / f"{name}.jpg", quality=88, optimize=True)


def opened(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB").resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.BICUBIC)
