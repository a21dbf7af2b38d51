"""Every message a wrong input gets, to the letter."""

from typing import Any

import pytest
import torch
from torch import Tensor

import sapa
from sapa import SAPA, SAPADeform
from sapa.nn import needs_guide

attend: Any = sapa.attend
build: Any = sapa.build


def maps(**replaced: Tensor) -> dict[str, Tensor]:
    good = {"q": torch.zeros(2, 4, 8, 8), "k": torch.zeros(2, 4, 4, 4), "v": torch.zeros(2, 6, 4, 4)}
    return good | replaced


def zeros(*shape: int, **options) -> Tensor:
    return torch.zeros(*shape, **options)


TABLES = (zeros(8, 5), zeros(8, 5))

OF_ATTEND = [
    (
        maps(q=zeros(4, 8, 8)),
        "attend: q must have the dimensions (B D H W), got [4, 8, 8]. Add the batch with unsqueeze(0).",
    ),
    (maps(v=zeros(2, 1, 6, 4, 4)), "attend: v must have the dimensions (B C h w), got [2, 1, 6, 4, 4]."),
    (
        maps(k=zeros(1, 4, 4, 4)),
        "attend: q and k disagree on B: q is [2, 4, 8, 8] (B D H W), k is [1, 4, 4, 4] (B D h w).",
    ),
    (
        maps(k=zeros(2, 5, 4, 4)),
        "attend: q and k disagree on D: q is [2, 4, 8, 8] (B D H W), k is [2, 5, 4, 4] (B D h w).",
    ),
    (
        maps(v=zeros(2, 6, 3, 4)),
        "attend: k and v disagree on h: k is [2, 4, 4, 4] (B D h w), v is [2, 6, 3, 4] (B C h w).",
    ),
    (
        maps(v=zeros(2, 6, 4, 3)),
        "attend: k and v disagree on w: k is [2, 4, 4, 4] (B D h w), v is [2, 6, 4, 3] (B C h w).",
    ),
    (maps(v=zeros(2, 0, 4, 4)), "attend: C is 0: v is [2, 0, 4, 4] (B C h w). Only B may be 0."),
    (
        maps(q=zeros(2, 4, 3, 8)),
        "attend: H is smaller than h: q is [2, 4, 3, 8] (B D H W), k is [2, 4, 4, 4] (B D h w). "
        "The output cannot be smaller than the low-res map; are the two the wrong way round?",
    ),
    (
        maps(q=zeros(2, 4, 8, 3)),
        "attend: W is smaller than w: q is [2, 4, 8, 3] (B D H W), k is [2, 4, 4, 4] (B D h w). "
        "The output cannot be smaller than the low-res map; are the two the wrong way round?",
    ),
    (
        maps(k=zeros(2, 4, 4, 4).bfloat16()),
        "attend: q is float32 but k is bfloat16: convert them to one dtype, or call under torch.autocast.",
    ),
    (
        maps(v=zeros(2, 6, 4, 4).double()),
        "attend: q is float32 but v is float64: convert them to one dtype.",
    ),
    (maps(q=zeros(2, 4, 8, 8).long()), "attend: q is int64; convert it to one of float64, float32, bfloat16, float16."),
    (
        maps(v=zeros(2, 6, 4, 4).to(torch.complex64)),
        "attend: v is complex64; convert it to one of float64, float32, bfloat16, float16.",
    ),
    (maps(v=zeros(2, 6, 4, 4, device="meta")), "attend: q is on cpu but v is on meta: move them to one device."),
    (
        {**maps(), "kernel_size": 4},
        "attend: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; got 4.",
    ),
    (
        {**maps(), "kernel_size": (3, 0)},
        "attend: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; got (3, 0).",
    ),
    (
        {**maps(), "kernel_size": 5.0},
        "attend: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; got 5.0.",
    ),
    (
        {**maps(), "kernel_size": (3, 3, 3)},
        "attend: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; got (3, 3, 3).",
    ),
    (
        {**maps(), "normalize": "softmin"},
        "attend: no normalize 'softmin'. Did you mean 'softmax'? Available: softmax, relu, sigmoid, softplus, none.",
    ),
    ({**maps(), "border": "reflect"}, "attend: no border 'reflect'. Available: zero, mask."),
    ({**maps(), "bias": (TABLES[0], zeros(4, 5))}, "attend: bias columns must be [8, 5] (W Kw), got [4, 5]."),
    ({**maps(), "bias": (zeros(8, 3), TABLES[1])}, "attend: bias rows must be [8, 5] (H Kh), got [8, 3]."),
    (
        {**maps(), "bias": (zeros(8), TABLES[1])},
        "attend: bias rows must have the dimensions (H Kh), got [8].",
    ),
    (
        {**maps(), "bias": (TABLES[0], zeros(8, 5, device="meta"))},
        "attend: q is on cpu but bias columns is on meta: move them to one device.",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), OF_ATTEND, ids=lambda x: x[:50] if isinstance(x, str) else "")
