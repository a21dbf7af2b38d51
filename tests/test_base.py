"""The base class: which size a method is asked for, and what happens where it can only multiply."""

from typing import ClassVar

import pytest
import torch
from torch import Tensor

import sapa
from sapa.geometry import Size, keep_format


class Free(sapa.Upsampler):
    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        return x.new_ones(x.shape[0], x.shape[1], *size)


class Fixed(sapa.Upsampler):
    any_size: ClassVar[bool] = False

    def upsample(self, x: Tensor, guide: Tensor | None, size: Size) -> Tensor:
        assert size == (self.scale[0] * x.shape[2], self.scale[1] * x.shape[3])
        return keep_format(x.repeat_interleave(self.scale[0], 2).repeat_interleave(self.scale[1], 3), x)


def test_any_size_is_handed_on_as_it_is() -> None:
    x = torch.randn(1, 2, 3, 4)
    assert Free(2)(x).shape == (1, 2, 6, 8)
    assert Free(2, scale=(1, 3))(x).shape == (1, 2, 3, 12)
    assert Free(2, 5)(x, torch.randn(1, 5, 7, 4)).shape == (1, 2, 7, 4)


@pytest.mark.parametrize("size", [(7, 10), (8, 11), (9, 12)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_multiple_is_cut_to_the_guide(size: Size, layout: torch.memory_format) -> None:
    x = torch.randn(1, 2, 3, 4).contiguous(memory_format=layout)
    up = Fixed(2, scale=3)
    y = up(x, torch.randn(1, 2, *size))
    assert torch.equal(y, up(x)[..., : size[0], : size[1]])
    assert y.is_contiguous(memory_format=layout)


@pytest.mark.parametrize(("size", "needed"), [((6, 12), "2x4"), ((10, 12), "4x4"), ((9, 9), "3x3"), ((9, 13), "3x5")])
def test_another_size_is_refused_with_the_one_that_would_do(size: Size, needed: str) -> None:
    x = torch.randn(1, 2, 3, 4)
    message = (
        f"Fixed multiplies the size by scale=3: for the guide's {size[0]}x{size[1]} it needs x of {needed}, but x is "
        "3x4. Build it with another scale, or take one that fits any size: bilinear, sapa_b."
    )
    with pytest.raises(ValueError, match="multiplies") as error:
        Fixed(2, scale=3)(x, torch.randn(1, 2, *size))
    assert str(error.value) == message


def test_both_scales_are_named_where_they_differ() -> None:
    with pytest.raises(ValueError, match=r"by scale=\(2, 1\): for the guide's 6x8 it needs x of 3x8, but x is 3x4"):
        Fixed(2, scale=(2, 1))(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 6, 8))
    assert repr(Fixed(2, 3, scale=(2, 1))) == "Fixed(2, 3, scale=(2, 1))"


def test_the_methods_offered_for_any_size_are_such() -> None:
    for name in ("bilinear", "sapa_b"):
        assert sapa.build(name, 8).any_size


def test_a_subclass_without_upsample_is_told() -> None:
    class Empty(sapa.Upsampler):
        pass

    with pytest.raises(TypeError, match=r"Empty does not define upsample\(x, guide, size\)\."):
        Empty(2)(torch.randn(1, 2, 3, 4))
