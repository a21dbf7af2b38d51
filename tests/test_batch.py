"""sapa upsample, as a person runs it: pairs, results, refusals, interruptions and exit codes."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import OpenEXR
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import sapa
from sapa.batch.options import Options, parse_invalid, parse_memory, parse_size
from sapa.batch.pairs import Pair, UsageError, plan
from sapa.batch.pool import run_in_processes
from sapa.cli import app

COMMAND = str(Path(sys.executable).with_name("sapa"))
DEPTH = 40_123


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def depth(path: str, value: int = DEPTH, size: tuple[int, int] = (6, 8)) -> None:
    """A 16-bit map of one value, which any mean leaves as it is."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(size, value, np.uint16)).save(path)


def photo(path: str, size: tuple[int, int] = (24, 32)) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 255, (*size, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)


def pixels(path: str | Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


class Said(NamedTuple):
    stdout: str
    stderr: str


def upsample(*arguments: str, code: int = 0) -> Said:
    result = CliRunner().invoke(app, ["upsample", *arguments, "--jobs", "1"])
    assert result.exit_code == code, result.output + repr(result.exception)
    assert "Traceback" not in result.output
    return Said(result.stdout, result.stderr)


def parts(folder: Path) -> list[Path]:
    return list(folder.rglob("*.sapa-part"))


def test_one_map_keeps_its_16_bits(folder: Path) -> None:
    depth("depth.png")
    photo("photo.jpg")
    result = upsample("depth.png", "--guide", "photo.jpg", "-o", "new/out.png")
    assert result.stdout == "Written to new/out.png\n"
    found = pixels("new/out.png")
    assert found.dtype == np.uint16
    assert found.shape == (24, 32)
    assert (found == DEPTH).all()


def test_size_and_type_of_the_result(folder: Path) -> None:
    depth("depth.png")
    photo("photo.jpg")
    upsample("depth.png", "-g", "photo.jpg", "-o", "out.npy", "--size", "18x24")
    assert np.load("out.npy").dtype == np.uint16
    assert np.load("out.npy").shape == (18, 24)
    upsample("depth.png", "-g", "photo.jpg", "-o", "out.exr")
    plane = OpenEXR.File("out.exr", separate_channels=True).channels()["Y"].pixels
    assert plane.dtype == np.float32
    np.testing.assert_allclose(plane, DEPTH, rtol=1e-6)
    result = upsample("depth.png", "-g", "photo.jpg", "-o", "out.jpg", code=1)
    assert result.stderr == ("sapa upsample: out.jpg: JPEG holds 8 bits, and the map is uint16: write .png or .tiff.\n")
    upsample("depth.png", "-g", "photo.jpg", "-o", "into")  # no suffix: a folder
    assert Path("into/depth.png").exists()


def test_the_result_is_that_of_guided_upsample_with_the_same_options(folder: Path) -> None:
    photo("photo.png")
    low = np.random.default_rng(1).normal(size=(6, 8, 2)).astype(np.float32)
    low[2, 2], low[4, 4] = np.nan, 0
    np.save("low.npy", low)
    x = torch.from_numpy(low).permute(2, 0, 1)[None]
    guide = torch.from_numpy(pixels("photo.png").copy()).permute(2, 0, 1)[None]
    options = {"kernel_size": 3, "sigma": 40.0, "iterations": 2, "memory": 100_000}
    typed = ["--kernel-size", "3", "--sigma", "40", "--iterations", "2", "--memory", "100KB"]
    for i, (more, given) in enumerate(
        (([], {}), (typed, options), (["--invalid", "0"], {"invalid": 0.0}), (["--size", "12x16"], {"size": (12, 16)}))
    ):
        upsample("low.npy", "-g", "photo.png", "-o", f"{i}.npy", *more)
        expected = sapa.guided_upsample(x, guide, **given)[0].permute(1, 2, 0)
        torch.testing.assert_close(torch.from_numpy(np.load(f"{i}.npy")), expected, rtol=0, atol=0)
    outputs = {np.load(f"{i}.npy").tobytes() for i in range(4)}
    assert len(outputs) == 4, "each option changes something"


def test_labels_stay_labels(folder: Path) -> None:
    photo("photo.jpg")
    classes = np.zeros((6, 8), np.uint8)
    classes[:, 4:] = 17
    image = Image.fromarray(classes)
    image.putpalette(bytes(range(54)))
    image.save("palette.png")
    upsample("palette.png", "-g", "photo.jpg", "-o", "out.png")
    with Image.open("out.png") as out:
        assert out.mode == "P"
        assert bytes(out.getpalette() or ()) == bytes(range(54))
        assert set(np.unique(out)) == {0, 17}
    colours = np.array([[1, 2, 3], [200, 100, 50]], np.uint8)
    Image.fromarray(colours[(classes > 0).astype(int)]).save("colours.png")
    upsample("colours.png", "-g", "photo.jpg", "-o", "out2.png", "--labels")
    assert set(map(tuple, pixels("out2.png").reshape(-1, 3).tolist())) == set(map(tuple, colours.tolist()))
    # a class to leave out takes part nowhere
    with_void = np.where(np.arange(8) == 3, -1, classes.astype(np.int64))
    np.save("void.npy", with_void)
    upsample("void.npy", "-g", "photo.jpg", "-o", "out.npy", "--labels", "--invalid", "-1")
    assert np.load("out.npy").dtype == np.int64
    assert set(np.unique(np.load("out.npy"))) == {0, 17}
    np.save("many.npy", np.arange(80 * 60).reshape(60, 80))
    photo("large.png", (120, 160))
    result = upsample("many.npy", "-g", "large.png", "-o", "out3.npy", "--labels", code=1)
    assert "many.npy: has 4800 different values, too many for labels (at most 4096)." in result.stderr


def test_integers_do_not_wrap(folder: Path) -> None:
    """Bringing a map in line with its means overshoots at a step, here beyond what 8 bits hold."""
    guide, low = np.full((64, 64), 30, np.uint8), np.zeros((8, 8), np.uint8)
    guide[:, 35:], low[:, 4], low[:, 5:] = 220, 100, 255
    Image.fromarray(guide).save("photo.png")
    Image.fromarray(low).save("low.png")
    upsample("low.png", "-g", "photo.png", "-o", "out.png", "--iterations", "3")
    found = pixels("out.png").astype(int)
    assert found[:, :30].max() < 60
    assert found[:, 45:].min() > 200


def test_other_files_for_other_formats(folder: Path) -> None:
    photo("photo.png")
    np.savez("a.npz", depth=np.full((6, 8), 2.5, np.float16), other=np.zeros(3))
    upsample("a.npz:depth", "-g", "photo.png", "-o", "out.npz")
    with np.load("out.npz") as out:
        assert out["depth"].dtype == np.float16
        assert out["depth"].shape == (24, 32)
        assert (out["depth"] == 2.5).all()
    torch.save(torch.full((1, 21, 6, 8), 0.5), "a.pt")
    upsample("a.pt", "-g", "photo.png", "-o", "out.pt")
    assert torch.load("out.pt").shape == (1, 21, 24, 32)


def test_a_folder_keeps_its_sub_folders_and_is_done_once(folder: Path) -> None:
    for name in ("a/1", "a/2", "b/1"):
        depth(f"depth/{name}.png")
        photo(f"photos/{name}.jpg")
    Path("depth/notes.txt").write_text("no map")
    Path("depth/._1.png").write_text("of a Macintosh")
    command = ("depth", "--guide", "photos", "-o", "depth/out")
    assert upsample(*command).stdout == "3 written\n"
    names = [str(path.relative_to("depth/out")) for path in sorted(Path("depth/out").rglob("*.png"))]
    assert names == ["a/1.png", "a/2.png", "b/1.png"]
    before = {path: path.stat().st_mtime_ns for path in Path("depth/out").rglob("*.png")}
    assert upsample(*command).stdout == "0 written, 3 already there\n"
    Path("depth/out/a/2.png").unlink()
    assert upsample(*command).stdout == "1 written, 2 already there\n"
    assert Path("depth/out/a/1.png").stat().st_mtime_ns == before[Path("depth/out/a/1.png")]
    assert upsample(*command, "--force").stdout == "3 written\n"
    assert Path("depth/out/a/1.png").stat().st_mtime_ns > before[Path("depth/out/a/1.png")]


def test_pairs_by_pattern(folder: Path) -> None:
    for name in ("x/a", "x/b", "y/a", "y/c"):
        depth(f"depth/{name}.png")
        photo(f"photos/{name}.jpg")
    photo("photos/lone.jpg")
    found = plan("depth/**/*.png", "photos/**/*.jpg", "out")
    assert {(pair.low, pair.guide, str(pair.output)) for pair in found.pairs} == {
        (f"depth/{name}.png", f"photos/{name}.jpg", f"out/{name}.png") for name in ("x/a", "x/b", "y/a", "y/c")
    }
    assert found.lone_guides == [Path("photos/lone.jpg")]
    # where the folders differ, the name alone decides, if it can
    found = plan("depth/x/*.png", "photos/**/*.jpg", "out")
    assert [(pair.low, pair.guide, str(pair.output)) for pair in found.pairs] == [
        ("depth/x/b.png", "photos/x/b.jpg", "out/b.png")
    ]
    assert found.problems == ["depth/x/a.png: several guides have its name: photos/x/a.jpg, photos/y/a.jpg."]
    # brackets in a name that is there are no pattern
    depth("depth/[1].png")
    photo("photos/[1].jpg")
    assert plan("depth/[1].png", "photos/[1].jpg", "out.png").pairs == [
        Pair("depth/[1].png", "photos/[1].jpg", Path("out.png"))
    ]
    np.savez("depth/x/b.npz", d=np.zeros((6, 8)))
    assert plan("depth/x/*.npz:d", "photos/x", "out").pairs == [
        Pair("depth/x/b.npz:d", "photos/x/b.jpg", Path("out/b.npz"))
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.png", "a.jpg", "o.png"), "no maps: there is no none.png."),
        (("a.png", "none.jpg", "o.png"), "no guides: there is no none.jpg."),
        (("*.tif", "a.jpg", "out"), "no maps in *.tif: looked for files with .png, .jpg"),
        (("*.png", "a.jpg", "out"), "--guide a.jpg is one file, and each map needs its own"),
        (("*.png", "*.jpg", "o.png"), "-o o.png is a file, and *.png may be many maps: give a folder."),
        (("a.png", "a.jpg", "o.gif"), "-o o.gif: no format '.gif'. Available: .png"),
        (("a.png", "a.jpg", "a.png"), "a.png would be written over, and it is a map or guide itself"),
        (("*.png", "*.jpg", "."), "a.png would be written over, and it is a map or guide itself"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, arguments: tuple[str, str, str], message: str) -> None:
    depth("a.png")
    photo("a.jpg")
    with pytest.raises(UsageError) as error:
        plan(*arguments)
    assert message in str(error.value)
    low, guide, output = arguments
    result = upsample(low, "-g", guide, "-o", output, "--force", code=2)
    assert result.stderr.startswith(f"sapa upsample: {message}")
    assert (pixels("a.png") == DEPTH).all()


def test_an_existing_file_is_not_written_over(folder: Path) -> None:
    depth("a.png")
    photo("a.jpg")
    Path("out.png").write_text("precious")
    result = upsample("a.png", "-g", "a.jpg", "-o", "out.png", code=2)
    assert "out.png is there already: give --force to write over it, or another -o." in result.stderr
    assert Path("out.png").read_text() == "precious"
    upsample("a.png", "-g", "a.jpg", "-o", "out.png", "--force")
    assert (pixels("out.png") == DEPTH).all()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--size", "480", "give --size as HEIGHTxWIDTH, such as 480x640, not '480'."),
        ("--memory", "much", "give --memory as a number of bytes, such as 512MB or 2GB, not 'much'."),
        ("--invalid", "zero", "give --invalid as a number, nan or none, not 'zero'."),
        ("--kernel-size", "4", "give an odd --kernel-size, such as 5, not 4."),
        ("--sigma", "0", "give a positive --sigma, not 0.0."),
        ("--device", "abacus", "--device abacus cannot be used here: "),
    ],
)
def test_options_that_cannot_be_meant(folder: Path, option: str, value: str, message: str) -> None:
    result = upsample("a.png", "-g", "a.jpg", "-o", "out.png", option, value, code=2)
    assert result.stderr.startswith(f"sapa upsample: {message}")


