"""Lift a low-res depth map to the size of its photograph: sharp where the photograph shows an edge of depth."""

import torch

import sapa

# a box in front of a wall: its depth at 1/8 of the size, and a photograph with a pattern on the wall
photo = torch.rand(1, 3, 96, 128) * 0.1 + 0.6
photo[..., ::16, :] -= 0.3
photo[:, :, 30:70, 45:95] = torch.tensor([0.8, 0.2, 0.1])[:, None, None]
truth = torch.full((1, 1, 96, 128), 4.0)
truth[..., 30:70, 45:95] = 2.0
depth = torch.nn.functional.avg_pool2d(truth, 8)

sharp = sapa.guided_upsample(depth, photo)
blurred = torch.nn.functional.interpolate(depth, scale_factor=8, mode="bilinear")
for name, y in {"bilinear": blurred, "guided_upsample": sharp}.items():
    print(f"{name:16} mean error {(y - truth).abs().mean():.3f} m")

classes = sapa.guided_upsample((depth < 3).long(), photo, labels=True)
print("classes", classes.unique().tolist(), "wrong", f"{(classes != (truth < 3)).float().mean():.2%}")
