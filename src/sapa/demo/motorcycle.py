"""The disparity of a motorcycle at 1/8 of its size, lifted again with and without its photograph."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from skimage import data
from torch import Tensor

from sapa.demo.panels import compose
from sapa.guided import guided_upsample

SCALE = 8
ZOOM = (0.62, 0.40, 0.97, 0.95)  # left, top, right, bottom, as parts of the picture
# from far to near, dark to light
COLOURS = ((29, 17, 53), (66, 40, 117), (44, 97, 142), (31, 144, 140), (90, 192, 104), (249, 231, 85))


@dataclass(frozen=True)
class Lifted:
    photo: Tensor  # uint8 [1, 3, H, W]
    truth: Tensor  # [1, 1, H, W], NaN where it is not known
    x: Tensor  # [1, 1, h, w]
    results: dict[str, Tensor]

    def errors(self) -> dict[str, dict[str, float]]:
        """In pixels of disparity, where the truth is known."""
        is_known = ~self.truth.isnan()
        found = {name: (y - self.truth)[is_known].abs() for name, y in self.results.items()}
        return {
            name: {
                "RMSE": float(error.square().mean().sqrt()),
                "mean error": float(error.mean()),
                "off by more than 1": float((error > 1).float().mean()),
            }
            for name, error in found.items()
        }

    def picture(self) -> Image.Image:
        """The photograph, the map as it came, and two ways to lift it, each with a part enlarged."""
        errors = self.errors()
        paint = painter(self.truth)
        columns = [("the photograph", self.photo[0].permute(1, 2, 0) / 255)]
        columns += [(f"its disparity at 1/{SCALE}", paint(self.results["nearest"]))]
        for name in ("bilinear", "guided_upsample"):
            columns.append((f"{name}: RMSE {errors[name]['RMSE']:.2f}", paint(self.results[name])))
        return compose(columns, ZOOM)


def lift() -> Lifted:
    left, _, disparity = data.stereo_motorcycle()
    H, W = (n // SCALE * SCALE for n in disparity.shape)
    photo = torch.from_numpy(np.array(left[:H, :W])).permute(2, 0, 1)[None].contiguous()
    truth = torch.from_numpy(np.where(np.isfinite(disparity), disparity, np.nan)[:H, :W]).float()[None, None]
    is_known = ~truth.isnan()
    total, count = (F.avg_pool2d(x, SCALE) for x in (truth.nan_to_num(), is_known.float()))
    x = total / count  # NaN in cells of which nothing is known
    # the others cannot leave a point out
    filled = torch.where(x.isnan(), x.nanmedian(), x)
    results = {mode: F.interpolate(filled, (H, W), mode=mode) for mode in ("nearest", "bilinear", "bicubic")}
    return Lifted(photo, truth, x, results | {"guided_upsample": guided_upsample(x, photo)})


def painter(truth: Tensor):
    """Colours for values in the range of the truth: [1, 1, H, W] to [H, W, 3]."""
    low, high = truth[~truth.isnan()].quantile(torch.tensor([0.01, 0.99])).tolist()
    anchors = torch.tensor(COLOURS) / 255

    def paint(y: Tensor) -> Tensor:
        place = ((y[0, 0].nan_to_num(low) - low) / (high - low)).clamp(0, 1) * (len(anchors) - 1)
        below = place.long().clamp_max(len(anchors) - 2)
        return torch.lerp(anchors[below], anchors[below + 1], (place - below)[..., None])

    return paint
