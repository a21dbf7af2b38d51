"""Upsamplers without learned kernels, and with fixed ones: bicubic, max unpooling, convolutions, bilinear additive."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sapa
from sapa.nn import BilinearAdditive, Deconv, MaxUnpool, PixelShuffle


def maps(C: int = 8, h: int = 5, w: int = 6, *, scale: int = 2) -> tuple[Tensor, Tensor]:
    return torch.randn(2, C, h, w).double(), torch.randn(2, C, scale * h, scale * w).double()


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_bicubic_is_that_of_pytorch(scale: int) -> None:
    x, _ = maps()
    expected = F.interpolate(x, scale_factor=scale, mode="bicubic")
    torch.testing.assert_close(sapa.build("bicubic", 8, scale=scale)(x), expected)


@pytest.mark.parametrize("scale", [2, 3, (1, 2)], ids=str)
def test_max_unpool_undoes_the_pooling_of_its_guide(scale: int | tuple[int, int]) -> None:
    _, guide = maps(scale=6)
    pooled, indices = F.max_pool2d(guide, scale, return_indices=True)
    up = MaxUnpool(8, scale=scale)
    y = up(pooled, guide)
    assert torch.equal(F.max_pool2d(y.abs(), scale), pooled.abs())
    assert torch.equal(y, torch.where(y != 0, guide, 0)), "what is kept stands where it stood"
    torch.use_deterministic_algorithms(False)
    assert torch.equal(y, F.max_unpool2d(pooled, indices, up.scale))


def test_max_unpool_takes_the_indices_of_a_pooling() -> None:
    x, guide = maps()
    pool = nn.MaxPool2d(2, return_indices=True)
    up = MaxUnpool(8)
    for layout in (torch.contiguous_format, torch.channels_last):
        _, indices = pool(guide.contiguous(memory_format=layout))
        y = up(x.contiguous(memory_format=layout), indices)
        assert torch.equal(y, up(x, guide))
        assert y.is_contiguous(memory_format=layout)


def test_max_unpool_with_cut_cells() -> None:
    x, guide = maps()
    guide = guide[..., :-1, :-1]
    y = MaxUnpool(8)(x, guide)
    assert y.shape == guide.shape
    assert torch.equal(y[..., :8, :10], MaxUnpool(8)(x[..., :4, :5], guide[..., :8, :10]))
    assert torch.equal(y[..., -1, -1], x[..., -1, -1]), "a cell of one point"


def test_max_unpool_passes_gradients_to_x_alone() -> None:
    x, guide = maps()
    x.requires_grad_()
    guide.requires_grad_()
    MaxUnpool(8)(x, guide).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.ones_like(x))
    assert guide.grad is None


def test_max_unpool_errors() -> None:
    x, guide = maps()
    with pytest.raises(ValueError, match=r"MaxUnpool: x and guide must have the same channels.*; got 8 and 4\."):
        MaxUnpool(8, 4)
    for wrong in (torch.zeros(2, 8, 5, 6, dtype=torch.int32), torch.zeros(2, 8, 10, 12, dtype=torch.int64)):
        with pytest.raises(ValueError, match=r"must be int64 and have the shape of x, \[2, 8, 5, 6\] \(B C h w\); got"):
            MaxUnpool(8)(x, wrong)
    with pytest.raises(ValueError, match=r"built for 4 channels of guide, but"):
        MaxUnpool(4)(x, torch.zeros(2, 8, 5, 6, dtype=torch.int64))
    with pytest.raises(TypeError, match="guide must be a tensor"):
        MaxUnpool(8)(x, [guide])  # type: ignore[arg-type]


def test_deconv_is_the_one_that_others_are_compared_with() -> None:
    x, _ = maps()
    up, official = Deconv(8).double(), nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=1).double()
    up.conv.load_state_dict(official.state_dict())
    torch.testing.assert_close(up(x), official(x))
    assert sum(p.numel() for p in Deconv(256).parameters()) == 9 * 256**2 + 256


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 5, (4, 7)], ids=str)
@pytest.mark.parametrize("scale", [2, 3, 5, (4, 2)], ids=str)
def test_deconv_of_every_size_multiplies_by_the_scale(kernel_size, scale) -> None:
    x, _ = maps()
    up = Deconv(8, scale=scale, kernel_size=kernel_size).double()
    assert up(x).shape == (2, 8, 5 * up.scale[0], 6 * up.scale[1])


def test_deconv_with_a_bilinear_kernel_is_bilinear_inside() -> None:
    x, _ = maps()
    up = Deconv(8, kernel_size=4, bias=False).double()
    row = torch.tensor([1, 3, 3, 1]).double() / 4
    with torch.no_grad():
        up.conv.weight.copy_(torch.eye(8)[..., None, None] * row[:, None] * row)
    expected = F.interpolate(x, scale_factor=2, mode="bilinear")
    torch.testing.assert_close(up(x)[..., 1:-1, 1:-1], expected[..., 1:-1, 1:-1])


def test_pixel_shuffle_is_the_one_that_others_are_compared_with() -> None:
    x, _ = maps()
    up, official = PixelShuffle(8).double(), nn.Conv2d(8, 32, 3, padding=1).double()
    up.conv.load_state_dict(official.state_dict())
    torch.testing.assert_close(up(x), F.pixel_shuffle(official(x), 2))
    assert sum(p.numel() for p in PixelShuffle(256).parameters()) == 36 * 256**2 + 4 * 256
    assert PixelShuffle(8, kernel_size=(1, 5), bias=False).double()(x).shape == (2, 8, 10, 12)


def test_bilinear_additive_adds_neighbouring_channels() -> None:
    x, _ = maps()
    up = BilinearAdditive(8).double()
    large = F.interpolate(x, scale_factor=2, mode="bilinear")
    sums = torch.stack([large[:, :4].sum(1), large[:, 4:].sum(1)], 1)
    torch.testing.assert_close(up.additive(x, (10, 12)), sums)
    torch.testing.assert_close(up(x), up.conv(sums) + sums.repeat_interleave(4, 1))
    plain = BilinearAdditive(8, is_residual=False).double()
    plain.load_state_dict(up.state_dict())
    torch.testing.assert_close(plain(x), up.conv(sums))
    assert sum(p.numel() for p in BilinearAdditive(256).parameters()) == 9 * 64 * 256 + 256


def test_bilinear_additive_without_groups_and_kernel_is_bilinear() -> None:
    x, _ = maps()
    up = BilinearAdditive(8, group=1, kernel_size=1).double()
    for parameter in up.parameters():
        nn.init.zeros_(parameter)
    torch.testing.assert_close(up(x), F.interpolate(x, scale_factor=2, mode="bilinear"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: BilinearAdditive(6),
            "BilinearAdditive: group must divide channels; got group = 4 and channels = 6.",
        ),
        (lambda: BilinearAdditive(8, group=0), "BilinearAdditive: group must be a positive integer, got 0."),
        (lambda: Deconv(8, scale=1, kernel_size=4), "Deconv: kernel_size must be odd where scale is 1, got 4."),
        (
            lambda: Deconv(8, kernel_size=0),
            "Deconv: kernel_size must be a positive integer, or a pair of them, got 0.",
        ),
        (
            lambda: PixelShuffle(8, kernel_size=2),
            "PixelShuffle: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; "
            "got 2.",
        ),
    ],
)
def test_messages(call, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        call()
    assert str(error.value) == message
