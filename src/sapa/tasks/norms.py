"""BatchNorm over all processes: what the devices of PyTorch have, and the same in a few lines for the CPU."""

import torch
from torch import Tensor, nn

from sapa.tasks.processes import is_alone, summed


def share_norms(model: nn.Module, device: torch.device) -> nn.Module:
    """Let every BatchNorm of a model see the batch of all processes."""
    for module in list(model.modules()):
        # not its subclasses, which are there to do something else, such as to keep their statistics
        for name, child in module.named_children():
            if type(child) is not nn.BatchNorm2d:
                continue
            if device.type == "cpu":
                child.__class__ = SharedNorm
            else:
                setattr(module, name, nn.SyncBatchNorm.convert_sync_batchnorm(child))
    return model


class SharedNorm(nn.BatchNorm2d):
    """nn.SyncBatchNorm knows no CPU."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or is_alone():
            return super().forward(input)
        C = input.shape[1]
        count = input.new_full((1,), float(input.numel() // C))
        # in two rounds, since a sum of squares loses what the mean takes
        total = summed(torch.cat([input.sum((0, 2, 3)), count]))
        n, mean = total[-1].detach(), total[:-1] / total[-1]
        centred = input - mean[:, None, None]
        variance = summed(centred.square().sum((0, 2, 3))) / n
        if self.track_running_stats and self.running_mean is not None and self.running_var is not None:
            self._track(mean.detach(), (variance * n / (n - 1)).detach())
        y = centred * torch.rsqrt(variance + self.eps)[:, None, None]
        return y if self.weight is None else y * self.weight[:, None, None] + self.bias[:, None, None]

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum  # type: ignore
        self.running_mean.lerp_(mean, momentum)  # type: ignore[union-attr]
        self.running_var.lerp_(variance, momentum)  # type: ignore[union-attr]