def test_a_missing_library_is_said_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3):
        depth(f"depth/{i}.png")
        photo(f"photos/{i}.jpg")
    monkeypatch.delitem(sys.modules, "sapa.files.png", raising=False)
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    result = upsample("depth", "-g", "photos", "-o", "out", code=2)
    assert result == ("", "sapa upsample needs imagecodecs: pip install 'sapa[files]'\n")


def test_the_process_that_hands_out_work_starts_at_once() -> None:
    code = "import sys, sapa.batch; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_options_as_they_are_meant() -> None:
    assert parse_size("480x640") == (480, 640)
    assert [parse_memory(text) for text in ("512MB", "2GiB", "1.5k", "7")] == [512_000_000, 2**31, 1500, 7]
    assert [parse_invalid(text) for text in ("0", "-1", "none", "NaN")] == [0, -1, None, None]
    assert Options(memory=1000).shared_by(4).memory == 250


def spoil(folder: Path) -> dict[str, str]:
    """Ten pairs, of which eight cannot be done: their maps, and what must be said."""
    for i in range(10):
        depth(f"depth/{i}.png")
        photo(f"photos/{i}.jpg")
    Path("depth/1.png").write_bytes(Path("depth/1.png").read_bytes()[:45])
    Path("photos/2.jpg").write_text("no photograph")
    Path("photos/3.jpg").unlink()
    depth("depth/4.png", size=(30, 40))
    depth("depth/5.png", size=(8, 6))
    depth("depth/6.png", size=(8, 8))
    photo("photos/7.png")
    Path("out").mkdir()
    Path("depth/8.png").unlink()
    depth("depth/8/8.png")
    Path("out/8").write_text("a file where a folder has to be")
    return {
        "1": "depth/1.png: is broken, or not what its name says: ",
        "2": "photos/2.jpg: is broken, or not what its name says: cannot identify image file 'photos/2.jpg'.",
        "3": "depth/3.png: no guide named 3 in photos.",
        "4": "depth/4.png: the map is 30x40 and its guide photos/4.jpg 24x32 (height x width): the guide must not be",
        "5": "depth/5.png: the map is 8x6 and its guide photos/5.jpg 24x32 (height x width): one of the two is turned",
        "6": "depth/6.png: the map is 8x8 and its guide photos/6.jpg 24x32 (height x width): they cannot show",
        "7": "depth/7.png: several guides have its name: photos/7.jpg, photos/7.png.",
        "8": "out/8/8.png: cannot be written: ",
    }


