"""The options of SAPA and SAPA-D: priors, norms, value projection, and the state dicts of both releases."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sapa
from sapa import SAPA, SAPADeform


def maps(C: int = 8, Cg: int = 8, *, scale: int = 2) -> tuple[Tensor, Tensor]:
    return torch.randn(2, C, 5, 6).double(), torch.randn(2, Cg, 5 * scale, 6 * scale).double()


def with_zero_projections(**options) -> SAPA:
    torch.set_default_dtype(torch.float64)  # or the tables would be rounded to float32
    try:
        up = SAPA(8, **options)
    finally:
        torch.set_default_dtype(torch.float32)
    for name, parameter in up.named_parameters():
        if not name.startswith("prior"):
            torch.nn.init.zeros_(parameter)
    return up


@pytest.mark.parametrize("similarity", ["bilinear", "gated", "plain"])
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_bilinear_prior_starts_as_bilinear_interpolation(scale: int, similarity: str) -> None:
    x, guide = maps(scale=scale)
    up = with_zero_projections(similarity=similarity, scale=scale, prior="bilinear")
    expected = F.interpolate(x, scale_factor=scale, mode="bilinear")
    torch.testing.assert_close(up(x, guide), expected, rtol=1e-8, atol=1e-8)


def test_bilinear_prior_with_zero_border_interpolates_the_map_with_zeros_around() -> None:
    x, guide = maps()
    up = with_zero_projections(prior="bilinear", border="zero")
    expected = F.interpolate(F.pad(x, (1, 1, 1, 1)), scale_factor=2, mode="bilinear")[..., 2:-2, 2:-2]
    torch.testing.assert_close(up(x, guide), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_gaussian_prior_starts_as_gaussian_interpolation(scale: int) -> None:
    x, guide = maps(scale=scale)
    up = with_zero_projections(scale=scale, kernel_size=3, prior="gaussian")

    def matrix(low: int) -> Tensor:
        place = (torch.arange(low * scale).double() + 0.5) / scale - 0.5
        distance = place[:, None] - torch.arange(low)
        near = (torch.arange(low * scale)[:, None] // scale - torch.arange(low)).abs() <= 1
        weight = torch.exp(-((distance / 0.5) ** 2) / 2) * near
        return weight / weight.sum(1, keepdim=True)

    expected = torch.einsum("yi,xj,bcij->bcyx", matrix(5), matrix(6), x)
    torch.testing.assert_close(up(x, guide), expected)


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_init_std_is_that_of_queries_and_keys(norm: str) -> None:
    up = SAPA(256, similarity="gated", norm=norm, init_std=0.1)
    for name, expected in {"qx": 0.1, "qy": 0.1, "k": 0.1, "gate": 0.02}.items():
        module = getattr(up, name)
        module.reset_parameters()
        assert abs(float(module.weight.detach().std()) / expected - 1) < 0.15, name
    with pytest.raises(ValueError, match="init_std must be a positive number, got 0"):
        SAPA(8, init_std=0.0)


def test_modules_made_on_meta_are_initialised_by_reset_parameters() -> None:
    with torch.device("meta"):
        up = SAPA(256, prior="bilinear")
    up.to_empty(device="cpu")
    for module in up.modules():
        reset: Any = getattr(module, "reset_parameters", None)
        if reset:
            reset()
    assert abs(float(up.get_parameter("k.weight").detach().std()) - 0.02) < 0.002
    assert torch.equal(up.get_parameter("prior.rows"), SAPA(256, prior="bilinear").get_parameter("prior.rows"))


def test_prior_is_learned_and_takes_any_size() -> None:
    up = SAPA(8, prior="gaussian", scale=2)
    x, guide = torch.randn(1, 8, 3, 4), torch.randn(1, 8, 7, 10)
    up(x, guide).square().sum().backward()
    assert up.prior is not None
    assert up.prior.rows.shape == (2, 5)
    assert all(p.grad is not None and p.grad.any() for p in up.prior.parameters())
    rows, _ = up.prior((6, 8), (3, 4))
    assert torch.equal(rows, up.prior.rows[torch.tensor([0, 1, 0, 1, 0, 1])])


def test_a_low_tap_of_the_bilinear_prior_can_be_reached_by_similarity() -> None:
    up = SAPA(8, prior="bilinear")
    x, guide = torch.randn(1, 8, 3, 4), torch.randn(1, 8, 6, 8)
    for name in ("q.weight", "k.weight"):
        torch.nn.init.normal_(up.get_parameter(name), std=4)
    far = up.kernels(x, guide).view(1, 5, 5, 6, 8)[:, 0, :, 4:]
    assert far.max() > 0.5


def test_kernels_are_those_that_forward_applies() -> None:
    x, guide = maps()
    for name in ("sapa_i", "sapa_b", "sapa_p", "sapa_g"):
        up = sapa.build(name, 8).double()
        assert isinstance(up, SAPA)
        torch.testing.assert_close(sapa.assemble(x, up.kernels(x, guide)), up(x, guide))


def test_value_projection_changes_the_channels() -> None:
    x, guide = maps()
    up = SAPA(8, out_channels=3).double()
    assert up(x, guide).shape == (2, 3, 10, 12)
    assert up.state_dict()["v.weight"].shape == (3, 8)


def test_value_projection_beside_a_norm_without_parameters() -> None:
    x, guide = maps(8, 8)
    up: Any = SAPA(8, similarity="inner", out_channels=3).double()
    q, k = (F.layer_norm(m.movedim(1, -1), (8,)).movedim(-1, 1) for m in (guide, x))
    v = F.conv2d(k, up.v.weight[..., None, None], up.v.bias)
    torch.testing.assert_close(up(x, guide), sapa.attend(q, k, v))


def test_group_norm_and_no_norm() -> None:
    x, guide = maps(32, 64)
    group, none = SAPA(32, 64, norm="group").double(), SAPA(32, 64, norm="none").double()
    assert group.state_dict()["q.weight"].shape == (32, 64, 1, 1)
    assert [key for key in none.state_dict() if "norm" in key] == []
    none.load_state_dict({k: v for k, v in group.state_dict().items() if "norm" not in k})
    q, k = none.q(group.norm_y(guide)), none.k(group.norm_x(x))
    torch.testing.assert_close(group(x, guide), sapa.attend(q, k, x))


def test_inner_group_norm_has_no_parameters() -> None:
    assert list(SAPA(32, similarity="inner", norm="group").parameters()) == []


def test_names_of_the_authors_training_code_load() -> None:
    names = {"qy": "q.proj_y", "qx": "q.proj_x", "gate": "q.gate", "k": "k.proj", "q": "q.proj"}
    for similarity in ("bilinear", "gated"):
        up, twin = SAPA(8, similarity=similarity), SAPA(8, similarity=similarity)
        state = {}
        for key, value in up.state_dict().items():
            module, kind = key.split(".")
            state[f"{names.get(module, module)}.{kind}"] = value
        assert set(state) != set(up.state_dict())
        twin.load_state_dict(state)
        x, guide = torch.randn(1, 8, 3, 4), torch.randn(1, 8, 6, 8)
        assert torch.equal(twin(x, guide), up(x, guide))
        decoder = torch.nn.ModuleDict({"up": twin})
        decoder.load_state_dict({f"up.{key}": value for key, value in state.items()})


def test_layer_norm_weights_do_not_load_into_the_group_norm_form() -> None:
    with pytest.raises(RuntimeError, match=r"size mismatch for q.weight"):
        SAPA(32, norm="group").load_state_dict(SAPA(32, norm="layer").state_dict())


def test_without_a_norm_both_weight_shapes_load() -> None:
    up = SAPA(8, norm="none", similarity="gated")
    flat = {key: value.flatten(1) if key.endswith("weight") else value for key, value in up.state_dict().items()}
    twin = SAPA(8, norm="none", similarity="gated")
    twin.load_state_dict(flat)
    assert all(torch.equal(a, b) for a, b in zip(up.parameters(), twin.parameters(), strict=True))


@pytest.mark.parametrize("make", [lambda: SAPA(256, 512), lambda: SAPA(256, norm="none"), lambda: SAPADeform(256)])
def test_initial_projections_are_normal_with_deviation_0_02(make) -> None:
    for name, parameter in make().named_parameters():
        if name.endswith("weight") and "norm" not in name:
            assert abs(float(parameter.detach().std()) - 0.02) < 0.002
            assert abs(float(parameter.detach().mean())) < 0.002
        elif name.endswith("bias"):
            assert not parameter.any()


def test_projecting_before_enlarging_is_equal() -> None:
    x, guide = maps(8, 4)
    up = sapa.build("sapa_g", 8, 4).double()
    assert isinstance(up, SAPA)
    large = F.interpolate(x, scale_factor=2)
    gate = torch.sigmoid(F.interpolate(up.gate(up.norm_x(x)), scale_factor=2))
    q = gate * up.qy(up.norm_y(guide)) + (1 - gate) * up.qx(large)
    torch.testing.assert_close(up(x, guide), sapa.attend(q, up.k(up.norm_x(x)), x))


def test_deform_with_zero_offsets_is_nearest() -> None:
    x, guide = maps()
    up = SAPADeform(8).double()
    torch.nn.init.zeros_(up.offset.weight)
    torch.testing.assert_close(up(x, guide), F.interpolate(x, scale_factor=2))


def test_deform_options() -> None:
    x, guide = maps(64, 32, scale=3)
    up = SAPADeform(64, 32, scale=3, points=5, groups=2, embed_dim=7, norm="group", is_high_res=False).double()
    assert up.offset.weight.shape == (5 * 2 * 2, 64, 1, 1)
    assert up.q.weight.shape == (14, 32, 1, 1)
    assert up(x, guide).shape == (2, 64, 15, 18)
    assert SAPADeform(256).offset.weight.numel() + 2 * 256 * 4 * 32 == 139_264
