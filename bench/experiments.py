"""The comparisons of docs/results.md: what is trained, and the command that does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

WEIGHTS = "mobilenet_v2-b0353104.pth"
COMPARED = (
    *("bilinear", "nearest", "carafe", "indexnet_hin", "a2u", "fade", "dysample"),
    *("sapa_i", "sapa_b", "sapa_g"),
)
START = "kernel_size=3,prior=gaussian"  # and with it border=mask
OURS = (f"sapa_b:{START}", f"sapa_g:{START}")
SHOWN = ("bilinear", "carafe", "sapa_b", OURS[0])
# for tasks other than the first
FEWER = (*COMPARED, *OURS)


@dataclass(frozen=True)
class Experiment:
    """One call of `sapa compare`.

    Attributes:
        upsamplers: as they are written on the command line, bilinear first where it is the base.
        data: the folder, by a name that a reader knows; None draws scenes.
        fields: of the preset, where they differ from it.
        sweep: compares an option of SAPA instead of upsamplers.
        pictured: those in the picture; none, no picture.
        samples: which of the four pictures of a run are shown.
        has_widths: tells how wide kernels of SAPA are before and after.
    """

    task: str
    upsamplers: tuple[str, ...] = ()
    data: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 2
    sweep: str | None = None
    pictured: tuple[str, ...] = ()
    samples: tuple[int, ...] = (0, 2)
    has_widths: bool = False

    def command(self, name: str) -> str:
        """As a reader can run it."""
        parts = [f"sapa compare {self.task}"]
        if self.data is not None:
            parts.append(f"--data {self.data} --preset small --weights {WEIGHTS}")
        parts += [f"--set {key}={value}" for key, value in self.fields.items()]
        if self.sweep is not None:
            parts.append(f"--sweep {self.sweep}")
        if self.upsamplers:
            parts.append(f"--upsamplers {','.join(self.upsamplers)}")
        parts.append(f"--seeds {self.seeds} -o runs/{name}")
        lines = [" ".join(parts)] if len(parts) < 4 else [" ".join(parts[:-2]), " ".join(parts[-2:])]
        return " \\\n    ".join(lines)


def camvid(*upsamplers: str, **fields: str) -> Experiment:
    shown = tuple(name for name in SHOWN if name in upsamplers)
    return Experiment("segmentation", upsamplers, data="CamVid", fields=fields, pictured=shown, has_widths=True)


def shorter(task: str, data: str, epochs: int, samples: tuple[int, ...] = (0, 2)) -> Experiment:
    fields = {"size": "128x160", "epochs": str(epochs), "evaluations": "2"}
    return Experiment(task, FEWER, data=data, fields=fields, pictured=SHOWN, samples=samples)


EXPERIMENTS: dict[str, Experiment] = {
    "camvid": camvid(
        *COMPARED,
        "sapa_b:kernel_size=3",
        "sapa_b:kernel_size=3,border=mask",
        "sapa_b:init_std=0.06",
        "sapa_b:prior=gaussian",
        *OURS,
        size="128x160",
    ),
    # three times as long, and at the preset's own size
    "camvid_long": camvid("bilinear", "sapa_b", size="128x160", epochs="36"),
    "camvid_half": camvid(*SHOWN),
    "nyu": shorter("depth", "NYU", 6),
    # all four pictures are of one photograph, over other backgrounds
    "matting": shorter("matting", "'alphamatting?backgrounds=COCO/train2017'", 6, samples=(0,)),
    "bccd": shorter("detection", "BCCD", 4),
    **{
        option: Experiment("segmentation", sweep=option, seeds=3)
        for option in ("similarity", "normalize", "kernel_size", "embed_dim", "border")
    },
}
