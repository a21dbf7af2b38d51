"""SAPA: Similarity-Aware Point Affiliation for Feature Upsampling (Lu et al., NeurIPS 2022, arXiv 2209.12866)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sapa import checks
from sapa.functional import attend, kernels, project
from sapa.geometry import Size, nearest, size_of
from sapa.nn.base import Upsampler
from sapa.nn.pointwise import STD, PointConv, PointLinear, PointNorm, is_plain, make_norm, norm_and_project
from sapa.nn.prior import Prior

SIMILARITIES = ("inner", "bilinear", "gated", "plain")
NORMS = ("layer", "group", "none")

# names in the checkpoints of the authors' experiments, and in the code they released
TRAINED_NAMES = {"q.proj.": "q.", "q.proj_y.": "qy.", "q.proj_x.": "qx.", "q.gate.": "gate.", "k.proj.": "k."}


class SAPA(Upsampler):
    """Upsample by the similarity of each encoder point to the decoder points around it.

    A high-res guide point scores the K*K low-res points around its centre, and the output is their mean weighted by
    these scores. The forms differ in the query alone:

    - inner (SAPA-I): norm(guide). No parameters; needs `guide_channels == channels`.
    - bilinear (SAPA-B): Wq norm(guide).
    - gated (SAPA-G): g * Wqy norm(guide) + (1 - g) * Wqx x, where the gate g in (0, 1) is learned from x.
    - plain: W [norm(guide), x], the paper's ablation of the gate.

    Args:
        channels: C, of the low-res map x.
        guide_channels: of the guide; `channels` if None.
        similarity: "inner", "bilinear", "gated" or "plain".
        scale: only the phases of a prior depend on it; the output has the size of the guide.
        kernel_size: odd K, or (Kh, Kw).
        embed_dim: D, of queries and keys.
        norm: "layer" over the channels of each point; "group" of 32 channels groups over the map, as in the authors'
            later extension; or "none".
        normalize: how scores become weights, as in `sapa.attend`.
        border: "zero" as in the paper, or "mask"; see `sapa.attend`. None is "zero", and "mask" with a prior.
        prior: None as in the paper; "gaussian" or "bilinear" adds learned position scores, so that training starts
            from that interpolation at this scale instead of from a K*K box. With softmax only.
        out_channels: project the values, norm(x), to this many channels; None takes x as it is.
        bias: of the projections.
        init_std: deviation of the first weights of queries and keys. At 0.02, the paper's, scores start near zero and
            weights near a K*K box.

    >>> up = sapa.SAPA(256, guide_channels=64)
    >>> y = up(x, guide)  # [B, 256, 32, 32], [B, 64, 64, 64] -> [B, 256, 64, 64]
    """

    needs_guide: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        guide_channels: int | None = None,
        *,
        similarity: str = "bilinear",
        scale: int | Size = 2,
        kernel_size: int | Size = 5,
        embed_dim: int = 32,
        norm: str = "layer",
        normalize: str = "softmax",
        border: str | None = None,
        prior: str | None = None,
        out_channels: int | None = None,
        bias: bool = True,
        init_std: float = STD,
    ) -> None:
        super().__init__(channels, guide_channels, scale=scale)
        checks.positive("SAPA", embed_dim=embed_dim, out_channels=channels if out_channels is None else out_channels)
        checks.one_of("SAPA", "similarity", similarity, SIMILARITIES)
        checks.one_of("SAPA", "norm", norm, NORMS)
        checks.one_of("SAPA", "normalize", normalize, checks.NORMALIZE)
        if border is None:
            border = "zero" if prior is None else "mask"
        if prior is not None and normalize != "softmax":
            raise ValueError(f"SAPA: a prior is a log weight and needs normalize='softmax', got {normalize!r}.")
        checks.one_of("SAPA", "border", border, checks.BORDER)
        if not 0 < init_std < float("inf"):
            raise ValueError(f"SAPA: init_std must be a positive number, got {init_std!r}; {STD} is the paper's.")
        if similarity == "inner" and self.guide_channels != channels:
            raise ValueError(
                f"SAPA: similarity='inner' compares the channels of x and guide one by one, but x has {channels} and "
                f"guide {self.guide_channels}; use 'bilinear' or 'gated'."
            )
        self.similarity, self.norm, self.normalize, self.border = similarity, norm, normalize, border
        self.kernel_size = checks.odd_pair("SAPA", kernel_size)
        is_affine = similarity != "inner"
        self.norm_y = make_norm("SAPA", norm, self.guide_channels, affine=is_affine)
        self.norm_x = make_norm("SAPA", norm, channels, affine=is_affine)

        def project(inputs: int, outputs: int, std: float = STD) -> PointLinear | PointConv:
            return (PointLinear if norm == "layer" else PointConv)(inputs, outputs, bias, std)

        if similarity == "gated":
            self.qy = project(self.guide_channels, embed_dim, init_std)
            self.qx = project(channels, embed_dim, init_std)
            self.gate = project(channels, 1)
        elif similarity != "inner":
            inputs = self.guide_channels + (channels if similarity == "plain" else 0)
            self.q = project(inputs, embed_dim, init_std)
        self.k = nn.Identity() if similarity == "inner" else project(channels, embed_dim, init_std)
        self.v = None if out_channels is None else project(channels, out_channels)
        self.prior = None if prior is None else Prior(prior, self.scale, self.kernel_size)

    def upsample(self, x: Tensor, guide: Tensor, size: Size) -> Tensor:
        v = x if self.v is None else norm_and_project(x, self.norm_x, self.v)
        return attend(self.query(x, guide), norm_and_project(x, self.norm_x, self.k), v, **self.window(x, size))

    def kernels(self, x: Tensor, guide: Tensor) -> Tensor:
        """The weights that `forward` applies, to look at them: [B, K*K, H, W]."""
        size = self.check(x, guide)
        return kernels(self.query(x, guide), norm_and_project(x, self.norm_x, self.k), **self.window(x, size))

    def query(self, x: Tensor, guide: Tensor) -> Tensor:
        """[B, D, H, W]. Projections of x are made before it is enlarged, which is equal and S*S times cheaper."""
        size = size_of(guide)
        if self.similarity == "inner":
            return self.norm_y(guide)
        if self.similarity == "bilinear":
            return norm_and_project(guide, self.norm_y, self.q)
        if self.similarity == "gated":
            gate = torch.sigmoid(norm_and_project(x, self.norm_x, self.gate))  # [B, 1, h, w]
            qy = norm_and_project(guide, self.norm_y, self.qy)
            return torch.lerp(nearest(self.qx(x), size), qy, nearest(gate, size))
        if not isinstance(self.q, (PointLinear, PointConv)) or not is_plain(self.q):
            return self.q(torch.cat([self.norm_y(guide), nearest(x, size)], 1))
        norm = self.norm_y if isinstance(self.norm_y, PointNorm) and is_plain(self.norm_y) else None
        guide = self.norm_y(guide) if norm is None else guide
        of_guide, of_x = self.q.weight.flatten(1).split([self.guide_channels, self.channels], 1)
        return project(guide, of_guide, self.q.bias, norm) + nearest(project(x, of_x), size)

    def window(self, x: Tensor, size: Size) -> dict[str, Any]:
        bias = None if self.prior is None else self.prior(size, size_of(x))
        return {"kernel_size": self.kernel_size, "normalize": self.normalize, "border": self.border, "bias": bias}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        for old, new in TRAINED_NAMES.items():
            for key in [key for key in state_dict if key.startswith(prefix + old)]:
                state_dict[prefix + new + key.removeprefix(prefix + old)] = state_dict.pop(key)
        if self.norm == "none":
            # without a norm both releases compute the same, and differ in the shape of the weights alone
            for name in ("q", "qy", "qx", "gate", "k", "v"):
                weight = state_dict.get(f"{prefix}{name}.weight")
                if weight is not None and weight.ndim == 2:
                    state_dict[f"{prefix}{name}.weight"] = weight[..., None, None]
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        options = {"kernel_size": self.kernel_size, "normalize": self.normalize, "border": self.border}
        listed = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{super().extra_repr()}, similarity={self.similarity!r}, {listed}"
