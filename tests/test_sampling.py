"""What detectors learn from, against the rules of the sampler whose place ours takes."""

import torch
from torch import Tensor
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler

from sapa.tasks.sampling import BoxSampler


def labels(*counts: int, seed: int = 0) -> Tensor:
    """So many that are neither (-1), background (0), and objects of the classes 1, 2 ..., shuffled."""
    values = torch.cat([torch.full((n,), i - 1.0) for i, n in enumerate(counts)])
    return values[torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))]


PICTURES = [labels(5, 100, 3, 4), labels(2, 6, 40, 30, seed=1), labels(9, 50, seed=2), labels(0, 0, 8, seed=3)]


def test_as_many_of_each_kind_as_the_sampler_of_torchvision() -> None:
    plain = BalancedPositiveNegativeSampler(32, 0.25)
    ours = BoxSampler(plain)
    ours.seeds = [1, 2, 3, 4]
    for mine, theirs in zip(ours(PICTURES), plain(PICTURES), strict=True):
        assert [int(mask.sum()) for mask in mine] == [int(mask.sum()) for mask in theirs]
        assert [mask.dtype for mask in mine] == [mask.dtype for mask in theirs]
    objects, background = ours(PICTURES)
    assert all((found[mask.bool()] >= 1).all() for found, mask in zip(PICTURES, objects, strict=True))
    assert all((found[mask.bool()] == 0).all() for found, mask in zip(PICTURES, background, strict=True))
    assert ours.count == (7 + 25) + (8 + 6) + 32 + 8


def test_a_picture_draws_the_same_in_any_company_and_its_seed_decides_what() -> None:
    sampler = BoxSampler(BalancedPositiveNegativeSampler(32, 0.25))
    sampler.seeds = [7, 8, 9, 10]
    together = sampler(PICTURES)
    sampler.seeds = [9, 8]
    apart = sampler([PICTURES[2], PICTURES[1]])
    for some, all_of_them in zip(apart, together, strict=True):
        assert torch.equal(some[0], all_of_them[2])
        assert torch.equal(some[1], all_of_them[1])
    # every box has its chance: 8 of 70 objects, drawn 200 times
    drawn = torch.zeros(len(PICTURES[1]))
    for seed in range(200):
        sampler.seeds = [seed]
        drawn += sampler([PICTURES[1]])[0][0]
    assert drawn[PICTURES[1] >= 1].min() > 0
    assert drawn.max() < 60
