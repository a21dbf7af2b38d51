"""Joint bilateral upsampling against its definition, and the limits of its two Gaussians."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa.nn.joint_bilateral import JointBilateral, joint_bilateral


def slow(x: Tensor, guide: Tensor, K: int, sigma: float, sigma_space: float) -> Tensor:
    """The two Gaussians, point by point; the low-res guide is the mean of each cell."""
    (B, _, h, w), (H, W) = x.shape, guide.shape[2:]
    low = F.adaptive_avg_pool2d(guide, (h, w))
    y = x.new_zeros(B, x.shape[1], H, W)
    for p in range(H):
        for q in range(W):
            py, px = (p + 0.5) * h / H - 0.5, (q + 0.5) * w / W - 0.5
            cy, cx = round(py), round(px)
            total = x.new_zeros(B, 1)
            for i in range(max(0, cy - K // 2), min(h, cy + K // 2 + 1)):
                for j in range(max(0, cx - K // 2), min(w, cx + K // 2 + 1)):
                    near = ((i - py) ** 2 + (j - px) ** 2) / sigma_space**2
                    alike = (guide[..., p, q] - low[..., i, j]).square().sum(1) / sigma**2
                    weight = torch.exp(-(near + alike) / 2)[:, None]
                    y[..., p, q] += weight * x[..., i, j]
                    total += weight
            y[..., p, q] /= total
    return y


@pytest.mark.parametrize("size", [(6, 8), (9, 11)])
def test_definition(size: tuple[int, int], backend: str) -> None:
    x, guide = torch.randn(2, 3, 3, 4).double(), torch.randn(2, 5, *size).double() + 3
    for K, sigma, sigma_space in ((3, 1.0, 0.5), (5, 2.0, 1.5)):
        y = joint_bilateral(x, guide, kernel_size=K, sigma=sigma, sigma_space=sigma_space)
        torch.testing.assert_close(y, slow(x, guide, K, sigma, sigma_space))


def test_sigma_follows_the_guide() -> None:
    x, guide = torch.randn(2, 3, 3, 4).double(), torch.randn(2, 5, 6, 8).double()
    y = joint_bilateral(x, guide)
    torch.testing.assert_close(joint_bilateral(x, 255 * guide + 7), y)
    deviation = float((guide[:1] - guide[:1].mean((2, 3), keepdim=True)).square().sum(1).mean().sqrt())
    torch.testing.assert_close(joint_bilateral(x[:1], guide[:1], sigma=0.2 * deviation), y[:1])


def test_a_flat_guide_leaves_the_gaussian_of_space() -> None:
    x = torch.randn(1, 3, 4, 5)
    flat = joint_bilateral(x, torch.full((1, 2, 8, 10), 0.3))
    torch.testing.assert_close(flat, joint_bilateral(x, torch.randn(1, 2, 8, 10), sigma=1e6))
    near = joint_bilateral(x, torch.zeros(1, 2, 8, 10), sigma_space=0.05)
    torch.testing.assert_close(near, F.interpolate(x, scale_factor=2))


def test_edges_of_the_guide_stay_sharp() -> None:
    """A step that lies between two low-res points comes out where the guide has it, and bilinear blurs it."""
    guide = torch.zeros(1, 1, 16, 16)
    guide[..., 8:] = 1
    truth = 5 * guide - 2
    x = F.avg_pool2d(truth, 4)
    torch.testing.assert_close(joint_bilateral(x, guide), truth, rtol=0, atol=1e-4)
    assert (F.interpolate(x, scale_factor=4, mode="bilinear") - truth).abs().max() > 1


def test_a_constant_stays_constant_up_to_the_border() -> None:
    y = joint_bilateral(torch.full((1, 2, 3, 4), 1.5), torch.randn(1, 3, 7, 9))
    torch.testing.assert_close(y, torch.full_like(y, 1.5))


def test_half_precision_is_computed_in_single() -> None:
    x, guide = torch.randn(1, 3, 8, 8).bfloat16(), torch.rand(1, 3, 32, 32).bfloat16()
    y = joint_bilateral(x, guide)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, joint_bilateral(x.float(), guide.float()).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(joint_bilateral(x.float(), guide.float()), joint_bilateral(x.float(), guide))


def test_module_has_no_parameters_and_its_options_reach_the_function() -> None:
    up = sapa.build("joint_bilateral", 3, 5, kernel_size=(3, 5), sigma=0.7, sigma_space=1.0)
    assert isinstance(up, JointBilateral)
    assert not up.state_dict()
    x, guide = torch.randn(1, 3, 4, 4), torch.randn(1, 5, 8, 8)
    assert torch.equal(up(x, guide), joint_bilateral(x, guide, kernel_size=(3, 5), sigma=0.7, sigma_space=1.0))
    assert "sigma=0.7" in repr(up)


def test_messages() -> None:
    for name in ("sigma", "sigma_space"):
        with pytest.raises(ValueError, match=rf"JointBilateral: {name} must be positive, got 0\."):
            sapa.build("joint_bilateral", 3, **{name: 0})
    with pytest.raises(ValueError, match=r"joint_bilateral: H is smaller than h: guide is \[1, 3, 2, 2\]"):
        joint_bilateral(torch.zeros(1, 1, 4, 4), torch.zeros(1, 3, 2, 2))
