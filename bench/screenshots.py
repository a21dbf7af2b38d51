"""The pictures of docs/see.md, taken of the page itself: `python -m bench.screenshots`; needs chromium."""

from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import sync_playwright
from skimage import data

import sapa

FOLDER = Path(__file__).parents[1] / "docs" / "img" / "see"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        pages = {}
        for name in ("astronaut", "chelsea", "coffee"):
            photo = Path(folder, f"{name}.png")
            Image.fromarray(getattr(data, name)()).save(photo)
            pages[name] = sapa.see(photo, output=Path(folder, f"{name}.html")).as_uri()
        browser = driver.chromium.launch(executable_path=which("chromium"), args=FLAGS)

        def visit(name: str, width: int, height: int, theme: Literal["light", "dark"]) -> Any:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            page.goto(pages[name])
            page.wait_for_selector("html[data-ready]")
            page.evaluate("document.activeElement.blur()")
            return page

        page = visit("astronaut", 1440, 960, "light")
        save(page, "explorer")
        page = visit("chelsea", 1440, 820, "dark")
        for _ in range(3):
            page.locator("#zoom-in").click()
        page.evaluate("document.querySelector('.explorer').scrollIntoView()")
        page.evaluate("document.activeElement.blur()")
        save(page, "zoom")
        page = visit("coffee", 1440, 560, "light")
        page.get_by_role("radio", name="entropy").click()
        page.evaluate("document.activeElement.blur()")
        page.evaluate("document.getElementById('maps-title').scrollIntoView()")
        save(page, "kernel-maps")
        page = visit("chelsea", 400, 800, "light")
        page.evaluate("document.querySelector('.card[data-name=sapa_i]').scrollIntoView({ block: 'end' })")
        save(page, "phone")
        browser.close()


def save(page: Any, name: str) -> None:
    page.wait_for_timeout(300)
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as image:
        image = image.convert("RGB")
    palette = image.quantize(256, kmeans=2)
    image.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(path, optimize=True)


if __name__ == "__main__":
    main()
