"""CARAFE: its limits, its options, its first values, and the order of its kernels."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.geometry import Size, nearest, pixel_shuffle
from sapa.nn import CARAFE


def maps(C: int = 8) -> Tensor:
    return torch.randn(2, C, 5, 6, dtype=torch.float64)


def with_scores(scores: Tensor, **options) -> CARAFE:
    """Kernels that are the same for every cell: scores [G*P*S_y*S_x]."""
    up = CARAFE(8, **options).double()
    torch.nn.init.zeros_(up.content_encoder.weight)
    up.content_encoder.bias = torch.nn.Parameter(scores)
    return up


def box(x: Tensor, K: int, size: Size) -> Tensor:
    return nearest(F.avg_pool2d(x, K, stride=1, padding=K // 2), size)


@pytest.mark.parametrize("scale", [1, 2, 3, (2, 3)], ids=str)
@pytest.mark.parametrize(("K", "G"), [(1, 1), (3, 2), (5, 4)])
def test_without_scores_it_is_a_box_filter(K: int, G: int, scale: int | Size) -> None:
    x = maps()
    Sy, Sx = (scale, scale) if isinstance(scale, int) else scale
    scores = torch.full((G * K * K * Sy * Sx,), 0.7).double()
    y = with_scores(scores, scale=scale, up_kernel=K, up_group=G)(x)
    torch.testing.assert_close(y, box(x, K, (5 * Sy, 6 * Sx)))


def test_training_starts_near_a_box_filter() -> None:
    x = maps(64)
    torch.testing.assert_close(CARAFE(64).double()(x), box(x, 5, (10, 12)), rtol=0, atol=0.05)


def test_channels_of_the_encoder_run_over_groups_taps_rows_and_columns_of_a_cell() -> None:
    x, (G, Sy, Sx) = maps(), (2, 2, 3)
    taps = torch.randint(9, (G, Sy, Sx))
    scores = 1000 * F.one_hot(taps, 9).permute(0, 3, 1, 2).double()  # [G, P, S_y, S_x]
    y = with_scores(scores.flatten(), scale=(Sy, Sx), up_kernel=3, up_group=G)(x)
    padded = F.pad(x, (1, 1, 1, 1))
    for g in range(G):
        for a in range(Sy):
            for b in range(Sx):
                i, j = divmod(int(taps[g, a, b]), 3)
                expected = padded[:, 4 * g : 4 * g + 4, i : i + 5, j : j + 6]
                assert torch.equal(y[:, 4 * g : 4 * g + 4, a::Sy, b::Sx], expected)


def test_pixel_shuffle_is_that_of_pytorch() -> None:
    x = torch.randn(2, 18, 4, 5)
    assert torch.equal(pixel_shuffle(x, (3, 3)), F.pixel_shuffle(x, 3))
    assert pixel_shuffle(x, (3, 2)).shape == (2, 3, 12, 10)
    assert torch.equal(pixel_shuffle(x, (3, 2))[:, 1, 2::3, 1::2], x[:, 6 + 2 * 2 + 1])


@pytest.mark.parametrize("G", [1, 4])
def test_kernels_are_those_that_forward_applies(G: int) -> None:
    x = maps()
    up = CARAFE(8, scale=3, up_kernel=3, up_group=G).double()
    torch.nn.init.normal_(up.content_encoder.weight)
    w = up.kernels(x)
    assert w.shape == (2, G * 9, 15, 18)
    torch.testing.assert_close(w.view(2, G, 9, 15, 18).sum(2), torch.ones(2, G, 15, 18).double())
    torch.testing.assert_close(sapa.assemble(x, w, groups=G), up(x))
    assert torch.equal(up.kernels(x, torch.randn(2, 8, 14, 18).double()), w)


@pytest.mark.parametrize(("K", "dilation"), [(1, 1), (3, 2), (5, 1), (5, 3)])
def test_encoder_kernel_and_dilation(K: int, dilation: int) -> None:
    up = CARAFE(8, encoder_kernel=K, encoder_dilation=dilation, compressed_channels=6).double()
    assert up.channel_compressor.weight.shape == (6, 8, 1, 1)
    assert up.content_encoder.weight.shape == (100, 6, K, K)
    # a score sees this far, and no farther
    x = torch.zeros(1, 8, 31, 31, dtype=torch.float64)
    x[..., 15, 15] = 1
    changed = (up.kernels(x) - up.kernels(torch.zeros_like(x))).abs().sum(1).nonzero()[:, 1]
    reach = K // 2 * dilation
    assert (int(changed.min()), int(changed.max())) == (2 * (15 - reach), 2 * (15 + reach) + 1)


def test_inductor_lays_out_the_encoder_of_any_size() -> None:
    x, up = torch.randn(2, 8, 5, 6), CARAFE(8)
    torch.testing.assert_close(torch.compile(up, fullgraph=True, dynamic=True)(x), up(x))


def test_first_values() -> None:
    up = CARAFE(256)
    limit = (6 / (256 + 64)) ** 0.5
    compressor = up.channel_compressor.weight.detach()
    assert 0.95 * limit < float(compressor.abs().max()) <= limit
    assert abs(float(up.content_encoder.weight.detach().std()) - 0.001) < 0.00002
    assert not any(p.any() for name, p in up.named_parameters() if name.endswith("bias"))


def test_parameter_counts() -> None:
    def weights(*channels: int) -> int:
        return sum(p.numel() for C in channels for name, p in CARAFE(C).named_parameters() if name.endswith("weight"))

    assert weights(2048, 512, 128, 128) == 410_624  # BTS
    assert weights(256, 128, 64, 64) == 263_168  # matting
    assert sum(p.numel() for p in CARAFE(256).parameters()) == 73_984 + 64 + 100


ERRORS = [
    ({"up_kernel": 4}, "CARAFE: up_kernel must be odd, so that a window has a centre; got 4."),
    ({"encoder_kernel": 2}, "CARAFE: encoder_kernel must be odd, so that a window has a centre; got 2."),
    ({"up_group": 3}, "CARAFE: up_group must divide channels; got up_group = 3 and channels = 8."),
    ({"compressed_channels": 0}, "CARAFE: compressed_channels must be a positive integer, got 0."),
    ({"encoder_dilation": 1.5}, "CARAFE: encoder_dilation must be a positive integer, got 1.5."),
]


@pytest.mark.parametrize(("options", "message"), ERRORS)
def test_errors(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        CARAFE(8, **options)