def test_bad_pairs_get_a_line_each_and_the_others_are_done(folder: Path) -> None:
    expected = spoil(folder)
    photo("photos/lone.jpg")
    result = upsample("depth", "-g", "photos", "-o", "out", code=1)
    assert result.stdout == "2 written, 8 failed\n"
    lines = result.stderr.splitlines()
    assert len(lines) == len(expected) + 1
    for text in expected.values():
        assert [line for line in lines if line.startswith(f"sapa upsample: {text}")], (text, lines)
    assert lines[-1] == "sapa upsample: guides without a map: photos/lone.jpg"
    assert sorted(path.name for path in Path("out").iterdir()) == ["0.png", "8", "9.png"]


def test_sizes_that_rounding_explains_are_a_pair(folder: Path) -> None:
    for low, high in (((15, 20), (480, 640)), ((14, 20), (427, 640)), ((13, 20), (427, 640)), ((1, 1), (3, 4))):
        depth("a.png", size=low)
        photo("a.jpg", high)
        upsample("a.png", "-g", "a.jpg", "-o", "out.png", "--force")
        assert pixels("out.png").shape == high


def test_values_without_a_mean_are_refused(folder: Path) -> None:
    photo("photo.png")
    sky = np.full((6, 8), 3.0, np.float32)
    sky[0] = np.inf
    np.save("sky.npy", sky)
    result = upsample("sky.npy", "-g", "photo.png", "-o", "out.npy", code=1)
    assert "sky.npy: has infinite values, which have no mean: leave them out with --invalid inf." in result.stderr
    upsample("sky.npy", "-g", "photo.png", "-o", "out.npy", "--invalid", "inf")
    np.testing.assert_allclose(np.load("out.npy"), 3, rtol=1e-6)
    np.save("guide.npy", np.full((24, 32), np.nan))
    result = upsample("sky.npy", "-g", "guide.npy", "-o", "none.npy", "--invalid", "inf", code=1)
    assert "guide.npy: a guide must be finite everywhere, and this one has NaN or infinity." in result.stderr


