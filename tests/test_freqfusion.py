"""FreqFusion: its limits, both outputs, and the options of the release."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.export import Dim, export

import sapa
from sapa.nn import FreqFusion
from sapa.nn.similarity_sampler import SimilaritySampler, similarity

GOLDEN = Path(__file__).with_name("golden") / "freqfusion__default.safetensors"
RESAMPLE = {"feature_resample": True, "compressed_channels": 16}


def maps(C: int = 4, Cg: int = 6, size: tuple[int, int] = (8, 10)) -> tuple[Tensor, Tensor]:
    return torch.randn(2, C, 4, 5).double(), torch.randn(2, Cg, *size).double()


def make(C: int = 4, Cg: int = 6, *, compressed_channels: int = 8, **options) -> FreqFusion:
    """With kernels far from the first ones, which are all alike."""
    up = FreqFusion(C, Cg, compressed_channels=compressed_channels, **options).double()
    for parameter in up.parameters():
        nn.init.normal_(parameter, std=0.2)
    return up


def without_scores(**options) -> FreqFusion:
    up = make(**options)
    for name, parameter in up.named_parameters():
        if name.startswith("content_encoder"):
            nn.init.zeros_(parameter)
    return up


def blur(x: Tensor, window: Tensor) -> Tensor:
    K, C = window.shape[-1], x.shape[1]
    return F.conv2d(x, (window / window.sum()).expand(C, 1, K, K), padding=K // 2, groups=C)


def normalized(scores: Tensor, window: Tensor, groups: int = 1) -> Tensor:
    """In the order of the release: softmax, window, and the sum of each kernel once more."""
    w = scores.unflatten(1, (groups, -1)).softmax(2) * window.reshape(-1, 1, 1)
    return (w / w.sum(2, keepdim=True)).flatten(1, 2)


@pytest.mark.parametrize("options", [{}, {"comp_feat_upsample": False}, {"semi_conv": False}], ids=str)
@pytest.mark.parametrize("hamming_window", [True, False])
def test_without_scores_it_blurs_and_sharpens_with_a_fixed_window(options: dict, hamming_window: bool) -> None:
    x, guide = maps()
    up = without_scores(hamming_window=hamming_window, **options)
    low, high = up.hamming_lowpass.expand(1, 1, 5, 5), up.hamming_highpass.expand(1, 1, 3, 3)
    y, sharp = up.fuse(x, guide)
    large = F.interpolate(x, scale_factor=2)
    expected = blur(large, low) if options.get("semi_conv") is False else F.interpolate(blur(x, low), scale_factor=2)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(sharp, 2 * guide - blur(guide, high))


def test_windows_are_those_of_the_release() -> None:
    tensors, up = load_file(GOLDEN), FreqFusion(4)
    for name, window in up.named_buffers():
        torch.testing.assert_close(window.double(), tensors[f"param.{name}"])
    assert [tuple(b.shape) for b in FreqFusion(4, hamming_window=False).buffers()] == [(1,), (1,)]


@pytest.mark.parametrize("semi_conv", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_plain_kernels_are_those_of_the_release(semi_conv: bool, groups: int) -> None:
    x, guide = maps()
    up = make(semi_conv=semi_conv, comp_feat_upsample=False, up_group=groups, encoder_kernel=5, encoder_dilation=2)
    assert up.content_encoder2 is not None
    z, g = up.lr_channel_compressor(x), up.hr_channel_compressor(guide)

    def scores(encoder: nn.Module) -> Tensor:
        if semi_conv:
            return encoder(g) + F.interpolate(encoder(z), scale_factor=2)
        return encoder(g + F.interpolate(z, scale_factor=2))

    low = normalized(scores(up.content_encoder), up.hamming_lowpass, groups)
    high = normalized(scores(up.content_encoder2), up.hamming_highpass, groups)
    y, sharp = up.fuse(x, guide)
    v = x if semi_conv else F.interpolate(x, scale_factor=2)
    torch.testing.assert_close(y, sapa.assemble(v, low, groups=groups))
    torch.testing.assert_close(sharp, 2 * guide - sapa.assemble(guide, high, groups=groups))


@pytest.mark.parametrize("align_corners", [True, False])
def test_bilinear_before_the_kernels(align_corners: bool) -> None:
    x, guide = maps()
    up = without_scores(semi_conv=False, upsample_mode="bilinear", align_corners=align_corners)
    large = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=align_corners)
    torch.testing.assert_close(up(x, guide), blur(large, up.hamming_lowpass))


@pytest.mark.parametrize(
    "options", [{}, {"up_group": 2}, RESAMPLE, {"lowpass_kernel": 3, "highpass_kernel": 5}], ids=str
)
@pytest.mark.parametrize("size", [(8, 10), (7, 9), (13, 11)], ids=str)
def test_forward_is_the_first_output_of_fuse(options: dict, size: tuple[int, int]) -> None:
    x, guide = maps(size=size)
    up = make(**options)
    y, sharp = up.fuse(x, guide)
    assert torch.equal(up(x, guide), y)
    assert y.shape == (2, 4, *size)
    assert sharp.shape == guide.shape


def test_residual_and_no_high_pass() -> None:
    x, guide = maps()
    up, bare = make(), make(hr_residual=False)
    bare.load_state_dict(up.state_dict())
    torch.testing.assert_close(up.fuse(x, guide)[1] - bare.fuse(x, guide)[1], guide)
    plain = make(use_high_pass=False, comp_feat_upsample=False)
    assert torch.equal(plain.fuse(x, guide)[1], guide)
    assert [key for key in plain.state_dict() if key.startswith("content_encoder2")] == []


def test_first_values() -> None:
    up = FreqFusion(64, 32, **RESAMPLE)
    for name, parameter in up.named_parameters():
        if "norm" in name:
            continue
        if name.endswith("bias"):
            assert not parameter.any()
        elif name.startswith("content_encoder"):
            assert abs(float(parameter.detach().std()) - 0.001) < 0.0002
        else:
            fan = parameter[0].numel() + parameter[:, 0].numel()
            limit = (6 / fan) ** 0.5
            assert 0.8 * limit < float(parameter.detach().abs().max()) <= limit


def test_the_default_release_has_these_parameters() -> None:
    shapes = {name: tuple(t.shape) for name, t in FreqFusion(256, 128).state_dict().items()}
    assert shapes == {
        "hamming_lowpass": (1, 1, 5, 5),
        "hamming_highpass": (1, 1, 3, 3),
        "hr_channel_compressor.weight": (64, 128, 1, 1),
        "hr_channel_compressor.bias": (64,),
        "lr_channel_compressor.weight": (64, 256, 1, 1),
        "lr_channel_compressor.bias": (64,),
        "content_encoder.weight": (25, 64, 3, 3),
        "content_encoder.bias": (25,),
        "content_encoder2.weight": (9, 64, 3, 3),
        "content_encoder2.bias": (9,),
    }


def test_similarity_is_the_cosine_with_neighbours_two_points_away() -> None:
    x = torch.randn(2, 6, 5, 7).double()
    windows = F.unfold(x, 3, padding=2, dilation=2).view(2, 6, 9, 5, 7)
    expected = F.cosine_similarity(x.unsqueeze(2), windows, dim=1)
    torch.testing.assert_close(similarity(x), expected[:, [0, 1, 2, 3, 5, 6, 7, 8]])


def sampler(**options) -> SimilaritySampler:
    up = make(feature_resample=True, compressed_channels=16, **options)
    assert up.dysampler is not None
    up.dysampler.reset_parameters()
    return up.dysampler


@pytest.mark.parametrize("size", [(8, 10), (12, 5), (4, 5)], ids=str)
def test_without_offsets_resampling_changes_nothing(size: tuple[int, int]) -> None:
    scale = (size[0] // 4, size[1] // 5)
    resample = sampler(scale=scale)
    for layer in (resample.offset, resample.hr_offset):
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
    z, g, y = (torch.randn(2, C, *s).double() for C, s in ((16, (4, 5)), (16, size), (4, size)))
    torch.testing.assert_close(resample(z, g, y), y)


def test_resampling_is_that_of_the_release() -> None:
    resample = sampler(feature_resample_group=2)
    z, g, y = (torch.randn(2, C, *s).double() for C, s in ((16, (4, 5)), (16, (8, 10)), (4, (8, 10))))
    z_sim, g_sim = (torch.cat([t, similarity(t)], 1) for t in (resample.norm_lr(z), resample.norm_hr(g)))
    offset = resample.offset(z_sim) + F.pixel_unshuffle(resample.hr_offset(g_sim), 2)
    scope = resample.direct_scale(z_sim) + F.pixel_unshuffle(resample.hr_direct_scale(g_sim), 2)
    place = (offset * scope.sigmoid() + resample.init_pos).view(2, 2, 8, 4, 5)
    columns, rows = torch.arange(5) + 0.5, torch.arange(4) + 0.5
    place = torch.stack([(place[:, 0] + columns) / 5, (place[:, 1] + rows[:, None]) / 4], 1) * 2 - 1
    grid = F.pixel_shuffle(place.flatten(1, 2), 2).view(2, 2, 2, 8, 10).permute(0, 2, 3, 4, 1).flatten(0, 1)
    expected = F.grid_sample(y.view(4, 2, 8, 10), grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(resample(z, g, y), expected.view(2, 4, 8, 10))
    assert resample.init_pos.flatten()[:4].tolist() == [-0.25, 0.25, -0.25, 0.25]
    assert resample.init_pos.flatten()[-4:].tolist() == [-0.25, -0.25, 0.25, 0.25]
    assert resample.norm_hr.num_groups == 2


def test_resampling_can_be_trained_compiled_and_exported() -> None:
    x, guide = maps(size=(7, 9))
    up = make(**RESAMPLE)
    y, sharp = up.fuse(x, guide)
    (y.square().sum() + sharp.square().sum()).backward()
    assert [name for name, p in up.named_parameters() if p.grad is None or not p.grad.any()] == []
    compiled = torch.compile(up, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, guide), y)
    B, h, w, H, W = (Dim(name, min=2) for name in ("B", "h", "w", "H", "W"))
    program = export(up, (x, guide), dynamic_shapes=({0: B, 2: h, 3: w}, {0: B, 2: H, 3: W}))
    x, guide = torch.randn(3, 4, 5, 6).double(), torch.randn(3, 6, 12, 14).double()
    torch.testing.assert_close(program.module()(x, guide), up(x, guide))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_resampling_keeps_format_and_dtype(dtype: torch.dtype) -> None:
    x, guide = (t.to(dtype).contiguous(memory_format=torch.channels_last) for t in maps())
    for y in FreqFusion(4, 6, **RESAMPLE).to(dtype).fuse(x, guide):
        assert y.dtype == dtype
        assert y.is_contiguous(memory_format=torch.channels_last)


def test_errors() -> None:
    with pytest.raises(ValueError, match="highpass_kernel must be odd, so that a window has a centre; got 4"):
        FreqFusion(8, highpass_kernel=4)
    with pytest.raises(ValueError, match="up_group must divide guide_channels; got up_group = 2, guide_channels = 5"):
        FreqFusion(8, 5, up_group=2)
    with pytest.raises(ValueError, match="use_high_pass=False also needs comp_feat_upsample=False"):
        FreqFusion(8, use_high_pass=False)
    with pytest.raises(ValueError, match=r"no upsample_mode 'bicubic'.*Available: nearest, bilinear"):
        FreqFusion(8, upsample_mode="bicubic")
    with pytest.raises(ValueError, match="must divide channels; got feature_resample_group = 4 and channels = 6"):
        FreqFusion(6, feature_resample=True)
    with pytest.raises(
        ValueError, match=r"cannot split 4; the nearest that works is 8, or use feature_resample_norm=Fal"
    ):
        FreqFusion(8, feature_resample=True, compressed_channels=4)
    assert FreqFusion(8, feature_resample=True, compressed_channels=4, feature_resample_norm=False)
