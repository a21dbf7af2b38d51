"""A2U: its limits, the way down that belongs to the way up, and the options of the release."""

from math import e
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from sapa.nn import A2U

GOLDEN = Path(__file__).with_name("golden") / "a2u__share_k6.safetensors"


def maps(C: int = 4, Cg: int = 32, size: tuple[int, int] = (8, 10)) -> tuple[Tensor, Tensor]:
    return torch.randn(2, C, 4, 5).double(), torch.randn(2, Cg, *size).double()


def make(C: int = 4, Cg: int | None = 32, **options) -> A2U:
    return A2U(C, Cg, **options).double()


def without_pattern(**options) -> A2U:
    up = make(**options)
    for name, parameter in up.named_parameters():
        if name.startswith(("bconv_UP", "bconv_DP")):
            nn.init.zeros_(parameter)
    return up


def expected_affinity(up: A2U, guide: Tensor, *, share: bool) -> Tensor:
    """Sample by sample, with the padding of the release."""
    k, C = up.encode_kernel_size, guide.shape[1]
    maps = []
    for sample in guide.split(1):
        u, v = (
            F.conv2d(sample, conv(sample).expand(1, C, k, k).view(C, 1, k, k), stride=2, padding=(k - 1) // 2, groups=C)
            for conv in (up.bconv_U, up.bconv_V)
        )
        assert up.bconv_U[1].weight.shape == ((1 if share else C), C, 1, 1)
        maps.append((up.bnu(u) * up.bnv(v)).sum(1, keepdim=True) / C**0.5)
    return torch.cat(maps)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("encode_kernel_size", [5, 6])
@pytest.mark.parametrize("up_kernel_size", [1, 3, 5])
def test_kernels_are_those_of_the_release(share: bool, encode_kernel_size: int, up_kernel_size: int) -> None:
    x, guide = maps()
    up = make(share=share, encode_kernel_size=encode_kernel_size, up_kernel_size=up_kernel_size)
    scores = F.pixel_shuffle(up.bconv_UP(guide) * expected_affinity(up, guide, share=share), 2).sigmoid()
    expected = scores if up_kernel_size == 1 else scores.softmax(1)
    torch.testing.assert_close(up.kernels(x, guide), expected)


def test_without_a_pattern_up_and_down_are_box_filters() -> None:
    x, guide = maps()
    up = without_pattern(with_pool=True)
    box = F.avg_pool2d(x, 3, stride=1, padding=1)
    torch.testing.assert_close(up(x, guide), F.interpolate(box, scale_factor=2))
    torch.testing.assert_close(up.pool(guide), F.avg_pool2d(F.pad(guide, (2, 2, 2, 2)), 6, stride=2))


def test_no_weight_exceeds_another_more_than_e_times() -> None:
    x, guide = maps()
    up = make()
    nn.init.normal_(up.get_parameter("bconv_UP.1.weight"), std=100)
    w = up.kernels(x, guide)
    torch.testing.assert_close(w.sum(1), torch.ones_like(w[:, 0]))
    ratio = w.amax(1) / w.amin(1)
    assert 2.7 < ratio.max() < e + 1e-9


def test_kernels_and_pool_on_the_golden_numbers() -> None:
    tensors = load_file(GOLDEN)
    up = A2U(4, 32, with_pool=True).double()
    up.load_state_dict({key.removeprefix("param."): t for key, t in tensors.items() if key.startswith("param.")})
    guide = tensors["guide"]
    torch.testing.assert_close(up.kernels(tensors["x"], guide), tensors["aux.kernel_up"])
    windows = F.unfold(F.pad(guide, (2, 3, 2, 3)), 6, stride=2).view(1, 32, 36, 4, 5)
    torch.testing.assert_close(up.pool(guide), (windows * tensors["aux.kernel_down"].unsqueeze(1)).sum(2))


@pytest.mark.parametrize("scale", [1, 2, 3, (2, 1)], ids=str)
def test_pool_at_other_scales_and_odd_sizes(scale: int | tuple[int, int]) -> None:
    up = without_pattern(scale=scale, with_pool=True)
    (Sy, Sx), (H, W) = up.scale, (7, 11)
    h, w = -(-H // Sy), -(-W // Sx)
    guide = torch.randn(2, 32, H, W).double()
    # a window is the cell and one whole cell on each side of it
    around = F.pad(guide, (Sx, Sx + w * Sx - W, Sy, Sy + h * Sy - H))
    torch.testing.assert_close(up.pool(guide), F.avg_pool2d(around, (3 * Sy, 3 * Sx), stride=(Sy, Sx)))


def test_groups_are_sorted_as_the_release_sorts_them() -> None:
    x, guide = maps()
    up = make(downupsample_group=2, with_pool=True)
    w = up.kernels(x, guide)
    assert w.shape == (2, 18, 8, 10)
    torch.testing.assert_close(w[:, 0::2].sum(1), torch.ones_like(w[:, 0]))
    first = F.unfold(x[:, :2], 3, padding=1).view(2, 2, 9, 4, 5).repeat_interleave(2, -1).repeat_interleave(2, -2)
    torch.testing.assert_close(up(x, guide)[:, :2], (first * w[:, None, :9]).sum(2))
    assert up.pool(guide).shape == (2, 32, 4, 5)


def test_any_guide_width_has_norm_groups() -> None:
    for Cg, groups in ((256, 32), (64, 32), (48, 16), (8, 8), (3, 1)):
        assert A2U(4, Cg).bnu[0].num_groups == groups
    x, guide = maps(4, 6, (7, 9))
    assert make(4, 6)(x, guide).shape == (2, 4, 7, 9)


def test_the_state_dict_of_the_release_loads_with_and_without_the_way_down() -> None:
    x, guide = maps()
    both, up = make(with_pool=True), make()
    decoder = nn.ModuleDict({"up": up})
    decoder.load_state_dict({f"up.{key}": value for key, value in both.state_dict().items()})
    assert torch.equal(up(x, guide), both(x, guide))
    assert set(both.state_dict()) - set(up.state_dict()) == {"bconv_DP.1.weight", "bconv_DP.1.bias"}
    with pytest.raises(RuntimeError, match=r'Missing key.*"bconv_DP.1.weight"'):
        both.load_state_dict(up.state_dict())


def test_pool_trains_its_own_pattern() -> None:
    _, guide = maps()
    up = make(with_pool=True)
    up.pool(guide).square().sum().backward()
    idle = [name for name, p in up.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == ["bconv_UP.1.weight", "bconv_UP.1.bias"]


def test_pool_keeps_format_and_dtype() -> None:
    guide = torch.randn(2, 32, 7, 9, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    y = A2U(4, 32, with_pool=True).to(torch.bfloat16).pool(guide)
    assert y.dtype == torch.bfloat16
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_parameter_counts_of_the_papers() -> None:
    def count(C: int, **options) -> int:
        return sum(p.numel() for p in A2U(C, **options).parameters())

    assert sum(count(C) for C in (1024, 512, 256, 64)) == 78_104  # the depth model of the SAPA paper
    # the matting model counts neither norm nor bias
    assert sum(p.numel() for p in A2U(256, with_pool=True).parameters() if p.ndim == 4) == 74 * 256


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"A2U.pool: this A2U only goes up; build it with with_pool=True"):
        make().pool(maps()[1])
    with pytest.raises(ValueError, match="A2U: up_kernel_size must be odd, so that a window has a centre; got 4"):
        A2U(8, up_kernel_size=4)
    with pytest.raises(ValueError, match="must divide channels; got downupsample_group = 3 and channels = 8"):
        A2U(8, downupsample_group=3)
    with pytest.raises(
        ValueError, match="must divide guide_channels; got downupsample_group = 2 and guide_channels = 5"
    ):
        A2U(8, 5, downupsample_group=2, with_pool=True)
    with pytest.raises(ValueError, match="built for 32 channels of guide"):
        make(with_pool=True).pool(torch.randn(1, 4, 6, 8).double())
