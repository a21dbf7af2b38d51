"""IndexNet: what an index is, the way down that belongs to the way up, and the forms of the release."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sapa.nn import IndexNet

FORMS = ["hin", "m2o", "o2o"]


def maps(C: int = 4, Cg: int = 4, size: tuple[int, int] = (6, 8)) -> tuple[Tensor, Tensor]:
    return torch.randn(2, C, 3, 4).double(), torch.randn(2, Cg, *size).double()


def make(index: str, C: int = 4, Cg: int | None = None, **options) -> IndexNet:
    return IndexNet(C, Cg, index=index, **options).double().eval()


def cells(x: Tensor) -> Tensor:
    """The four points of each cell: [B, C, 4, h, w]."""
    return F.pixel_unshuffle(x, 2).unflatten(1, (-1, 4))


@pytest.mark.parametrize("index", FORMS)
@pytest.mark.parametrize("use_nonlinear", [True, False])
@pytest.mark.parametrize("use_context", [True, False])
def test_up_and_down_are_those_of_the_paper(index: str, use_nonlinear: bool, use_context: bool) -> None:
    x, guide = maps()
    up = make(index, use_nonlinear=use_nonlinear, use_context=use_context)
    down_index, up_index = up.indices(guide)
    assert up_index.shape == (2, 1 if index == "hin" else 4, 6, 8)
    assert ((up_index > 0) & (up_index < 1)).all()
    torch.testing.assert_close(cells(down_index), cells(up_index).softmax(2))
    torch.testing.assert_close(cells(down_index).sum(2), torch.ones_like(cells(down_index)[:, :, 0]))
    torch.testing.assert_close(up(x, guide), up_index * F.interpolate(x, scale_factor=2))
    torch.testing.assert_close(up.pool(guide), 4 * F.avg_pool2d(down_index * guide, 2))


@pytest.mark.parametrize("index", FORMS)
def test_without_evidence_it_is_half_of_nearest_and_the_mean(index: str) -> None:
    x, guide = maps()
    up = make(index)
    for name, parameter in up.named_parameters():
        if name.endswith("3.weight"):
            torch.nn.init.zeros_(parameter)
    torch.testing.assert_close(up(x, guide), F.interpolate(x, scale_factor=2) / 2)
    torch.testing.assert_close(up.pool(guide), F.avg_pool2d(guide, 2))


@pytest.mark.parametrize("point", range(4))
def test_the_heads_are_the_points_of_a_cell_row_by_row(point: int) -> None:
    guide = torch.ones(1, 4, 6, 8).double()
    for index in FORMS:
        up = make(index, use_nonlinear=False, use_context=False)
        for i, weight in enumerate(up.parameters() if index != "hin" else next(up.parameters()).split(1)):
            torch.nn.init.constant_(weight, 100 if i == point else -100)
        expected = torch.zeros(1, up.indices(guide)[1].shape[1], 4, 3, 4).double()
        expected[:, :, point] = 1
        torch.testing.assert_close(cells(up.indices(guide)[1]), expected)


def test_one_to_one_reads_its_own_channel_and_many_to_one_all() -> None:
    _, guide = maps()
    for index, is_own in (("o2o", True), ("m2o", False)):
        up = make(index)
        jacobian = torch.autograd.functional.jacobian(lambda g, up=up: up.indices(g)[1].sum((0, 2, 3)), guide)
        reads = jacobian.abs().sum((1, 3, 4)) > 0  # [C, Cg]
        assert torch.equal(reads, torch.eye(4).bool() if is_own else torch.ones(4, 4).bool())


@pytest.mark.parametrize("index", FORMS)
def test_an_odd_guide_is_a_whole_one_with_zeros_added(index: str) -> None:
    x, guide = maps(size=(5, 7))
    up = make(index)
    whole = F.pad(guide, (0, 1, 0, 1))
    for odd, even in zip(up.indices(guide), up.indices(whole), strict=True):
        torch.testing.assert_close(odd, even[..., :5, :7])
    torch.testing.assert_close(up.pool(guide), up.pool(whole))
    assert up.pool(guide).shape == (2, 4, 3, 4)
    assert up(x, guide).shape == (2, 4, 5, 7)


def test_other_scales_have_a_head_for_each_point() -> None:
    x = torch.randn(2, 4, 3, 4).double()
    for scale, heads in ((1, 1), (3, 9), ((2, 1), 2)):
        up = make("m2o", scale=scale)
        guide = torch.randn(2, 4, 3 * up.scale[0], 4 * up.scale[1]).double()
        assert len(list(up.children())) == heads
        assert up(x, guide).shape == guide.shape
        assert up.pool(guide).shape == x.shape


def test_channels_may_differ_where_the_index_does_not_forbid_it() -> None:
    x, guide = maps(4, 6)
    assert make("hin", 4, 6).pool(guide).shape == (2, 6, 3, 4)
    for index in ("hin", "m2o"):
        assert make(index, 4, 6)(x, guide).shape == (2, 4, 6, 8)
    with pytest.raises(ValueError, match=r"'o2o' takes the index .* x has 4 and guide 6 channels; use 'm2o' or 'hin'"):
        make("o2o", 4, 6)
    with pytest.raises(ValueError, match=r"index='m2o' has 4 indices.*cannot pool a guide of 6 channels"):
        make("m2o", 4, 6).pool(guide)


def test_state_dicts_are_those_of_the_release() -> None:
    def shapes(**options) -> dict[str, tuple[int, ...]]:
        return {name: tuple(p.shape) for name, p in IndexNet(8, **options).named_parameters()}

    assert shapes(index="hin") == {
        "indexnet.0.weight": (16, 8, 4, 4),
        "indexnet.1.weight": (16,),
        "indexnet.1.bias": (16,),
        "indexnet.3.weight": (4, 16, 1, 1),
    }
    assert shapes(index="hin", use_nonlinear=False, use_context=False) == {"indexnet.weight": (4, 8, 2, 2)}
    linear = shapes(index="m2o", use_nonlinear=False)
    assert linear == {f"indexnet{i}.0.weight": (8, 8, 4, 4) for i in (1, 2, 3, 4)}
    assert shapes(index="o2o")["indexnet4.0.weight"] == (8, 1, 4, 4)
    assert shapes(index="o2o")["indexnet4.3.weight"] == (8, 1, 1, 1)
    assert "indexnet.1.running_mean" in IndexNet(8).state_dict()


def test_parameter_counts_of_the_sapa_paper() -> None:
    def count(index: str) -> int:
        # the paper leaves out the norm
        return sum(p.numel() for p in IndexNet(256, index=index).parameters() if p.ndim == 4)

    assert count("hin") == 32 * 256**2 + 8 * 256
    assert count("m2o") == 68 * 256**2 == 4_456_448


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"IndexNet: no index 'holistic'. Available: hin, m2o, o2o"):
        IndexNet(8, index="holistic")
    with pytest.raises(ValueError, match="built for 8 channels of guide"):
        IndexNet(8).pool(torch.randn(1, 4, 6, 8))