class Fatal(Pair):
    """A pair that kills the process that is sent it."""

    def __reduce__(self) -> tuple:
        return (signal.raise_signal, (signal.SIGKILL,))


def test_a_process_that_dies_takes_only_its_own_pair_along(folder: Path) -> None:
    for i in range(4):
        depth(f"depth/{i}.png")
        photo(f"photos/{i}.jpg")
    pairs = plan("depth", "photos", "out").pairs
    pairs.insert(1, Fatal("depth/fatal.png", "photos/0.jpg", Path("out/fatal.png")))
    results = list(run_in_processes(pairs, Options(), jobs=2, threads=1))
    assert sorted(results, key=str) == [None] * 4 + [
        "depth/fatal.png: its process was killed, as for want of memory: try fewer --jobs or less --memory."
    ]
    assert sorted(path.name for path in Path("out").iterdir()) == [f"{i}.png" for i in range(4)]


def wait_for(condition: Callable[[], object], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "it ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_run_is_finished_by_the_same_command(folder: Path) -> None:
    for i in range(4):
        depth(f"depth/{i}.png")
        photo(f"photos/{i}.jpg")
    command = ["upsample", "depth", "-g", "photos", "-o", "out", "--jobs", "1"]
    # the third file is written when the process hangs, and has not yet got its name
    code = f"""
import os, time
from pathlib import Path
from sapa.cli import app
sync = os.fsync
def hang(handle):
    while len(list(Path("out").glob("*.png"))) == 2 and list(Path("out").glob(".2.png.*")):
        time.sleep(1)
    sync(handle)
os.fsync = hang
app({command})
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: len(list(Path("out").glob("*.png"))) == 2 and parts(folder), process)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    (part,) = parts(folder)
    assert part.name.startswith(".2.png.")
    for name in ("0.png", "1.png"):
        assert (pixels(Path("out") / name) == DEPTH).all(), "what has its name is whole"
    assert upsample(*command[1:-2]).stdout == "2 written, 2 already there\n"
    assert parts(folder) == []
    assert all((pixels(f"out/{i}.png") == DEPTH).all() for i in range(4))


def test_an_interrupted_run_ends_cleanly(folder: Path) -> None:
    depth("depth/0.png")
    photo("photos/0.jpg", (48, 64))
    for i in range(1, 2000):
        os.link("depth/0.png", f"depth/{i}.png")
        os.link("photos/0.jpg", f"photos/{i}.jpg")
    command = [COMMAND, "upsample", "depth", "-g", "photos", "-o", "out", "--jobs", "2"]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # in a session of its own, so that the signal reaches its processes as from a terminal, and not the tests; which a
    # shell may have started in the background, where interrupts are ignored
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=heed, **pipe)
    try:
        wait_for(lambda: list(Path("out").glob("*.png")), process)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=30)  # until no process is left that could write there
    finally:
        process.kill()
    assert process.returncode == 130
    assert output == ""
    assert errors.startswith("sapa upsample: interrupted: ")
    assert errors.endswith(" of 2000 written; the same command does the others.\n")
    assert parts(folder) == []
    written = list(Path("out").glob("*.png"))
    assert 0 < len(written) < 2000
    assert all((pixels(path) == DEPTH).all() for path in written)


def test_the_bar_is_for_terminals_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(2):
        depth(f"depth/{i}.png")
        photo(f"photos/{i}.jpg")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    command = ["upsample", "depth", "-g", "photos", "-o", "out", "--force"]
    assert upsample(*command[1:]) == ("2 written\n", "")
    ours, theirs = pty.openpty()
    process = subprocess.Popen([COMMAND, *command], stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 4096):
            shown += data
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.communicate()[0] == "2 written\n"
    assert b"2/2" in shown
    assert b"left" in shown


def test_infinities_that_are_not_named_are_refused_beside_one_that_is(folder: Path) -> None:
    values = np.ones((6, 8), np.float32)
    values[0, 0], values[5, 7] = np.inf, -np.inf
    np.save("map.npy", values)
    photo("photo.png")
    command = [COMMAND, "upsample", "map.npy", "-g", "photo.png", "-o", "out.npy", "--invalid", "inf"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "infinite values" in result.stderr
    assert not Path("out.npy").exists()


def test_unknown_labels_of_several_channels_are_filled(folder: Path) -> None:
    values = np.ones((6, 8, 2))
    values[2, 3] = values[4, 5] = np.nan
    np.save("map.npy", values)
    photo("photo.png")
    command = [COMMAND, "upsample", "map.npy", "-g", "photo.png", "-o", "out.npy", "--labels"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (np.load("out.npy") == 1).all()
