"""Costs, against numbers worked out by hand and those the paper prints."""

import csv
import io
import json
from itertools import groupby
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sapa
from sapa import Cost, complexity
from sapa.listing import listing
from sapa.nn.catalogue import CATALOGUE
from sapa.paper_tables import evaluate, sentence, table_1, tables_2_to_5
from sapa.tables import Table, as_csv, as_json, as_markdown

C = 256

# multiply-accumulates for each low-res point at scale 2, from the definition of each method
BY_HAND = {
    "nearest": 0,
    "bilinear": 4 * 4 * C,
    "bicubic": 4 * 16 * C,
    "joint_bilateral": 4 * 25 * (C + 1 + C),
    "max_unpool": 0,
    "pixel_shuffle": 9 * C * 4 * C,
    "deconv": 9 * C * C,
    "pixel_tcl": 2 * 9 * C * C + 4 * 9 * C * C,
    "bilinear_additive": 4 * 4 * C // 4 + 4 * 9 * (C // 4) * C,
    "dupsample": C * 4 * C,
    "carafe": 99_584,
    "indexnet_hin": 2_100_224,
    "indexnet_m2o": 4_457_472,
    "indexnet_o2o": 4 * (16 + 1) * C + 4 * C,
    "a2u": round(2 * 36 * C + 4 * 9 * C + (36 + 2 * 36) * C / 64**2),
    "sapa_i": 51_200,
    "sapa_b": 69_760,
    "sapa_p": 69_760 + C * 32,
    "sapa_g": 69_760 + C * 32 + C,
    "sapa_d": (4 + 1) * C * 128 + C * 288 + 4 * 4 * (9 * 128 + 10 * C),  # values are sampled once more, for their shape
    "fade": (4 + 1) * C * 64 + (4 + 1) * 9 * 64 * 25 + C + 4 * 25 * C,
    "fade_lite": (4 + 1) * C * 25 + (4 + 1) * 9 * 25 + C + 4 * 25 * C,
    "dysample": C * 32 + 4 * 4 * C,
    "dysample_plus": 2 * C * 32 + 4 * 4 * C,
    "dysample_s": 4 * (C // 4) * 16 + 4 * 4 * C,
    "dysample_s_plus": 2 * 4 * (C // 4) * 16 + 4 * 4 * C,
    "sierra": 4 * 9 * C,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_multiply_accumulates_by_hand(name: str) -> None:
    up = complexity.on_paper(name)
    macs = complexity.multiply_accumulates(up, *complexity.example_of(up, 64, "meta"))
    assert round(macs / 64**2) == BY_HAND[name]


def test_every_upsampler_has_a_cost(upsampler: str) -> None:
    up = sapa.build(upsampler, 32)
    found = sapa.cost(upsampler, channels=32, size=(5, 6), seconds=0)
    assert found.parameters == sum(p.numel() for p in up.parameters())
    assert found.milliseconds > 0
    assert found.megabytes >= 32 * 10 * 12 * 4 / 2**20  # the output
    assert found.macs == complexity.multiply_accumulates(up, *complexity.example_of(up, (5, 6)))


def test_cost_by_name_and_options() -> None:
    found = sapa.cost("sapa_b", channels=64, guide_channels=16, size=(6, 8), scale=3, seconds=0, kernel_size=3)
    assert found.parameters == 2 * 64 + 2 * 16 + (64 + 16) * 32 + 2 * 32
    assert found.macs == 6 * 8 * (64 * 32 + 9 * 16 * 32 + 9 * 9 * (32 + 64))
    assert sapa.cost("sapa_b", seconds=0).macs == 64 * 64 * 69_760


def test_an_upsampler_module_needs_no_example() -> None:
    up = sapa.SAPA(32).double()
    assert sapa.cost(up, size=8, seconds=0).macs == sapa.cost("sapa_b", channels=32, size=8, seconds=0).macs


def test_cost_of_any_module() -> None:
    found = sapa.cost(nn.Conv2d(3, 8, 3, padding=1), torch.randn(1, 3, 10, 12), seconds=0)
    assert (found.parameters, found.macs) == (224, 8 * 27 * 120)


def test_time_and_memory_are_those_of_the_forward_pass() -> None:
    class Double(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x * 2 + y * 3

    few = sapa.cost(Double(), torch.ones(2**18), torch.ones(2**18), seconds=0.02)
    many = sapa.cost(Double(), torch.ones(2**22), torch.ones(2**22), seconds=0.02)
    assert (few.megabytes, many.megabytes) == (3, 48)  # two products and their sum are live at once
    assert many.milliseconds > few.milliseconds > 0


def test_sampling_and_interpolation_count() -> None:
    class Sample(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            grid = torch.zeros(1, 4, 5, 2)
            bicubic = F.interpolate(x, (4, 5), mode="bicubic")
            return F.grid_sample(x, grid, align_corners=False) + F.interpolate(x, (4, 5), mode="bilinear") + bicubic

    assert sapa.cost(Sample(), torch.randn(1, 3, 2, 2), seconds=0).macs == 3 * 4 * 5 * (4 + 4 + 16)


def test_the_module_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.BatchNorm2d(2), nn.Dropout().eval(), nn.Conv2d(2, 2, 1))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    sapa.cost(model, torch.randn(3, 2, 4, 4), seconds=0)
    assert [part.training for part in model.modules()] == [True, True, False, True]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_a_cost_does_not_change() -> None:
    with pytest.raises(AttributeError):
        sapa.cost("nearest", channels=1, size=2, seconds=0).macs = 1  # type: ignore[misc]
    assert Cost(1, 2, 3.0, 4.0) == Cost(1, 2, 3.0, 4.0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((nn.Conv2d(1, 1, 1),), {}, r"cost: Conv2d needs an example of its inputs: cost\(module, x\)"),
        (("sapa_b", torch.ones(1)), {}, "cost: inputs for 'sapa_b' are made here, from channels, size and scale"),
        ((nn.ReLU(), torch.ones(1)), {"kernel_size": 3}, "cost: kernel_size: options are for an upsampler that is"),
        ((3,), {}, "cost: give the name of an upsampler or a module, got int"),
    ],
    ids=str,
)
def test_errors(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        sapa.cost(*arguments, **options)


def test_sizes_and_names_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="cost: size must be a positive integer, or a pair of them, got 0"):
        sapa.cost("sapa_b", size=0)
    with pytest.raises(KeyError, match="Did you mean 'sapa_b'"):
        sapa.cost("sapa-b")


def test_the_catalogue_has_every_upsampler_in_order() -> None:
    assert list(CATALOGUE) == list(sapa.UPSAMPLERS)
    assert [row[0] for row in listing().rows] == list(sapa.UPSAMPLERS)
    assert all(entry.use and len(entry.use) < 80 for entry in CATALOGUE.values())
    assert all(bool(entry.paper) == (entry.year is not None) for entry in CATALOGUE.values())


def test_the_list_says_what_each_needs() -> None:
    table = listing()
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    sapa_g, carafe = rows["sapa_g"], rows["carafe"]
    assert (sapa_g["guide"], sapa_g["any size"], sapa_g["parameters"]) == (True, True, 25_953)
    assert (carafe["guide"], carafe["any size"], carafe["parameters"]) == (False, False, 74_148)
    assert (carafe["year"], carafe["MACs per point"]) == (2019, 99_584)


# ---- the paper


def test_formulas_as_the_paper_writes_them() -> None:
    assert evaluate("73C + 4K² + 4K²C", C=10, K=3) == 730 + 36 + 360
    assert evaluate("32C² + 8C", C=3) == 288 + 24
    assert evaluate("0") == 0


def test_table_1_of_the_paper() -> None:
    rows = table_1().rows
    counts = {(row[0], row[1]): (row[3], row[4], row[6], row[7], row[8]) for row in rows}
    printed = [row for row in rows if "*" not in str(row[1])]
    assert [len(list(of)) for _, of in groupby(printed, lambda row: row[0])] == [3, 3, 3, 3, 7]
    assert counts["CARAFE", "Total"] == (99_584, 99_584, 73_984, 73_984, "equal")
    assert counts["IndexNet HIN", "Total"] == (2_100_224, 2_100_224, 2_099_200, 2_099_200, "equal")
    assert counts["IndexNet M2O", "Total"] == (4_457_472, 4_457_472, 4_456_448, 4_456_448, "equal")
    assert counts["A2U", "Total"][:4] == (27_940, 27_655, 9728, 9728)
    assert counts["SAPA", "I Total (3)(4)"] == (51_200, 51_200, 0, 0, "equal")
    assert counts["SAPA", "B Total (1)(3)(4)"] == (69_760, 69_760, 16_384, 16_384, "equal")
    # both conventions of SAPA-G: 5d and 8d, two projections and three
    assert counts["SAPA", "G Total (1)(2)(3)(4)"][:4] == (70_176, 78_208, 2 * C * 32 + C, 3 * C * 32 + C)
    assert counts["SAPA", "* G, its rows added up"][0] == 70_272
    assert counts["SAPA", "* G, as trained"][2] == counts["SAPA", "* G, as trained"][3] == 3 * C * 32 + C
    different = [key for key, row in counts.items() if row[4] != "equal"]
    assert [operation for module, operation in different if module != "SAPA"] == ["Kernel generation", "Total"]
    assert [str(operation)[:5] for module, operation in different if module == "SAPA"] == [
        "(2) G",
        "G Tot",
        "* G, ",
        "* G, ",
    ]


@pytest.mark.parametrize("module", ["CARAFE", "IndexNet HIN", "IndexNet M2O", "A2U"])
def test_operations_of_table_1_add_up(module: str) -> None:
    generation, assembly, total = (row for row in table_1().rows if row[0] == module)
    for column in (3, 4, 6, 7):
        assert generation[column] + assembly[column] == total[column]  # type: ignore[operator]


def test_the_sentence_of_the_paper() -> None:
    rows = {row[0]: row[1:] for row in sentence().rows}
    assert rows == {
        "CARAFE": ("99K", 99_584, 99_584, "cut to 99K, not rounded"),
        "IndexNet HIN": ("2M", 2_100_224, 2_100_224, "equal"),
        "A2U": ("28K", 27_940, 27_655, "equal"),
        "SAPA-B": ("70K", 69_760, 69_760, "equal"),
    }


def test_cells_of_tables_2_to_5() -> None:
    rows = tables_2_to_5().rows
    assert [sum(row[0] == number for row in rows) for number in (2, 3, 4, 5)] == [36, 6, 5, 6]
    marks = {(model, up, column): mark for _, model, up, column, *_, mark in rows}
    different = {key: str(mark) for key, mark in marks.items() if mark != "equal"}
    by_formula = {key for key, mark in different.items() if mark.startswith("formula equal; ")}
    by_module = {key for key, mark in different.items() if mark.startswith("ours equal; ")}
    segmentation = ("SegFormer-B1", "MaskFormer Swin-B", "Mask2Former Swin-B")
    assert by_formula == {
        ("SegFormer-B1", "A2U", "FLOPs"),
        ("Faster R-CNN R50", "SAPA-G", "Params"),
        *((model, "SAPA-G", column) for model in segmentation for column in ("FLOPs", "Params")),
    }
    assert by_module == {
        *(("BTS R50", up, "Params") for up in ("A2U", "SAPA-B", "SAPA-G")),
        ("A2U Matting R34", "SAPA-B", "Params"),
    }
    assert set(different) - by_formula - by_module == {
        ("Mask2Former Swin-B", "CARAFE", "FLOPs"),
        ("BTS R50", "IndexNet", "Params"),
        ("A2U Matting R34", "IndexNet", "Params"),
        ("A2U Matting R34", "SAPA-G", "Params"),
    }


@pytest.mark.parametrize(
    ("model", "up", "column", "paper", "formula", "ours"),
    [
        ("SegFormer-B1", "CARAFE", "FLOPs", "+1.45", 14_592 * 99_584 / 1e9, 14_592 * 99_584 / 1e9),
        ("SegFormer-B1", "IndexNet", "Params", "+12.60", 12.5952, 12.601344),
        ("SegFormer-B1", "SAPA-G", "FLOPs", "+1.02", 14_592 * 70_176 / 1e9, 14_592 * 78_208 / 1e9),
        ("SegFormer-B1", "SAPA-G", "Params", "+0.10", 0.09984, 6 * 25_953 / 1e6),
        ("MaskFormer Swin-B", "SAPA-B", "FLOPs", "+0.59", 8400 * 69_760 / 1e9, 8400 * 69_760 / 1e9),
        ("Mask2Former Swin-B", "CARAFE", "FLOPs", "+0.63", 0.6373376, 0.6373376),
        ("Faster R-CNN R50", "CARAFE", "Params", "+0.22", 0.221952, 0.222444),
        ("BTS R50", "CARAFE", "Params", "+0.41", 0.410624, 0.41128),
        ("BTS R50", "IndexNet", "Params", "+44.20", 44.186112, 44.193536),
        ("BTS R50", "A2U", "Params", "+0.08", 0.070528, 0.078104),
        ("BTS R50", "SAPA-B", "Params", "+0.16", 0.149504, 0.159104),
        ("BTS R50", "SAPA-G", "Params", "+0.25", 0.15232, 0.252164),
        ("A2U Matting R34", "SAPA-B", "Params", "+0.04", 0.032768, 0.035072),
        ("A2U Matting R34", "SAPA-G", "Params", "+0.04", 0.03328, 0.0521),
        ("A2U Matting R34", "A2U", "Params", "+0.02", 0.019456, 0.021656),
    ],
)
def test_a_cell_by_hand(model: str, up: str, column: str, paper: str, formula: float, ours: float) -> None:
    ((*_, printed, by_formula, by_module, _),) = (
        row for row in tables_2_to_5().rows if row[1:4] == (model, up, column)
    )
    assert printed == paper
    assert (by_formula, by_module) == (pytest.approx(formula), pytest.approx(ours))


def test_the_reasons_for_other_cells_are_true() -> None:
    def build(name: str, channels: int, guide_channels: int | None = None) -> sapa.Upsampler:
        return complexity.on_paper(name, channels, guide_channels)

    count, matting = complexity.parameters, (256, 128, 64, 64)
    # as trained, SAPA-G projects x after enlarging it
    trained = 9 * C * 32 + 100 * 32 + 100 * C + C + 8 * 32
    assert [round(n * trained / 1e9, 2) for n in (14_592, 8400, 6400)] == [1.50, 0.87, 0.66]
    bts = [build("indexnet_hin", x, y) for y, x in ((1024, 2048), (512, 512), (256, 128), (64, 128))]
    with_statistics = sum(count(up) + sum(b.numel() for b in up.buffers()) for up in bts)
    assert round(with_statistics / 1e6, 2) == 44.20
    m2o = sum(p.numel() for C in matting for p in build("indexnet_m2o", C).parameters() if p.ndim == 4)
    assert 2 * m2o == 12_255_232
    two_projections = sum(count(build("sapa_b", C)) + C + 1 for C in matting)
    assert two_projections == 35_588
    assert round(sum(count(build("sapa_g", C)) for C in matting) / 1e6, 2) == 0.05


# ---- the ways out


def test_the_ways_out() -> None:
    one = Table("one", ("name", "n", "part", "is"), [("a", 1234567, 0.12345, True), ("b, c", 2022, 2.0, False)])
    assert as_markdown([one]).splitlines()[2:] == ["| a | 1,234,567 | 0.12 | yes |", "| b, c | 2022 | 2.00 | no |"]
    assert json.loads(as_json([one]))[0] == {"name": "a", "n": 1234567, "part": 0.12345, "is": True}
    assert list(csv.reader(io.StringIO(as_csv([one]))))[2] == ["b, c", "2022", "2.0", "False"]
    two = Table("two", ("x",), [(None,)])
    assert list(json.loads(as_json([one, two]))) == ["one", "two"]
    assert "### two\n\n| x |\n| --- |\n|  |\n" in as_markdown([one, two])
    assert as_csv([one, two]).endswith('\n\nx\n""\n')
    assert one.select("is", "name").rows == [(True, "a"), (False, "b, c")]
