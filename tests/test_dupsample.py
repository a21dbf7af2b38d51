"""DUpsample: the order of its channels, its temperature, and the pre-training of its matrix."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.nn import DUpsample


def labels(classes: int = 3, size: tuple[int, int] = (12, 16)) -> Tensor:
    """One-hot maps of half planes, which have few different cells."""
    rows, columns = torch.meshgrid(*(torch.arange(n) for n in size), indexing="ij")
    kinds = torch.stack([(rows + columns * a > b).long() + (columns > c).long() for a, b, c in ((1, 9, 5), (0, 4, 11))])
    return F.one_hot(kinds, classes).permute(0, 3, 1, 2).double()


@torch.no_grad()
def test_channels_are_points_of_the_cell_row_by_row_and_then_classes() -> None:
    x = torch.randn(2, 5, 3, 4)
    up = DUpsample(5, out_channels=7, scale=(2, 3))
    assert up.conv_w.weight.shape == (42, 5, 1, 1)
    z, y = up.conv_w(x), up(x)
    for a in range(2):
        for b in range(3):
            part = z[:, (a * 3 + b) * 7 : (a * 3 + b + 1) * 7]
            assert torch.equal(y[..., a::2, b::3], part)


def test_temperature_divides_and_is_learned() -> None:
    x = torch.randn(2, 8, 3, 4)
    plain, tempered = DUpsample(8), DUpsample(8, has_temperature=True)
    assert set(plain.state_dict()) == {"conv_w.weight"}
    tempered.load_state_dict({**plain.state_dict(), "T": torch.tensor([1.0])})
    assert torch.equal(tempered(x), plain(x))
    tempered.load_state_dict({**plain.state_dict(), "T": torch.tensor([2.0])})
    torch.testing.assert_close(tempered(x), plain(x) / 2)
    tempered(x).square().sum().backward()
    assert tempered.T is not None
    assert tempered.T.grad is not None
    assert tempered.T.grad < 0


@torch.no_grad()
def test_fitted_matrix_restores_maps_of_low_rank() -> None:
    y = labels()
    up = DUpsample(12, out_channels=3, scale=4).double()
    assert up.fit_(y) < 1e-12
    assert up.shrink(y).shape == (2, 12, 3, 4)
    torch.testing.assert_close(up(up.shrink(y)), y, rtol=0, atol=1e-9)
    assert up.conv_w.weight.requires_grad


@torch.no_grad()
def test_fitted_matrix_loses_least() -> None:
    y = torch.randn(2, 3, 8, 8).double()
    up = DUpsample(5, out_channels=3).double()
    lost = up.fit_(y)
    squared = float((up(up.shrink(y)) - y).square().sum() / y.square().sum())
    assert abs(lost - squared) < 1e-9
    cells = y.unflatten(3, (4, 2)).unflatten(2, (4, 2)).permute(0, 2, 4, 3, 5, 1).reshape(-1, 12)
    values = torch.linalg.svdvals(cells).square()
    assert abs(lost - float(values[5:].sum() / values.sum())) < 1e-9
    basis = up.conv_w.weight.flatten(1)
    torch.testing.assert_close(basis.t() @ basis, torch.eye(5).double())


@torch.no_grad()
def test_fit_takes_several_maps_of_any_size_and_more_channels_than_it_needs() -> None:
    up = DUpsample(20, out_channels=3).double()
    assert up.fit_(map(labels, (3, 3), ((12, 16), (7, 5)))) < 1e-12
    y = labels(size=(7, 5))
    torch.testing.assert_close(up(up.shrink(y), y.new_zeros(2, 20, 7, 5)), y, rtol=0, atol=1e-9)
    assert up.fit_(torch.zeros(1, 3, 4, 4)) == 0


def test_fit_says_what_is_wrong() -> None:
    up = DUpsample(8, out_channels=3)
    with pytest.raises(ValueError, match=r"DUpsample was built for 3 channels of maps, but maps is \[1, 4, 8, 8\]"):
        up.fit_(torch.zeros(1, 4, 8, 8))
    with pytest.raises(ValueError, match=r"DUpsample.fit_: maps is int64; convert it"):
        up.fit_(torch.zeros(1, 3, 8, 8, dtype=torch.int64))


def test_checkpoints_with_both_matrices_load() -> None:
    up = DUpsample(8)
    up.load_state_dict({"conv_w.weight": torch.ones(32, 8, 1, 1), "conv_p.weight": torch.ones(8, 32, 1, 1)})
    assert up.conv_w.weight.eq(1).all()


def test_parameters() -> None:
    assert sum(p.numel() for p in sapa.build("dupsample", 64, out_channels=21, scale=8).parameters()) == 64 * 21 * 64
    assert float(DUpsample(64).conv_w.weight.detach().abs().max()) <= 1 / 8, "the first values of PyTorch"
