"""The paper as an executable specification. docs/paper.md maps each equation and table to these tests."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import sapa
from sapa import SAPA
from sapa.checks import NORMALIZE


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_eq_1_a_kernel_is_a_normalised_function_of_the_neighbourhood() -> None:
    q, k = torch.randn(1, 4, 12, 12), torch.randn(1, 4, 6, 6)
    w = sapa.kernels(q, k, kernel_size=3)
    torch.testing.assert_close(w.sum(1), torch.ones(1, 12, 12))
    # the kernel of l' = (6, 6) depends on the decoder points around l = (3, 3) and on no other
    far = k.clone()
    far[..., 0, :] = far[..., :, 0] = far[..., 5, :] = far[..., :, 5] = 100
    assert torch.equal(sapa.kernels(q, far, kernel_size=3)[..., 6, 6], w[..., 6, 6])
    near = k.clone()
    near[..., 4, 4] = 100
    assert not torch.equal(sapa.kernels(q, near, kernel_size=3)[..., 6, 6], w[..., 6, 6])


def test_eq_2_feature_assembly() -> None:
    v, w = torch.randn(1, 3, 5, 5).double(), torch.rand(1, 9, 10, 10).double()
    y = sapa.assemble(v, w)
    expected = sum(
        w[0, 3 * (u + 1) + (t + 1), 5, 6] * v[0, :, 5 // 2 + u, 6 // 2 + t] for u in (-1, 0, 1) for t in (-1, 0, 1)
    )
    torch.testing.assert_close(y[0, :, 5, 6], expected)


@pytest.mark.parametrize("normalize", [n for n in NORMALIZE if n != "none"])
def test_eq_3_the_generic_kernel(normalize: str) -> None:
    h = {"softmax": torch.exp, "relu": F.relu, "sigmoid": torch.sigmoid, "softplus": F.softplus}[normalize]
    x, y = torch.rand(9, 4).double(), torch.rand(4).double()
    k = x.T.view(1, 4, 3, 3)
    w = sapa.kernels(y.view(1, 4, 1, 1).expand(1, 4, 3, 3), k, kernel_size=3, normalize=normalize)
    f = h(x @ y)
    torch.testing.assert_close(w[0, :, 1, 1], f / f.sum(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("normalize", [n for n in NORMALIZE if n != "none"])
@pytest.mark.parametrize("K", [3, 5, 7])
def test_eq_4_a_smooth_window_gives_the_average_kernel_up_to_the_frame(K: int, normalize: str) -> None:
    b = torch.rand(4).double() + 0.1
    k, q = b.view(1, 4, 1, 1).expand(1, 4, 9, 9), torch.rand(1, 4, 18, 18).double()
    w = sapa.kernels(q, k, kernel_size=K, normalize=normalize, border="mask")
    is_inside = torch.tensor([[0 <= p // 2 + t - K // 2 < 9 for p in range(18)] for t in range(K)])  # [K, 18]
    taps = (is_inside[:, None, :, None] & is_inside[None, :, None, :]).flatten(0, 1).double()  # [K*K, 18, 18]
    assert (taps.sum(0)[K - 1 : 19 - K, K - 1 : 19 - K] == K * K).all()
    torch.testing.assert_close(w[0], taps / taps.sum(0), rtol=1e-4, atol=0)
    v = torch.full((1, 2, 9, 9), 3.0).double()
    y = sapa.attend(q, k, v, kernel_size=K, normalize=normalize, border="mask")
    torch.testing.assert_close(y, torch.full_like(y, 3.0), rtol=1e-4, atol=0)


@pytest.mark.parametrize("score", [0.0, 5.0, -2.0])
def test_eq_4_at_the_frame_of_the_official_border(score: float) -> None:
    """With n taps inside and a common score L, a constant map is scaled by n e^L / (n e^L + 25 - n)."""
    k, q = torch.ones(1, 1, 8, 8).double(), torch.full((1, 1, 16, 16), score).double()
    y = sapa.attend(q, k, torch.ones(1, 1, 8, 8).double())
    per_axis = torch.tensor([3, 4, 5, 5, 5, 5, 4, 3]).double().repeat_interleave(2)
    n = per_axis[:, None] * per_axis
    e = torch.tensor(score).double().exp()
    torch.testing.assert_close(y[0, 0], n * e / (n * e + 25 - n))


def test_eq_4_numbers_at_the_corner() -> None:
    def corner(score: float) -> float:
        q, k = torch.full((1, 1, 10, 10), float(score)), torch.ones(1, 1, 5, 5)
        return round(float(sapa.attend(q, k, torch.ones(1, 1, 5, 5))[0, 0, 0, 0]), 3)

    assert [corner(0), corner(5), corner(-2)] == [0.36, 0.988, 0.071]


def test_a_detail_window_selects_the_cluster_of_the_encoder_point() -> None:
    """Two clusters a ('wall') and b ('picture') meet between columns; each guide point takes the side it resembles."""
    a, b = torch.randn(2, 32)
    x = torch.where(torch.arange(8).view(1, 1, 1, 8) < 4, a.view(1, 32, 1, 1), b.view(1, 32, 1, 1)).expand(1, 32, 8, 8)
    # in the encoder the boundary lies at column 9 of 16, inside the low-res cell 4 that the decoder gave to b
    is_wall = torch.arange(16).view(1, 1, 1, 16) < 9
    guide = torch.where(is_wall, a.view(1, 32, 1, 1), b.view(1, 32, 1, 1)).expand(1, 32, 16, 16)
    up = SAPA(32, similarity="inner", border="mask")
    w = up.kernels(x, guide).view(1, 5, 5, 16, 16)
    wall, picture = (
        w[0, :, :2, 8, 8].min(),
        w[0, :, 2:, 8, 8].max(),
    )  # taps 0, 1 lie on the wall, 2, 3, 4 on the picture
    assert wall > 1e6 * picture
    torch.testing.assert_close(up(x, guide), guide, rtol=1e-4, atol=1e-4)
    blurred = F.interpolate(x, scale_factor=2, mode="bilinear")
    assert (blurred - guide).abs().max() > 0.5


def test_noise_of_the_encoder_is_filtered_in_a_smooth_window() -> None:
    x = torch.randn(1, 32, 1, 1).expand(1, 32, 8, 8)
    y = SAPA(32, similarity="inner", border="mask")(x, torch.randn(1, 32, 16, 16))
    torch.testing.assert_close(y, x[..., :1, :1].expand_as(y))


def test_the_gate_is_one_channel_in_the_open_unit_interval() -> None:
    x, guide = torch.randn(2, 16, 5, 5).double(), torch.randn(2, 16, 10, 10).double()
    up = SAPA(16, similarity="gated").double()
    of_guide, of_x = up.qy(up.norm_y(guide)), F.interpolate(up.qx(x), scale_factor=2)
    gate = (up.query(x, guide) - of_x) / (of_guide - of_x)  # [2, 32, 10, 10]
    assert ((gate > 0) & (gate < 1)).all()
    torch.testing.assert_close(gate, gate[:, :1].expand_as(gate))
    torch.testing.assert_close(gate, F.interpolate(gate[..., ::2, ::2], scale_factor=2))


def test_the_gate_moves_from_the_encoder_to_self_similarity() -> None:
    x, guide = torch.randn(1, 16, 4, 4), torch.randn(1, 16, 8, 8)
    up = SAPA(16, similarity="gated")
    assert up.gate.bias is not None
    nn.init.zeros_(up.gate.weight)
    for value, expected in ((40.0, up.qy(up.norm_y(guide))), (-40.0, F.interpolate(up.qx(x), scale_factor=2))):
        nn.init.constant_(up.gate.bias, value)
        torch.testing.assert_close(up(x, guide), sapa.attend(expected, up.k(up.norm_x(x)), x))


def test_the_variants_differ_only_in_preparing_q() -> None:
    x, guide = torch.randn(1, 16, 4, 4), torch.randn(1, 16, 8, 8)
    for similarity in ("inner", "bilinear", "gated", "plain"):
        up = SAPA(16, similarity=similarity)
        q = up.query(x, guide)
        torch.testing.assert_close(up(x, guide), sapa.attend(q, up.k(up.norm_x(x)), x))


def test_plain_addition_is_the_gate_removed() -> None:
    x, guide = torch.randn(1, 6, 4, 4), torch.randn(1, 5, 8, 8)
    up = SAPA(6, 5, similarity="plain")
    concatenated = torch.cat([up.norm_y(guide), F.interpolate(x, scale_factor=2)], 1)
    torch.testing.assert_close(up.query(x, guide), up.q(concatenated))


@pytest.mark.parametrize(("similarity", "expected"), [("inner", 0), ("bilinear", 17_472), ("gated", 25_953)])
def test_parameters_at_256_channels(similarity: str, expected: int) -> None:
    assert count(SAPA(256, similarity=similarity)) == expected


def test_parameters_of_the_projections_alone_are_those_of_table_1() -> None:
    def weights(similarity: str) -> int:
        named = SAPA(256, similarity=similarity, bias=False).named_parameters()
        return sum(p.numel() for name, p in named if "norm" not in name)

    C, d = 256, 32
    assert weights("bilinear") == 2 * C * d
    assert weights("gated") == 3 * C * d + C  # the table prints 2Cd + C, and omits one of the three projections


@pytest.mark.parametrize(("similarity", "expected"), [("bilinear", 159_104), ("gated", 252_164)])
def test_parameters_added_to_bts(similarity: str, expected: int) -> None:
    stages = ((1024, 2048), (512, 512), (256, 128), (64, 128))  # encoder, decoder
    assert sum(count(SAPA(decoder, encoder, similarity=similarity)) for encoder, decoder in stages) == expected


@pytest.mark.parametrize("embed_dim", [16, 32, 64, 128])
@pytest.mark.parametrize("kernel_size", [3, 5, 7])
def test_every_setting_of_the_ablation_runs(kernel_size: int, embed_dim: int) -> None:
    x, guide = torch.randn(1, 16, 4, 4), torch.randn(1, 16, 8, 8)
    up = SAPA(16, kernel_size=kernel_size, embed_dim=embed_dim)
    assert up(x, guide).shape == guide.shape
    assert up.kernels(x, guide).shape == (1, kernel_size**2, 8, 8)


def test_training_starts_close_to_a_box_filter() -> None:
    x, guide = torch.randn(1, 256, 8, 8), torch.randn(1, 256, 16, 16)
    for embed_dim, deviation in ((32, 0.58), (64, 0.82)):
        up = SAPA(256, embed_dim=embed_dim, normalize="none")
        scores = up.kernels(x, guide).detach()[..., 4:12, 4:12]
        assert abs(float(scores.std()) - deviation) < 0.1