def test_attend(arguments: dict, message: str, backend: str) -> None:
    with pytest.raises(ValueError) as error:
        sapa.attend(**arguments)
    assert str(error.value) == message


V, W = zeros(2, 6, 4, 4), zeros(2, 25, 8, 8)
X, GUIDE = zeros(2, 16, 4, 4), zeros(2, 8, 8, 8)

OTHERS = [
    (TypeError, lambda: attend([1], V, V), "attend: q must be a tensor (B D H W), got list."),
    (
        TypeError,
        lambda: attend(**maps(), bias=zeros(8, 5)),
        "attend: bias must be a pair of tensors, rows [H, Kh] and columns [W, Kw].",
    ),
    (
        ValueError,
        lambda: sapa.kernels(zeros(2, 4, 8, 8), zeros(2, 3, 4, 4)),
        "kernels: q and k disagree on D: q is [2, 4, 8, 8] (B D H W), k is [2, 3, 4, 4] (B D h w).",
    ),
    (
        ValueError,
        lambda: sapa.kernels(V, V.half()),
        "kernels: q is float32 but k is float16: convert them to one dtype, or call under torch.autocast.",
    ),
    (
        ValueError,
        lambda: sapa.kernels(V, V, normalize="exp"),
        "kernels: no normalize 'exp'. Available: softmax, relu, sigmoid, softplus, none.",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, zeros(1, 25, 8, 8)),
        "assemble: v and w disagree on B: v is [2, 6, 4, 4] (B C h w), w is [1, 25, 8, 8] (B G*P H W).",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, zeros(2, 25, 2, 8)),
        "assemble: H is smaller than h: w is [2, 25, 2, 8] (B G*P H W), v is [2, 6, 4, 4] (B C h w). "
        "The output cannot be smaller than the low-res map; are the two the wrong way round?",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, zeros(2, 24, 8, 8)),
        "assemble: w has 24 channels, which is not groups * K * K for groups = 1 and an odd K; pass kernel_size.",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, zeros(2, 16, 8, 8)),
        "assemble: w has 16 channels, which is not groups * K * K for groups = 1 and an odd K; pass kernel_size.",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, W, kernel_size=(3, 5)),
        "assemble: w must have groups * Kh * Kw = 1 * 3 * 5 = 15 channels, got 25.",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, W, groups=4),
        "assemble: groups must divide C; got groups = 4 and v with C = 6.",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, W, groups=0),
        "assemble: groups must divide C; got groups = 0 and v with C = 6.",
    ),
    (
        ValueError,
        lambda: sapa.assemble(V, W, border="masked"),
        "assemble: no border 'masked'. Did you mean 'mask'? Available: zero, mask.",
    ),
    (
        ValueError,
        lambda: sapa.sim(zeros(1, 9, 8, 4), zeros(1, 4, 4, 4), 5, 2),
        "sim: H must be S * h = 2 * 4 = 8, got 9. sapa.attend, sapa.kernels and sapa.assemble take any size.",
    ),
    (
        ValueError,
        lambda: sapa.atn(zeros(1, 8, 8, 25), zeros(2, 4, 4, 4), 5, 2),
        "atn: w and v disagree on B: w is [1, 8, 8, 25] (B H W P), v is [2, 4, 4, 4] (B h w C).",
    ),
    (
        ValueError,
        lambda: sapa.use_backend("refrence"),
        "use_backend: no backend 'refrence'. Did you mean 'reference'? Available: cpu, triton, reference.",
    ),
    (
        ValueError,
        lambda: SAPA(16, similarity="dot"),
        "SAPA: no similarity 'dot'. Available: inner, bilinear, gated, plain.",
    ),
    (ValueError, lambda: SAPA(16, norm="batch"), "SAPA: no norm 'batch'. Available: layer, group, none."),
    (
        ValueError,
        lambda: SAPA(16, normalize="relu6"),
        "SAPA: no normalize 'relu6'. Did you mean 'relu'? Available: softmax, relu, sigmoid, softplus, none.",
    ),
    (
        ValueError,
        lambda: SAPA(16, prior="gauss"),
        "SAPA: no prior 'gauss'. Did you mean 'gaussian'? Available: gaussian, bilinear.",
    ),
    (
        ValueError,
        lambda: SAPA(16, border="zeros"),
        "SAPA: no border 'zeros'. Did you mean 'zero'? Available: zero, mask.",
    ),
    (
        ValueError,
        lambda: SAPA(16, kernel_size=2),
        "SAPA: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; got 2.",
    ),
    (
        ValueError,
        lambda: SAPA(16, 8, similarity="inner"),
        "SAPA: similarity='inner' compares the channels of x and guide one by one, but x has 16 and guide 8; "
        "use 'bilinear' or 'gated'.",
    ),
    (
        ValueError,
        lambda: SAPA(96, 72, norm="group"),
        "SAPA: norm='group' has 32 groups and cannot split 72 channels; the nearest that works is 64, or use norm='layer'.",
    ),
    (ValueError, lambda: SAPA(0), "SAPA: channels must be a positive integer, got 0."),
    (ValueError, lambda: SAPA(16, embed_dim=0), "SAPA: embed_dim must be a positive integer, got 0."),
    (ValueError, lambda: SAPA(16, scale=0), "SAPA: scale must be a positive integer, or a pair of them, got 0."),
    (
        ValueError,
        lambda: build("nearest", 16, scale=1.5),
        "Nearest: scale must be a positive integer, or a pair of them, got 1.5.",
    ),
    (
        ValueError,
        lambda: SAPA(16, 8)(X),
        "SAPA needs the high-res map of the encoder: call up(x, guide) with x [B, 16, h, w] and guide [B, 8, H, W]. "
        f"Without a guide: {', '.join(name for name in sapa.UPSAMPLERS if not needs_guide(name))}.",
    ),
    (
        ValueError,
        lambda: SAPA(16, 8)(GUIDE, GUIDE),
        "SAPA was built for 16 channels of x, but x is [2, 8, 8, 8] (B C h w). Build it with channels=8 for such maps.",
    ),
    (
        ValueError,
        lambda: SAPA(16, 8)(X, X),
        "SAPA was built for 8 channels of guide, but guide is [2, 16, 4, 4] (B Cg H W). Build it with guide_channels=16 for such maps.",
    ),
    (
        ValueError,
        lambda: SAPA(16, 8)(X, zeros(1, 8, 8, 8)),
        "SAPA: x and guide disagree on B: x is [2, 16, 4, 4] (B C h w), guide is [1, 8, 8, 8] (B Cg H W).",
    ),
    (
        ValueError,
        lambda: SAPA(8, 16)(GUIDE, X),
        "SAPA: H is smaller than h: guide is [2, 16, 4, 4] (B Cg H W), x is [2, 8, 8, 8] (B C h w). "
        "The output cannot be smaller than the low-res map; are the two the wrong way round?",
    ),
    (
        ValueError,
        lambda: SAPA(16, 8)(X.double(), GUIDE),
        "SAPA: x is float64 but guide is float32: convert them to one dtype.",
    ),
    (ValueError, lambda: SAPADeform(18), "SAPADeform: groups must divide channels; got groups = 4 and channels = 18."),
    (
        ValueError,
        lambda: SAPA(16, 8)(X.half(), GUIDE.half()),
        "SAPA: the parameters are float32 but x is float16: convert x, or the module with up.to(x.dtype).",
    ),
    (
        ValueError,
        lambda: SAPA(16, prior="gaussian", normalize="relu"),
        "SAPA: a prior is a log weight and needs normalize='softmax', got 'relu'.",
    ),
    (
        ValueError,
        lambda: SAPA(16, prior="bilinear", kernel_size=(1, 3)),
        "SAPA: a prior interpolates between taps and needs kernel_size >= 3, got (1, 3).",
    ),
    (
        ValueError,
        lambda: sapa.sim(zeros(1, 8, 8, 4), zeros(1, 4, 4, 4), 4, 2),
        "sim: kernel_size must be odd and positive, such as 5 or (3, 5), so that a window has a centre; got 4.",
    ),
    (
        ValueError,
        lambda: sapa.atn(zeros(1, 8, 8, 9), zeros(1, 4, 4, 4), 5, 2),
        "atn: P must be K * K = 25, but w is [1, 8, 8, 9] (B H W P).",
    ),
    (
        ValueError,
        lambda: build("bilinear", 16, scale="2"),
        "Bilinear: scale must be a positive integer, or a pair of them, got '2'.",
    ),
    (ValueError, lambda: SAPA(True), "SAPA: channels must be a positive integer, got True."),
    (
        KeyError,
        lambda: build(["nearest"], 16),
        "no upsampler ['nearest']. Did you mean 'nearest'? Available: " + ", ".join(sapa.UPSAMPLERS) + ".",
    ),
    (
        KeyError,
        lambda: build("SAPA_B", 16),
        "no upsampler 'SAPA_B'. Did you mean 'sapa_b'? Available: " + ", ".join(sapa.UPSAMPLERS) + ".",
    ),
    (ValueError, lambda: SAPADeform(16, norm="layer"), "SAPADeform: no norm 'layer'. Available: none, group."),
    (ValueError, lambda: SAPADeform(16, points=0), "SAPADeform: points must be a positive integer, got 0."),
    (
        KeyError,
        lambda: sapa.build("sappa", 16),
        "no upsampler 'sappa'. Did you mean 'sapa_i'? Available: " + ", ".join(sapa.UPSAMPLERS) + ".",
    ),
    (AttributeError, lambda: sapa.atend, "module 'sapa' has no attribute 'atend'"),
]


@pytest.mark.parametrize(("kind", "call", "message"), OTHERS, ids=[message[:50] for _, _, message in OTHERS])
def test_message(kind: type[Exception], call, message: str) -> None:
    with pytest.raises(kind) as error:
        call()
    assert error.value.args[0] == message


def test_a_factory_of_yours_may_take_any_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sapa.UPSAMPLERS, "mine", lambda channels, guide_channels=None, **options: SAPA(channels, **options)
    )
    assert build("mine", 8, kernel_size=3).kernel_size == (3, 3)


def test_a_wrong_option_is_named() -> None:
    expected = (
        r"^build: 'sapa_b' has no option 'kernel'\. Did you mean 'kernel_size'\? Available: similarity, scale, kernel_"
    )
    with pytest.raises(TypeError, match=expected):
        sapa.build("sapa_b", 16, kernel=3)
    with pytest.raises(TypeError, match=r"^build: 'bilinear' has no option 'kernel_size'\. Available: scale\."):
        sapa.build("bilinear", 16, kernel_size=3)
