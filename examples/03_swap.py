"""Put SAPA-G into a model that is already there, train it a little, and take it out again."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sapa


class Pyramid(nn.Module):
    """A small feature pyramid, as there are many: nothing in it knows of this library."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(C, width, 3, stride=2, padding=1) for C in (3, width, width)])
        self.laterals = nn.ModuleList([nn.Conv2d(width, width, 1) for _ in self.stages])
        self.head = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        maps = []
        for stage, lateral in zip(self.stages, self.laterals, strict=True):
            x = torch.relu(stage(x))
            maps.append(lateral(x))
        y = maps[-1]
        for skip in maps[-2::-1]:
            y = skip + F.interpolate(y, size=skip.shape[-2:], mode="nearest")
        return F.interpolate(self.head(y), size=size, mode="bilinear")


torch.manual_seed(0)
model, photo = Pyramid(), torch.rand(1, 3, 64, 96)

# where it makes maps larger, and which of its own maps could guide that
print(sapa.find(model, photo), end="\n\n")

# the last site has no map beside it but the photo; leave it as it is
print(sapa.swap_(model, "sapa_g", photo, where=lambda site: site.channels > 1), end="\n\n")
print("new parameters:", [name for name, _ in model.named_parameters() if "sapa" in name][:2], "...")

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    loss = F.mse_loss(model(photo), photo.mean(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")

print("another size:", tuple(model(torch.rand(2, 3, 70, 50)).shape))
sapa.restore_(model)
print("restored:", not any("sapa" in name for name in model.state_dict()))
