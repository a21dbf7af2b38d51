"""The page of `see` in a real browser: pointing, keys, fingers, both themes, wide and narrow."""

import re
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import sapa
from sapa.viewer.features import features

CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'sapa[dev]'")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs the browser chromium: apt-get install chromium")

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
SIZE, SCALE, LOW = 64, 4, 16
NAMES = ["bilinear", "sapa_i"]


def photograph() -> np.ndarray:
    """A smooth dark half and a smooth light one, with their border inside a cell, and noise in the lower part."""
    picture = np.empty((SIZE, SIZE, 3), np.uint8)
    picture[:, :30], picture[:, 30:] = (120, 30, 20), (160, 200, 240)
    picture[40:] = picture[40:] // 2 + np.random.default_rng(0).integers(0, 120, (24, SIZE, 3), np.uint8)
    return picture


def kernels() -> torch.Tensor:
    """[25, H, W] of SAPA-I, from its definition."""
    guide = features(torch.from_numpy(photograph()).permute(2, 0, 1)[None] / 255)
    q, k = (F.layer_norm(m.movedim(1, -1), (64,)).movedim(-1, 1) for m in (guide, F.avg_pool2d(guide, SCALE)))
    return sapa.kernels(q, k, border="mask")[0]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("see") / "report.html"
    return sapa.see(photograph(), NAMES, output=path, size=SIZE, scale=SCALE).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Any]:
    """Open the page; at the end nothing may have been said on the console or asked of a network."""
    contexts, complaints = [], []

    def go(fragment: str = "", width: int = 1440, height: int = 900, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        local = ("file:", "data:", "blob:")
        page.on("request", lambda request: request.url.startswith(local) or complaints.append(request.url))
        page.goto(address + fragment)
        page.wait_for_selector("html[data-ready]")
        settle(page)
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def settle(page: Any) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def place(page: Any, row: int, column: int, selector: str = "#photo canvas") -> tuple[float, float]:
    """Where the middle of a pixel is on the screen, while all of the picture is seen."""
    frame = page.locator(selector).bounding_box()
    return frame["x"] + (column + 0.5) / SIZE * frame["width"], frame["y"] + (row + 0.5) / SIZE * frame["height"]


def hover(page: Any, row: int, column: int, selector: str = "#photo canvas") -> None:
    page.mouse.move(*place(page, row, column, selector))
    settle(page)


def shown(page: Any, name: str) -> torch.Tensor:
    """The weights in the table of an upsampler, NaN where it has none: [5, 5]."""
    cells = page.locator(f'.card[data-name="{name}"] .kernel [role=cell]')
    values = cells.evaluate_all("(cells) => cells.map((cell) => cell.dataset.weight ?? 'nan')")
    return torch.tensor([float(value) for value in values]).view(5, 5)


def where(page: Any) -> tuple[int, int]:
    row, column = re.findall(r"row (\d+), column (\d+)", page.locator("#where").inner_text())[0]
    return int(row), int(column)


def test_pointing_shows_the_kernel_of_the_point(visit: Any) -> None:
    page, w = visit(), kernels()
    for point in ((20, 28), (20, 33), (8, 10), (50, 37), (0, 0), (63, 63)):
        hover(page, *point)
        assert where(page) == point
        expected = w[:, point[0], point[1]].view(5, 5)
        torch.testing.assert_close(shown(page, "sapa_i"), expected, atol=2e-5, rtol=0, msg=f"at {point}")
        texts = page.locator('.card[data-name="sapa_i"] .kernel [role=cell]').all_inner_texts()
        read = torch.tensor([float(text) for text in texts]).view(5, 5)
        torch.testing.assert_close(read, expected, atol=6e-4, rtol=0, msg=f"as text, at {point}")


def test_two_upsamplers_at_one_point(visit: Any) -> None:
    """Bilinear has the weights of its phase everywhere; SAPA splits at the edge, and is flat where all is alike."""
    page = visit()
    hover(page, 20, 31)  # column 31 is the last of its cell: 3/8 beyond the middle
    row, column = torch.tensor([0.375, 0.625, 0]), torch.tensor([0, 0.625, 0.375])
    bilinear = shown(page, "bilinear")
    torch.testing.assert_close(bilinear[1:4, 1:4], torch.outer(row, column), atol=2e-5, rtol=0)
    assert int(bilinear.isnan().sum()) == 16
    assert float(shown(page, "sapa_i")[:, :2].sum()) < 1e-3, "nothing from the dark side, which ends in column 29"
    hover(page, 20, 8)
    torch.testing.assert_close(shown(page, "sapa_i"), torch.full((5, 5), 0.04), atol=1e-4, rtol=0)
    assert "flat: all near 1/25" in page.locator('.card[data-name="sapa_i"]').inner_text()
    assert float(shown(page, "bilinear").nan_to_num().max()) > 0.3


def test_taps_outside_the_map_are_marked(visit: Any) -> None:
    page = visit()
    hover(page, 0, 0)
    assert page.locator('.card[data-name="sapa_i"] .outside').count() == 25 - 9
    hover(page, 30, 30, '.card[data-name="sapa_i"] canvas')
    assert where(page) == (30, 30), "every map can be pointed at"
    assert page.locator(".outside").count() == 0


def test_keys(visit: Any) -> None:
    page = visit("#p=20,20")
    press = page.keyboard.press
    press("ArrowRight")
    press("ArrowUp")
    press("Shift+ArrowDown")
    settle(page)
    assert where(page) == (23, 21)
    torch.testing.assert_close(shown(page, "sapa_i"), kernels()[:, 23, 21].view(5, 5), atol=2e-5, rtol=0)
    press("p")
    press("Shift+ArrowLeft")
    press("Enter")
    settle(page)
    chips = page.locator(".chip")
    assert [chip.get_attribute("href") for chip in chips.all()] == ["#p=23,21", "#p=23,17"]
    press("Delete")
    settle(page)
    assert chips.count() == 1
    page.wait_for_function("location.hash === '#p=23,17'")
    press("1")
    settle(page)
    assert page.locator(".card.chosen").get_attribute("data-name") == "bilinear"
    assert page.locator("#loupe figcaption").inner_text() == "what bilinear draws from"
    press("?")
    assert page.locator("#keys").is_visible()
    press("Escape")
    assert not page.locator("#keys").is_visible()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    press("Tab")
    assert page.evaluate("document.activeElement !== document.body && document.activeElement.tagName !== 'CANVAS'")


def test_zoom_and_pan(visit: Any) -> None:
    page = visit("#p=32,32")
    page.locator("#zoom-in").click()
    page.locator("#zoom-in").click()  # 2.25 times, around the point
    settle(page)
    assert page.locator("#zoom-reset").inner_text() == "2.3\u00d7"
    # the point stays where it was, so the middle of what is seen moves away from it
    middle = 32.5 + (32 - 32.5) / 2.25
    frame = page.locator("#photo canvas").bounding_box()
    page.mouse.move(frame["x"] + 2, frame["y"] + 2)
    settle(page)
    corner = int(middle - 32 / 2.25 + 2 / frame["width"] * SIZE / 2.25)
    assert where(page) == (corner, corner)
    page.mouse.down()
    page.mouse.move(frame["x"] + 2 + frame["width"] / 4, frame["y"] + 2, steps=3)
    page.mouse.up()
    page.mouse.move(frame["x"] + frame["width"] - 2, frame["y"] + 2)
    settle(page)
    assert where(page)[1] < 45, "dragging to the right shows what lies further left"
    page.mouse.wheel(0, -300)
    settle(page)
    assert float(page.locator("#zoom-reset").inner_text()[:-1]) > 2.3
    page.keyboard.press("0")
    settle(page)
    assert page.locator("#zoom-reset").inner_text() == "1\u00d7"


def test_a_click_holds_the_point(visit: Any) -> None:
    page = visit()
    page.mouse.click(*place(page, 12, 40))
    hover(page, 50, 5)
    assert where(page) == (12, 40)
    page.keyboard.press("Escape")
    hover(page, 51, 5)
    assert where(page) == (51, 5)


def test_suggestions_and_pins(visit: Any) -> None:
    page = visit()
    places = []
    for name in ("an edge", "its other side", "flat"):
        page.get_by_role("button", name=name, exact=True).click()
        page.locator("#pin").click()
        settle(page)
        places.append(where(page))
    assert len(set(places)) == 3
    assert page.locator(".pin").count() == 3
    assert page.locator(".pin .tiny").count() == 3 * len(NAMES)
    page.locator(".chip").first.click()
    settle(page)
    assert where(page) == places[0]
    page.get_by_role("button", name="Remove pin 2").click()
    settle(page)
    assert page.locator(".pin").count() == 2


def test_kernel_maps(visit: Any) -> None:
    page = visit("#p=20,33")
    w = kernels()
    value = page.locator("#kernel-maps figure", has_text="sapa_i").locator(".value")
    value.scroll_into_view_if_needed()
    assert abs(float(value.inner_text()) - float(w[0, 20, 33])) < 1e-3, "the top left weight at first"
    page.get_by_role("radio", name="1 down, 2 right").click()
    settle(page)
    assert abs(float(value.inner_text()) - float(w[3 * 5 + 4, 20, 33])) < 1e-3
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert abs(float(value.inner_text()) - float(w[3 * 5 + 3, 20, 33])) < 1e-3
    page.get_by_role("radio", name="entropy").click()
    settle(page)
    share = w[:, 20, 33].double()
    bits = float(-(share * share.clamp_min(1e-12).log2()).sum())
    assert abs(float(value.inner_text()) - bits) < 6e-3
    # bright where kernels are flat, dark along the edge
    source = page.locator("#kernel-maps figure", has_text="sapa_i").locator("canvas")
    lightness = source.evaluate(
        """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return [[8, 20], [8, 31]].map(([row, column]) => {
            const at = (place, size) => Math.floor(((place + 0.5) / 64) * size);
            const start = 4 * (at(row, canvas.height) * canvas.width + at(column, canvas.width));
            return data[start] + data[start + 1] + data[start + 2];
          });
        }"""
    )
    assert lightness[0] > lightness[1] + 60


def test_a_link_leads_to_its_point(visit: Any) -> None:
    page = visit("#p=7,9")
    assert where(page) == (7, 9)
    page.evaluate("location.hash = '#p=11,60'")
    page.wait_for_function("document.getElementById('where').textContent.startsWith('row 11, column 60')")
    page.evaluate("location.hash = '#p=700,60'")
    settle(page)
    assert where(page) == (11, 60), "a place that is not there"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone(visit: Any, theme: str) -> None:
    page = visit(width=400, height=800, color_scheme=theme, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.touchscreen.tap(*place(page, 20, 50))
    settle(page)
    assert where(page) == (20, 50)
    torch.testing.assert_close(shown(page, "sapa_i"), kernels()[:, 20, 50].view(5, 5), atol=2e-5, rtol=0)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", colour)[0]) < 60) == (theme == "dark")
    page.locator('.card[data-name="sapa_i"]').scroll_into_view_if_needed()
    page.mouse.wheel(0, 200)
    settle(page)
    assert page.locator("#photo canvas").bounding_box()["y"] >= 0, "the photograph stays in sight"


def test_everything_can_be_reached_and_has_a_name(visit: Any) -> None:
    page = visit()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, a, canvas[role], [role=table]")]
          .filter((e) => !(e.getAttribute("aria-label") || e.textContent).trim()).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    stops = page.evaluate("[...document.querySelectorAll('[role=radio]')].filter((e) => e.tabIndex === 0).length")
    assert stops == 2, "one for each group"
    assert page.evaluate("typeof makeState + typeof start + typeof RAMP") == "undefined" * 3, "no globals"
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.getElementById('spoken').textContent.startsWith('Row ')")


def test_names_are_text(browser: Any, tmp_path: Path) -> None:
    names = {"<img src=x onerror=document.title='bad'>": "nearest"}
    path = sapa.see(photograph(), names, output=tmp_path / "r.html", size=SIZE)
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".choose").inner_text().endswith(next(iter(names)))
    assert page.locator("img").count() == 0
    assert "bad" not in page.title()
    page.close()
