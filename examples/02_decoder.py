"""A U-Net decoder that upsamples with SAPA-G, trained for a moment to draw a disc. Runs on any device."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sapa


class Block(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, upsampler: str, width: int = 16) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.encoder = nn.ModuleList([Block(3, sizes[0]), Block(sizes[0], sizes[1]), Block(sizes[1], sizes[2])])
        # x has the channels of the level below, the guide those of the level it is lifted to
        self.up = nn.ModuleList([sapa.build(upsampler, sizes[2], sizes[1]), sapa.build(upsampler, sizes[1], sizes[0])])
        self.decoder = nn.ModuleList([Block(sizes[2] + sizes[1], sizes[1]), Block(sizes[1] + sizes[0], sizes[0])])
        self.head = nn.Conv2d(sizes[0], 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        skips = []
        x = image
        for i, block in enumerate(self.encoder):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for up, block, guide in zip(self.up, self.decoder, skips[-2::-1], strict=True):
            x = block(torch.cat([up(x, guide), guide], 1))
        return self.head(x)


def disc(batch: int, size: int) -> tuple[Tensor, Tensor]:
    """Noisy pictures of a disc, and its mask."""
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    centre = torch.randint(size // 4, 3 * size // 4, (batch, 2, 1, 1))
    mask = ((y - centre[:, 0]) ** 2 + (x - centre[:, 1]) ** 2 < (size // 5) ** 2).float()[:, None]
    return mask * torch.tensor([0.8, 0.3, 0.1]).view(3, 1, 1) + 0.3 * torch.randn(batch, 3, size, size), mask


device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
for name in ("bilinear", "sapa_g"):
    torch.manual_seed(0)
    model = UNet(name).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = torch.tensor(0.0)
    for _ in range(20):
        image, mask = (t.to(device) for t in disc(4, 45))  # odd sizes are fine
        loss = F.binary_cross_entropy_with_logits(model(image), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{name:9} loss after 20 steps on {device}: {loss.item():.3f}")
