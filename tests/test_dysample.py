"""DySample in its four forms: bilinear at zero offset, where an offset leads, scopes, and old checkpoints."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.geometry import Size
from sapa.nn import DySample

NAMES = ["dysample", "dysample_plus", "dysample_s", "dysample_s_plus"]


def maps(C: int = 16) -> Tensor:
    return torch.randn(2, C, 5, 6).double()


def without_offset(channels: int = 16, **options) -> DySample:
    up = DySample(channels, **options).double()
    up.reset_parameters()  # in float64
    torch.nn.init.zeros_(up.offset.weight)
    return up


@pytest.mark.parametrize("scale", [1, 2, 4, (2, 4)], ids=str)
@pytest.mark.parametrize("style", ["lp", "pl"])
@pytest.mark.parametrize("dyscope", [False, True])
def test_without_offsets_it_is_bilinear(scale: int | Size, style: str, dyscope: bool) -> None:
    x = maps()
    y = without_offset(scale=scale, style=style, dyscope=dyscope)(x)
    torch.testing.assert_close(y, F.interpolate(x, scale_factor=scale, mode="bilinear"))


@pytest.mark.parametrize("name", NAMES)
def test_training_starts_near_bilinear(name: str) -> None:
    x = maps(64)
    y = sapa.build(name, 64).double()(x)
    torch.testing.assert_close(y, F.interpolate(x, scale_factor=2, mode="bilinear"), rtol=0, atol=0.05)


@pytest.mark.parametrize("style", ["lp", "pl"])
def test_an_offset_is_a_quarter_of_low_res_points_x_before_y(style: str) -> None:
    x = maps()
    up = without_offset(style=style)
    bias = torch.zeros(2, up.get_parameter("offset.bias").numel() // 2).double()
    bias[0], bias[1] = 4, -8  # one to the right, two up
    up.offset.bias = torch.nn.Parameter(bias.flatten())
    moved = F.pad(x, (0, 1, 2, 0), mode="replicate")[..., :5, 1:]
    y, expected = up(x), F.interpolate(moved, scale_factor=2, mode="bilinear")
    # elsewhere the frame of one map is inside the other
    torch.testing.assert_close(y[..., :8, 2:], expected[..., :8, 2:])


def test_groups_of_channels_have_offsets_of_their_own() -> None:
    x = maps()
    up = without_offset(groups=2)
    still = up(x)
    bias = torch.zeros(2, 2, 4).double()  # [x or y, G, cell]
    bias[:, 1] = 1
    up.offset.bias = torch.nn.Parameter(bias.flatten())
    assert torch.equal(up(x)[:, :8], still[:, :8])
    assert not torch.equal(up(x)[:, 8:], still[:, 8:])


def test_channels_of_the_offset_run_over_rows_and_columns_of_a_cell() -> None:
    x = maps()
    up = without_offset(scale=(2, 4), groups=1)
    still = up(x)
    bias = torch.zeros(2, 1, 2, 4).double()
    bias[:, :, 1, 2] = 1
    up.offset.bias = torch.nn.Parameter(bias.flatten())
    changed = (up(x) != still).any(1)
    assert changed[:, 1::2, 2::4].any()
    changed[:, 1::2, 2::4] = False
    assert not changed.any()


def test_outside_the_image_the_frame_goes_on() -> None:
    x = maps()
    up = without_offset()
    up.offset.bias = torch.nn.Parameter(torch.full((32,), 1000.0).double())
    assert torch.equal(up(x), x[..., -1:, -1:].expand(2, 16, 10, 12))


@pytest.mark.parametrize("style", ["lp", "pl"])
def test_dynamic_scope(style: str) -> None:
    x = maps()
    up, static = DySample(16, style=style, dyscope=True).double(), DySample(16, style=style).double()
    torch.nn.init.normal_(up.offset.weight)
    static.load_state_dict({key: value for key, value in up.state_dict().items() if "scope" not in key})
    torch.testing.assert_close(up(x), static(x))  # it starts at the static scope, half of sigmoid(0)
    scope = up.get_parameter("scope.weight")
    up(x).square().sum().backward()
    assert scope.grad is not None
    assert scope.grad.any()


def test_checkpoints_with_a_bias_of_the_scope_load_and_those_without() -> None:
    x = maps()
    up = DySample(16, dyscope=True).double()
    torch.nn.init.normal_(up.offset.weight)
    new = up.state_dict()
    assert "scope.bias" not in new
    before = up(x)
    old = new | {"scope.bias": torch.full((32,), 1000.0).double()}  # scope 1: offsets of a half, twice the static
    up.load_state_dict(old)
    twice = DySample(16).double()
    twice.load_state_dict({key: 2 * v if "offset" in key else v for key, v in new.items() if "scope" not in key})
    torch.testing.assert_close(up(x), twice(x))
    assert set(up.state_dict()) == set(old)
    up.load_state_dict(new)
    assert torch.equal(up(x), before)
    decoder = torch.nn.ModuleDict({"up": DySample(16, dyscope=True).double()})
    decoder.load_state_dict({f"up.{key}": value for key, value in old.items()})
    with pytest.raises(RuntimeError, match=r"size mismatch for scope.bias"):
        up.load_state_dict(new | {"scope.bias": torch.zeros(3)})


def test_places_of_a_cell() -> None:
    up = DySample(16, scale=(2, 4), groups=2)
    x, y = up.init_pos.view(2, 2, 2, 4)
    assert torch.equal(x, torch.tensor([-0.375, -0.125, 0.125, 0.375]).expand(2, 2, 4))
    assert torch.equal(y, torch.tensor([[-0.25], [0.25]]).expand(2, 2, 4))
    assert DySample(16, scale=3, groups=4).state_dict()["init_pos"].shape == (1, 72, 1, 1)
    with torch.device("meta"):
        empty = DySample(16, scale=(2, 4), groups=2)
    empty.to_empty(device="cpu").reset_parameters()
    assert torch.equal(empty.init_pos, up.init_pos)


def test_places_are_exact_in_a_large_half_precision_map() -> None:
    x = torch.randn(1, 4, 1, 5000).half()
    up = without_offset(4).half()
    expected = F.interpolate(x.double(), scale_factor=2, mode="bilinear")
    torch.testing.assert_close(up(x).double(), expected, rtol=0, atol=0.005)


@pytest.mark.parametrize("name", NAMES)
def test_first_values(name: str) -> None:
    up = sapa.build(name, 256, scale=4)
    weight = up.get_parameter("offset.weight").detach()
    assert abs(float(weight.std()) - 0.001) < 0.0001
    zeros = [key for key, value in up.named_parameters() if not value.any()]
    assert zeros == ["offset.bias"] + ["scope.weight"] * ("plus" in name)


def test_parameter_counts_of_three_stages() -> None:
    count = {name: 3 * sum(p.numel() for p in sapa.build(name, 256).parameters()) for name in NAMES}
    assert count == {"dysample": 24_672, "dysample_plus": 49_248, "dysample_s": 3_120, "dysample_s_plus": 6_192}


ERRORS = [
    ({"groups": 3}, "DySample: groups must divide channels; got groups = 3 and channels = 8."),
    ({"groups": 0}, "DySample: groups must be a positive integer, got 0."),
    ({"style": "ps"}, "DySample: no style 'ps'. Available: lp, pl."),
    (
        {"style": "pl", "scale": (3, 1)},
        "DySample: style='pl' spreads the channels over 3x1 points, so channels must be divisible by 3, got 8. "
        "Use style='lp', or another scale.",
    ),
]


@pytest.mark.parametrize(("options", "message"), ERRORS)
def test_errors(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        DySample(8, **options)
