"""Upsample a low-res decoder map with the high-res encoder map beside it."""

import torch

import sapa

x = torch.randn(1, 256, 32, 32)  # decoder: deep, low-res
guide = torch.randn(1, 64, 64, 64)  # encoder: shallow, high-res

up = sapa.SAPA(256, guide_channels=64)  # SAPA-B; similarity="gated" is SAPA-G
y = up(x, guide)
print("SAPA-B   ", tuple(x.shape), "+ guide", tuple(guide.shape), "->", tuple(y.shape))

# any size the guide has, not only twice
print("odd size ", tuple(up(x, torch.randn(1, 64, 75, 101)).shape))

# every upsampler has the same signature
for name in sapa.UPSAMPLERS:
    other = sapa.build(name, 256, guide_channels=256)
    y = other(x, torch.randn(1, 256, 64, 64))
    parameters = sum(p.numel() for p in other.parameters())
    print(f"{name:9} {tuple(y.shape)}, {parameters:,} parameters")

# the weights a point is made of: 25 taps, row by row, that sum to one
w = up.kernels(x, guide)  # [1, 25, 64, 64]
print("kernel of the point (10, 20), rounded:")
print(w[0, :, 10, 20].detach().view(5, 5).numpy().round(3))

# or without a module: queries, keys, values
q, k, v = torch.randn(1, 32, 64, 64), torch.randn(1, 32, 32, 32), x
print("attend   ", tuple(sapa.attend(q, k, v, kernel_size=3, border="mask").shape))
