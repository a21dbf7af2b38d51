"""Maps in files: each format against bytes made by hand or by another library, and no half file ever."""

import errno
import fcntl
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import imagecodecs
import numpy as np
import OpenEXR
import pytest
import tifffile
import torch
from PIL import Image

from sapa import files
from sapa.files import FileError, Map, atomic, cast, read_guide, read_map, write_map

H, W = 5, 7


def numbers(*shape: int, dtype: str = "uint16") -> np.ndarray:
    random = np.random.default_rng(0)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return random.normal(size=shape).astype(kind)
    return random.integers(0, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)


def png(values: np.ndarray, colour: int, depth: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG from its specification: no filter, one IDAT."""
    big = values.astype(">u2" if depth == 16 else "u1")
    rows = b"".join(b"\0" + row.tobytes() for row in big)
    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], depth, colour, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    packed = (struct.pack(">I", len(d)) + name + d + struct.pack(">I", zlib.crc32(name + d)) for name, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def chunks_of(data: bytes) -> dict[bytes, bytes]:
    found, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        found[data[at + 4 : at + 8]] = data[at + 8 : at + 8 + length]
        at += 12 + length
    return found


def decoded(path: Path, C: int, depth: int) -> np.ndarray:
    """The values of a PNG, from its specification; it has one of five predictors for each row."""
    chunks, step, stride = chunks_of(path.read_bytes()), C * depth // 8, W * C * depth // 8
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(H, 1 + stride).astype(int)
    found = np.zeros((H + 1, step + stride), int)  # with zeros above and to the left
    for y, (predictor, *row) in enumerate(rows.tolist(), 1):
        for x, value in enumerate(row, step):
            left, up, corner = found[y, x - step], found[y - 1, x], found[y - 1, x - step]
            nearest = min((left, up, corner), key=lambda near: abs(left + up - corner - near))
            found[y, x] = (value + (0, left, up, (left + up) // 2, nearest)[predictor]) % 256
    return np.ascontiguousarray(found[1:, step:], np.uint8).view(">u2" if depth == 16 else "u1").reshape(H, W, C)


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize(("colour", "C"), [(0, 1), (4, 2), (2, 3), (6, 4)])
def test_png_keeps_every_bit(tmp_path: Path, colour: int, C: int, depth: int) -> None:
    path, copy = tmp_path / "a.png", tmp_path / "b.png"
    values = numbers(H, W, C, dtype=f"uint{depth}")
    path.write_bytes(png(values, colour, depth))
    found = read_map(path)
    assert found.values.dtype == values.dtype
    np.testing.assert_array_equal(found.values, values)
    write_map(copy, found)
    assert chunks_of(copy.read_bytes())[b"IHDR"][8:10] == bytes([depth, colour])
    np.testing.assert_array_equal(decoded(copy, C, depth), values)


def test_palette_png_keeps_its_indices_and_its_palette(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.png", tmp_path / "b.png"
    classes, colours, alphas = numbers(H, W, dtype="uint8") % 21, bytes(range(63)), bytes([0, 255, 128])
    path.write_bytes(png(classes, 3, 8, (b"PLTE", colours), (b"tRNS", alphas)))
    found = read_map(path)
    assert found.labels
    np.testing.assert_array_equal(found.values[..., 0], classes)
    larger = np.repeat(np.repeat(classes, 2, 0), 3, 1)
    write_map(copy, found.holding(larger[..., None]))
    chunks = chunks_of(copy.read_bytes())
    assert chunks[b"IHDR"][8:10] == bytes([8, 3])
    assert chunks[b"PLTE"] == colours
    assert chunks[b"tRNS"].rstrip(b"\xff") == alphas.rstrip(b"\xff")
    with Image.open(copy) as image:
        np.testing.assert_array_equal(np.asarray(image), larger)
    # as a guide it is what it looks like
    np.testing.assert_array_equal(read_guide(path), np.frombuffer(colours, np.uint8).reshape(-1, 3)[classes])


def test_a_palette_grows_to_the_largest_index(tmp_path: Path) -> None:
    """With fewer bits for a short palette, an index beyond it would become another."""
    two = np.array([[1, 2, 3, 255], [4, 5, 6, 255]], np.uint8)
    classes = np.array([[0, 1, 255]], np.uint8)[..., None]
    write_map(tmp_path / "a.png", Map(classes, labels=True, palette=two))
    np.testing.assert_array_equal(read_map(tmp_path / "a.png").values, classes)


def test_one_bit_png_is_bool(tmp_path: Path) -> None:
    mask = numbers(H, 16, dtype="uint8") > 127
    data = png(np.packbits(mask, axis=1), 0, 8)
    header = struct.pack(">IIBBBBB", 16, H, 1, 0, 0, 0, 0)
    old = chunks_of(data)[b"IHDR"]
    crc = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    data = data.replace(b"IHDR" + old + struct.pack(">I", zlib.crc32(b"IHDR" + old)), b"IHDR" + header + crc)
    (tmp_path / "a.png").write_bytes(data)
    found = read_map(tmp_path / "a.png")
    assert found.values.dtype == np.bool_
    np.testing.assert_array_equal(found.values[..., 0], mask)
    write_map(tmp_path / "b.png", found)
    assert chunks_of((tmp_path / "b.png").read_bytes())[b"IHDR"][8:10] == bytes([1, 0])


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_jpeg_is_read_as_it_is_shown(tmp_path: Path, mode: str) -> None:
    photo = Image.new("L", (16, 24), 40)
    photo.paste(220, (0, 0, 8, 8))  # top left
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    photo.convert(mode).save(tmp_path / "a.jpg", exif=exif, quality=100)
    shown = read_guide(tmp_path / "a.jpg")
    assert shown.shape == (16, 24, 1 if mode == "L" else 3)
    assert shown[2, 20].min() > 200  # top right
    assert shown[2, 2].max() < 60
    write_map(tmp_path / "b.jpg", read_map(tmp_path / "a.jpg"))
    copy = imagecodecs.jpeg8_decode((tmp_path / "b.jpg").read_bytes()).reshape(shown.shape)
    assert np.abs(copy.astype(int) - shown).max() < 12
    with Image.open(tmp_path / "b.jpg") as image:
        assert 0x0112 not in image.getexif()


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_tiff_of_another_library_and_back(tmp_path: Path, dtype: str, compression: str) -> None:
    values = numbers(H, W, dtype=dtype)
    Image.fromarray(values).save(tmp_path / "a.tif", compression=compression)
    found = read_map(tmp_path / "a.tif")
    assert found.values.dtype == values.dtype
    np.testing.assert_array_equal(found.values[..., 0], values)
    write_map(tmp_path / "b.tiff", found)
    with Image.open(tmp_path / "b.tiff") as image:
        np.testing.assert_array_equal(np.asarray(image), values)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((H, W), {}),
        ((H, W, 3), {"photometric": "rgb"}),
        ((H, W, 4), {"photometric": "rgb", "extrasamples": ["unassalpha"]}),
        ((H, W, 6), {"photometric": "minisblack", "planarconfig": "contig"}),
        ((6, H, W), {"photometric": "minisblack", "planarconfig": "separate"}),
        ((6, H, W), {"photometric": "minisblack"}),
    ],
)
def test_tiff_keeps_channels_and_layout(tmp_path: Path, dtype: str, shape: tuple[int, ...], layout: dict) -> None:
    values = numbers(*shape, dtype=dtype)
    tifffile.imwrite(tmp_path / "a.tif", values, byteorder=">", **layout)
    found = read_map(tmp_path / "a.tif")
    assert found.values.shape[:2] == (H, W)
    assert found.values.dtype.isnative
    write_map(tmp_path / "b.tif", found)
    copy = tifffile.imread(tmp_path / "b.tif")
    assert copy.dtype == values.dtype
    np.testing.assert_array_equal(copy, values)
    guide = read_guide(tmp_path / "a.tif")
    assert guide.shape[2] == {(H, W): 1, (H, W, 3): 3, (H, W, 4): 3}.get(shape, 6)


def test_tiff_keeps_its_palette(tmp_path: Path) -> None:
    colours = (np.arange(768, dtype=np.uint16).reshape(3, 256) % 256) * 257
    classes = numbers(H, W, dtype="uint8")
    tifffile.imwrite(tmp_path / "a.tif", classes, photometric="palette", colormap=colours)
    found = read_map(tmp_path / "a.tif")
    assert found.labels
    write_map(tmp_path / "b.tif", found)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        np.testing.assert_array_equal(file.pages.first.colormap, colours)
        np.testing.assert_array_equal(file.asarray(), classes)


def exr(channels: dict[str, np.ndarray]) -> bytes:
    """An OpenEXR file from its specification, without compression: channels and then rows in alphabetical order."""
    height, width = next(iter(channels.values())).shape
    kinds = {"uint32": 0, "float16": 1, "float32": 2}
    listed = b"".join(
        name.encode() + b"\0" + struct.pack("<iB3xii", kinds[plane.dtype.name], 0, 1, 1)
        for name, plane in sorted(channels.items())
    )
    box = struct.pack("<4i", 0, 0, width - 1, height - 1)
    attributes = [
        (b"channels", b"chlist", listed + b"\0"),
        (b"compression", b"compression", b"\0"),
        (b"dataWindow", b"box2i", box),
        (b"displayWindow", b"box2i", box),
        (b"lineOrder", b"lineOrder", b"\0"),
        (b"pixelAspectRatio", b"float", struct.pack("<f", 1)),
        (b"screenWindowCenter", b"v2f", struct.pack("<2f", 0, 0)),
        (b"screenWindowWidth", b"float", struct.pack("<f", 1)),
    ]
    head = struct.pack("<ii", 20000630, 2)
    head += b"".join(name + b"\0" + kind + b"\0" + struct.pack("<i", len(d)) + d for name, kind, d in attributes)
    rows = [b"".join(channels[name][y].tobytes() for name in sorted(channels)) for y in range(height)]
    blocks = [struct.pack("<ii", y, len(row)) + row for y, row in enumerate(rows)]
    start = len(head) + 1 + 8 * height
    offsets = [start + sum(map(len, blocks[:y])) for y in range(height)]
    return head + b"\0" + struct.pack(f"<{height}Q", *offsets) + b"".join(blocks)


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint32"])
@pytest.mark.parametrize("names", ["Z", "BGR", "ABGR", "uv"])
def test_exr_keeps_bits_and_names(tmp_path: Path, names: str, dtype: str) -> None:
    planes = dict(zip(names, numbers(len(names), H, W, dtype=dtype), strict=True))
    (tmp_path / "a.exr").write_bytes(exr(planes))
    found = read_map(tmp_path / "a.exr")
    assert found.channels == {"Z": ("Z",), "BGR": tuple("RGB"), "ABGR": tuple("RGBA"), "uv": tuple("uv")}[names]
    for i, name in enumerate(found.channels):
        np.testing.assert_array_equal(found.values[..., i], planes[name])
    assert read_guide(tmp_path / "a.exr").shape[2] == len(names.strip("A"))
    write_map(tmp_path / "b.exr", found)
    copy = OpenEXR.InputFile(str(tmp_path / "b.exr"))  # the library's older interface: plain bytes
    for name, plane in planes.items():
        np.testing.assert_array_equal(np.frombuffer(copy.channel(name), dtype).reshape(H, W), plane)


def test_exr_of_two_widths_becomes_the_wider(tmp_path: Path) -> None:
    (tmp_path / "a.exr").write_bytes(exr({"Z": numbers(H, W, dtype="float32"), "A": numbers(H, W, dtype="float16")}))
    assert read_map(tmp_path / "a.exr").values.dtype == np.float32
    (tmp_path / "b.exr").write_bytes(exr({"Z": numbers(H, W, dtype="float32"), "id": numbers(H, W, dtype="uint32")}))
    with pytest.raises(FileError, match=r"b.exr: has integer and float channels: Z, id. Take them apart."):
        read_map(tmp_path / "b.exr")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((H, W), (H, W, 1)), ((H, W, 4), (H, W, 4)), ((21, H, W), (H, W, 21)), ((1, 2, H, W), (H, W, 2))],
)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt"])
@pytest.mark.parametrize("dtype", ["bool", ">f4", "int64", "uint16", "float16"])
def test_arrays_are_written_in_the_layout_they_had(
    tmp_path: Path, suffix: str, dtype: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    values = numbers(*shape, dtype="uint8").astype(dtype)
    path, copy = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    if suffix == ".pt":
        torch.save(torch.from_numpy(values.astype(values.dtype.newbyteorder("="))), path)
        expected = (W, 4, H) if shape == (H, W, 4) else expected  # tensors are [c, h, w]
    elif suffix == ".npy":
        np.save(path, values)
    else:
        np.savez(path, values)
    found = read_map(path)
    assert found.values.shape == expected
    channels_first = np.moveaxis(found.values, 2, 0)
    layouts = (found.values[..., 0], found.values, channels_first, channels_first[None])
    (same,) = (array for array in layouts if array.shape == shape)
    np.testing.assert_array_equal(same, values)
    write_map(copy, found)
    again = {".npy": np.load, ".npz": lambda p: np.load(p)["arr_0"], ".pt": lambda p: torch.load(p).numpy()}[suffix](
        copy
    )
    assert again.dtype == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(again, values)


def test_an_array_is_named_by_its_key(tmp_path: Path) -> None:
    depth, mask = numbers(H, W, dtype="float32"), numbers(3, H, W, dtype="int32")
    np.savez(tmp_path / "a.npz", depth=depth)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive, archive.open("file.npy", "w") as file:
        np.save(file, mask)
    torch.save({"depth": torch.from_numpy(depth), "n": 3}, tmp_path / "a.pt")
    np.testing.assert_array_equal(read_map(f"{tmp_path}/a.npz:depth").values[..., 0], depth)
    np.testing.assert_array_equal(read_map(f"{tmp_path}/a.pt:depth").values[..., 0], depth)
    write_map(tmp_path / "b.npz", read_map(f"{tmp_path}/a.npz:file"))  # a key that is an argument of np.savez
    with np.load(tmp_path / "b.npz") as copy:
        assert list(copy) == ["file"]
        np.testing.assert_array_equal(copy["file"], mask)
    write_map(tmp_path / "b.pt", read_map(f"{tmp_path}/a.pt:depth"))
    np.testing.assert_array_equal(torch.load(tmp_path / "b.pt")["depth"].numpy(), depth)
    for name, message in {
        "a.npz": "a.npz: holds depth, file: name one of them, as in a.npz:depth.",
        "a.npz:x": "a.npz:x: holds depth, file, and not what was asked for.",
        "a.pt:n": "a.pt:n: holds a int, and a map is a tensor.",
    }.items():
        with pytest.raises(FileError) as error:
            read_map(f"{tmp_path}/{name}")
        assert str(error.value) == f"{tmp_path}/{message}"


def test_code_in_a_pt_file_does_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return (os.mkdir, (str(tmp_path / "sprung"),))

    torch.save({"x": Trap()}, tmp_path / "a.pt")
    with pytest.raises(FileError, match=r"a.pt: holds more than tensors, or is broken"):
        read_map(tmp_path / "a.pt")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([-3.0, 0.49, 0.51, 254.6, 300.0], "uint8", [0, 0, 1, 255, 255]),
        ([-1e9, 65535.4, 65536.0], "uint16", [0, 65535, 65535]),
        ([-1e9, -32768.4, 32767.9], "int16", [-32768, -32768, 32767]),
        ([-1e30, 1e30], "int64", [-(2**63), 2**63 - 1024]),
        ([0.49, 0.5], "bool", [False, True]),
        ([-5, 70000], "uint16", [0, 65535]),
        ([0.25, 3.0], "float16", [0.25, 3.0]),
    ],
)
def test_numbers_are_rounded_and_clamped_and_never_wrap(values: list, dtype: str, expected: list) -> None:
    found = cast(np.array(values), np.dtype(dtype))
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("a.png", numbers(H, W, 1, dtype="float32"), "PNG holds whole numbers, and the map is float32: write .tiff"),
        ("a.png", numbers(H, W, 5, dtype="uint8"), "PNG holds 1 to 4 channels, and the map has 5: write .tiff"),
        (
            "a.png",
            np.array([[[-1]], [[7]]]),
            "PNG holds 0 to 65535, and the map goes from -1 to 7: write .tiff or .npy.",
        ),
        ("a.jpg", numbers(H, W, 1), "JPEG holds 8 bits, and the map is uint16: write .png or .tiff."),
        ("a.jpg", numbers(H, W, 1, dtype="float32"), "JPEG holds 8 bits, and the map is float32: write .tiff, .exr or"),
        (
            "a.jpg",
            numbers(H, W, 4, dtype="uint8"),
            "JPEG holds 1 or 3 channels, and the map has 4: write .png or .tiff.",
        ),
        ("a.bmp", numbers(H, W, 1), "no format '.bmp'. Available: .png, .jpg"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path: Path, name: str, values: np.ndarray, message: str) -> None:
    with pytest.raises(FileError) as error:
        write_map(tmp_path / name, Map(values))
    assert str(error.value).startswith(f"{tmp_path / name}: {message}")
    assert list(tmp_path.iterdir()) == []


def test_labels_never_become_jpeg(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"JPEG changes values a little, and the map has labels: write .png."):
        files.dtype_for(tmp_path / "a.jpg", Map(numbers(H, W, 1, dtype="uint8"), labels=True))


def test_integers_that_png_has_not_become_16_bit_if_they_fit(tmp_path: Path) -> None:
    write_map(tmp_path / "a.png", Map(np.array([[[0], [65535]]], np.int64)))
    np.testing.assert_array_equal(imagecodecs.png_decode((tmp_path / "a.png").read_bytes()), [[0, 65535]])


def broken(tmp_path: Path) -> dict[str, Path]:
    """A file of each format that ends in the middle."""
    found = {}
    for suffix in (".png", ".jpg", ".tif", ".exr", ".npy", ".npz", ".pt"):
        dtype = "float32" if suffix == ".exr" else "uint8"
        write_map(tmp_path / f"whole{suffix}", Map(numbers(64, 64, 3, dtype=dtype)))
        data = (tmp_path / f"whole{suffix}").read_bytes()
        found[suffix] = tmp_path / f"half{suffix}"
        found[suffix].write_bytes(data[: len(data) // 2])
    return found


def test_broken_files_are_named_in_one_line(tmp_path: Path) -> None:
    for suffix, path in broken(tmp_path).items():
        for data in (path.read_bytes(), b"", b"hello"):
            path.write_bytes(data)
            with pytest.raises(FileError) as error:
                read_map(path)
            assert str(error.value).startswith(f"{path}: "), suffix
            assert "\n" not in str(error.value)
    with pytest.raises(FileError, match=r"none.png: No such file or directory."):
        read_map(tmp_path / "none.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(FileError, match=r"folder.png: Is a directory."):
        read_map(tmp_path / "folder.png")


def test_arrays_that_are_no_maps_are_refused(tmp_path: Path) -> None:
    for values, message in (
        (np.zeros(3), "holds [3], and a map must be [h, w], [h, w, c], [c, h, w] or [1, c, h, w]."),
        (np.zeros((2, 3, 4, 5)), "holds [2, 3, 4, 5], and a map must be"),
        (np.zeros((0, 5)), "is empty: [0, 5, 1] (h w c)."),
        (np.zeros((2, 2), complex), "holds complex128, and a map needs numbers: bool, integers or floats."),
    ):
        np.save(tmp_path / "a.npy", values)
        with pytest.raises(FileError) as error:
            read_map(tmp_path / "a.npy")
        assert f"a.npy: {message}" in str(error.value)


def test_without_its_library_a_format_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['OpenEXR'] = None; from sapa.files import read_map; read_map('a.exr')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.stderr.endswith("ModuleNotFoundError: .exr files need OpenEXR: pip install 'sapa[files]'\n")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, values = tmp_path / "a.npy", numbers(H, W, 1)
    write_map(path, Map(values, "hw"))
    before = path.read_bytes()

    def full(handle: int) -> None:
        assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".sapa-part")], "there is something to remove"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"a.npy: cannot be written: No space left on device."):
        write_map(path, Map(values + 1, "hw"))
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_map(path, Map(values + 1, "hw"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_any_new_file_and_links_stay(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_map(tmp_path / "new" / "a.npy", Map(numbers(H, W, 1)))
    finally:
        os.umask(old)
    assert (tmp_path / "new" / "a.npy").stat().st_mode & 0o777 == 0o640
    (tmp_path / "link.npy").symlink_to(tmp_path / "new" / "a.npy")
    write_map(tmp_path / "link.npy", Map(np.zeros((2, 2, 1))))
    assert (tmp_path / "link.npy").is_symlink()
    assert np.load(tmp_path / "new" / "a.npy").shape == (2, 2, 1)


def test_a_name_as_long_as_can_be_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 125 + ".npy")
    write_map(path, Map(numbers(H, W, 1)))
    assert path.exists()


def test_cleaning_removes_what_the_dead_left_and_not_what_is_being_written(tmp_path: Path) -> None:
    dead, alive = tmp_path / ".a.png.0123.sapa-part", tmp_path / ".b.png.0123.sapa-part"
    dead.write_bytes(b"half")
    with alive.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        atomic.clean([tmp_path, tmp_path / "none"])
        assert list(tmp_path.iterdir()) == [alive]
    with atomic.replacing(tmp_path / "c.png") as part:
        part.write_bytes(b"whole")
        atomic.clean([tmp_path])
        assert part.exists()
        assert not files.is_known(part)
    assert [path.name for path in tmp_path.iterdir()] == ["c.png"]
