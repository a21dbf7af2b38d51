"""Surgery on small models written here: what is found, what a swapped model computes, and that it stays a model."""

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import sapa
from bench.models import UNet
from sapa.surgery.resize import size_after


def image(height: int = 32, width: int = 48, batch: int = 1) -> Tensor:
    return torch.rand(batch, 3, height, width)


def by_hand(model: Any, x: Tensor) -> Tensor:
    """The U-Net of bench.models as it is written with upsamplers in its forward."""
    first = torch.relu(model.encoder[0](x))
    second = torch.relu(model.encoder[1](F.max_pool2d(first, 2)))
    third = torch.relu(model.encoder[2](F.max_pool2d(second, 2)))
    ups = [chain.steps[0] for chain in model.sapa.values()]
    x = torch.relu(model.decoder[0](torch.cat([ups[0](third, second), second], 1)))
    x = torch.relu(model.decoder[1](torch.cat([ups[1](x, first), first], 1)))
    return model.head(x)


class Skips(nn.Module):
    """A backbone at 1/1, 1/2, 1/4 and 1/8 with 4, 5, 6 and 7 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [nn.Conv2d(a, b, 3, padding=1) for a, b in zip((3, 4, 5, 6), (4, 5, 6, 7), strict=True)]
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        found = []
        for i, stage in enumerate(self.stages):
            x = stage(x if i == 0 else F.avg_pool2d(x, 2))
            found.append(x)
        return found


class Whole(nn.Module):
    """A backbone, and a function of its maps, which may use the modules given."""

    def __init__(self, head: Callable[[Any, list[Tensor]], Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = Skips(), head
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self, self.backbone(x))


def unet() -> Any:  # whose parts are no secret to a type checker
    return UNet()


def whole(head: Callable[[Any, list[Tensor]], Tensor], **modules: nn.Module) -> Any:
    return Whole(head, **modules)


def test_find_follows_the_data_to_the_skips() -> None:
    model = unet()
    first, second = sapa.find(model, image())
    assert (first.name, first.path, first.operator) == ("self[0]", "", "interpolate bilinear")
    assert (first.low, first.size, first.channels, first.scale) == ((8, 12), (16, 24), 32, (2, 2))
    assert (first.guides[0].name, first.guides[0].channels, first.guides[0].joined) == (
        "self:relu[1]",
        16,
        "concatenated",
    )
    assert (second.size, second.guides[0].name, second.guides[0].channels) == ((32, 48), "self:relu[0]", 8)
    assert "self:relu[1] (16)" in str(sapa.find(model, image()))


def test_find_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(unet(), nn.BatchNorm2d(1)).train()
    model[0].eval()
    before = copy.deepcopy(model.state_dict())
    assert len(sapa.find(model, image())) == 2
    assert model.training
    assert not model[0].training
    assert model[1].training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(
        part._forward_hooks or part._forward_pre_hooks or "forward" in part.__dict__ for part in model.modules()
    )


@pytest.mark.parametrize("name", ["sapa_g", "sapa_b", "fade", "joint_bilateral", "max_unpool_is_kept"])
def test_a_swapped_model_is_the_one_written_by_hand(name: str) -> None:
    model = unet()
    if name == "max_unpool_is_kept":
        # it needs as many channels in the guide as in the map, which no skip has
        with pytest.raises(ValueError, match="nothing could be swapped"):
            sapa.swap_(model, "max_unpool", image())
        assert list(model.state_dict()) == list(unet().state_dict())
        return
    sites = sapa.swap_(model, name, image())
    assert [site.swapped for site in sites] == [name, name]
    for x in (image(), image(37, 45, 2)):
        torch.testing.assert_close(model(x), by_hand(model, x), rtol=0, atol=0)


def test_restore_gives_back_every_bit_and_nothing_else_was_touched() -> None:
    model, other, function, forward = unet(), unet(), F.interpolate, UNet.forward
    x, keys, attributes = image(), list(model.state_dict()), set(model.__dict__)
    original, others = model(x), other(x)
    sapa.swap_(model, "sapa_g", x)
    assert not torch.equal(model(x), original)
    assert torch.equal(other(x), others)
    assert (F.interpolate, UNet.forward, type(model)) == (function, forward, UNet)
    assert sapa.restore_(model) is model
    assert torch.equal(model(x), original)
    assert (list(model.state_dict()), set(model.__dict__)) == (keys, attributes)
    assert torch.equal(sapa.restore_(model)(x), original)


def test_parameters_are_there_and_the_original_ones_keep_their_names() -> None:
    model, checkpoint_ = unet(), unet().state_dict()
    sapa.swap_(model, "sapa_b", image(), kernel_size=3)
    missing, unexpected = model.load_state_dict(checkpoint_, strict=False)
    assert not unexpected
    assert missing == [name for name, _ in model.named_parameters() if name.startswith("sapa.")]
    assert "sapa.0.steps.0.q.weight" in missing
    model(image()).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    again = unet()
    sapa.swap_(again, "sapa_b", image(), kernel_size=3)
    again.load_state_dict(model.state_dict())
    x = image(20, 20)
    assert torch.equal(again(x), model(x))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deepcopy", "pickle"]
)
def test_a_copy_runs_its_own_upsamplers(copied: Callable[[Any], Any]) -> None:
    model, x = unet(), image()
    original = model(x)
    sapa.swap_(model, "sapa_g", x)
    swapped = model(x)
    twin = copied(model)
    assert torch.equal(twin(x), swapped)
    with torch.no_grad():
        for p in twin.sapa.parameters():
            p.fill_(0.5)
    assert torch.equal(model(x), swapped)
    assert not torch.equal(twin(x), swapped)
    assert torch.equal(sapa.restore_(twin)(x), original)
    assert torch.equal(model(x), swapped)


def cross(model: Any, maps: list[Tensor]) -> Tensor:
    return model.last(model.up(maps[3]) + model.lateral(maps[2]))


def cross_model() -> Any:
    """The guide is made in another module than the site."""
    return whole(cross, up=nn.Upsample(scale_factor=2), lateral=nn.Conv2d(6, 7, 1), last=nn.Conv2d(7, 2, 1))


def test_a_guide_that_is_made_afterwards_is_traced_back_to_a_map_at_hand() -> None:
    model, x = cross_model(), image()
    (site,) = sapa.swap_(model, "sapa_b", x)
    assert (site.name, site.path, site.guides[0].name, site.guides[0].joined) == ("up", "up", "backbone[2]", "added")
    maps = model.backbone(x)
    up = model.up.sapa["0"].steps[0]
    assert torch.equal(model(x), model.last(up(maps[3], maps[2]) + model.lateral(maps[2])))


@pytest.mark.parametrize("make", [unet, cross_model])
def test_compile_in_one_graph(make: Callable[[], Any]) -> None:
    torch._dynamo.reset()
    model = make()
    sapa.swap_(model, "sapa_g", image())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for x in (image(), image(24, 40, 2)):
        torch.testing.assert_close(compiled(x), model(x))
    compiled(image()).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("make", [unet, cross_model])
def test_export_with_free_sizes(make: Callable[[], Any]) -> None:
    model = make().eval()
    sapa.swap_(model, "sapa_b", image())
    auto = torch.export.Dim.AUTO
    program = torch.export.export(model, (image(32, 48, 2),), dynamic_shapes=({0: auto, 2: auto, 3: auto},))
    for x in (image(32, 48, 2), image(40, 24, 3)):
        torch.testing.assert_close(program.module()(x), model(x))


def test_autocast_and_half() -> None:
    model, x = unet(), image()
    sapa.swap_(model, "sapa_g", x)
    full = model(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), full, rtol=0.05, atol=0.05)
    half = model.to(torch.bfloat16)
    assert half(x.bfloat16()).dtype == torch.bfloat16
    assert next(half.sapa.parameters()).dtype == torch.bfloat16


def test_a_model_in_double_gets_upsamplers_in_double_and_in_its_mode() -> None:
    model = unet().double().eval()
    sapa.swap_(model, "sapa_b", image().double())
    assert model(image().double()).dtype == torch.float64
    assert not any(part.training for part in model.modules())
    assert all(part.training for part in model.train().modules())


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(7 + 6, 3, 3, padding=1)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        return self.conv(torch.cat([F.interpolate(x, scale_factor=2.0), skip], 1))


def test_checkpointing_gives_the_same_gradients() -> None:
    plain = whole(lambda model, maps: model.block(maps[3], maps[2]), block=Block())
    sapa.swap_(plain, "sapa_g", image())
    saving = copy.deepcopy(plain)
    saving.head = lambda model, maps: checkpoint(model.block, maps[3], maps[2], use_reentrant=False)
    x = image()
    for model in (plain, saving):
        model(x).square().sum().backward()
    for (name, expected), (_, found) in zip(plain.named_parameters(), saving.named_parameters(), strict=True):
        assert expected.grad is not None, name
        torch.testing.assert_close(found.grad, expected.grad)


def test_a_checkpoint_without_the_guide_is_refused_and_not_wrong() -> None:
    model = cross_model()
    sapa.swap_(model, "sapa_g", image())
    model.head = lambda model, maps: checkpoint(model.up, maps[3], use_reentrant=False) + model.lateral(maps[2])
    y = model(image())
    with pytest.raises(RuntimeError, match=r"up: its guide backbone\[2\] was not made in this forward pass"):
        y.sum().backward()


def test_two_threads_do_not_see_each_others_guides() -> None:
    model = cross_model().eval()
    sapa.swap_(model, "sapa_b", image())
    inputs = [image(32, 48), image(64, 16), image(16, 64), image(48, 32)]
    expected = [model(x) for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not torch.equal(model(inputs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert model.forward.shelf.states == {}


def test_ddp(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/ddp", rank=0, world_size=1)
    try:
        model = whole(
            lambda model, maps: model.up(maps[3]) + maps[2],
            up=nn.ConvTranspose2d(7, 6, 2, stride=2),
        )
        sapa.swap_(model, "sapa_g", image())
        wrapped = nn.parallel.DistributedDataParallel(model)
        for _ in range(2):  # the second finds out if a parameter got no gradient
            wrapped(image()).sum().backward()
        assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    finally:
        torch.distributed.destroy_process_group()


def test_a_large_step_becomes_a_chain_through_the_maps_in_between() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        return F.interpolate(maps[3], scale_factor=8, mode="bilinear") * maps[0].mean(1, keepdim=True)

    model, x = whole(head), image()
    (site,) = sapa.swap_(model, "sapa_b", x)
    assert site.swapped == "sapa_b, 3 steps"
    assert [guide.name for guide in site.between] == ["backbone[2]", "backbone[1]"]
    assert site.guides[0].joined == "multiplied"
    maps = model.backbone(x)
    expected = maps[3]
    for up, guide in zip(model.sapa["0"].steps, (maps[2], maps[1], maps[0]), strict=True):
        expected = up(expected, guide)
    assert torch.equal(model(x), expected * maps[0].mean(1, keepdim=True))
    assert model(image(40, 56)).shape == (1, 7, 40, 56)


def test_a_transposed_convolution_and_a_pixel_shuffle_change_the_channels_first() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        return model.shuffle(model.deconv(maps[3]) + maps[2]) + maps[1][:, :2]

    model = whole(
        head,
        deconv=nn.ConvTranspose2d(7, 6, 4, stride=2, padding=1),
        shuffle=nn.Sequential(nn.Conv2d(6, 8, 1), nn.PixelShuffle(2)),
    )
    x, original = image(), None
    original = model(x)
    deconv, shuffle = sapa.swap_(model, "sapa_b", x)
    assert (deconv.function, deconv.channels, deconv.out_channels) == ("conv_transpose2d", 7, 6)
    assert (shuffle.name, shuffle.function, shuffle.channels, shuffle.out_channels) == (
        "shuffle.1",
        "pixel_shuffle",
        8,
        2,
    )
    maps = model.backbone(x)
    chain = model.deconv.sapa["0"]
    y = model.shuffle[0](chain.steps[0](chain.project(maps[3]), maps[2]) + maps[2])
    chain = model.shuffle[1].sapa["0"]
    guide = maps[1][:, :2] if chain.steps[0].guide_channels == 2 else maps[1]
    assert torch.equal(model(x), chain.steps[0](chain.project(y), guide) + maps[1][:, :2])
    # it takes no part any more, and would wait for a gradient
    assert not model.deconv.weight.requires_grad
    assert all(p.requires_grad for p in model.deconv.sapa.parameters())
    sapa.restore_(model)
    assert model.deconv.weight.requires_grad
    assert torch.equal(model(x), original)


def test_an_upsampler_that_a_model_uses_again_and_again_becomes_one_for_each() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        y = model.up(maps[3])[:, :6] + maps[2]
        y = model.up(y)[:, :5] + maps[1]
        return model.up(y)[:, :4] + maps[0]

    model, x = whole(head, up=nn.Upsample(scale_factor=2, mode="bilinear")), image()
    sites = sapa.swap_(model, "sapa_b", x)
    assert [(site.name, site.guides[0].name) for site in sites] == [
        ("up[0]", "backbone[2]"),
        ("up[1]", "backbone[1]"),
        ("up[2]", "backbone[0]"),
    ]
    ups, maps = [chain.steps[0] for chain in model.up.sapa.values()], model.backbone(x)
    y = ups[0](maps[3], maps[2])[:, :6] + maps[2]
    y = ups[1](y, maps[1])[:, :5] + maps[1]
    assert torch.equal(model(x), ups[2](y, maps[0])[:, :4] + maps[0])
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.up.parameters())


def test_a_block_that_is_called_twice_with_its_guide_shares_one_upsampler() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        return model.block(maps[3], maps[2]) - model.block(maps[3] + 1, maps[2] - 1)

    model, x = whole(head, block=Block()), image()
    (site,) = sapa.swap_(model, "sapa_b", x)
    assert (site.note, site.swapped) == ("runs 2 times", "sapa_b")
    maps, up = model.backbone(x), model.block.sapa["0"].steps[0]

    def block(low: Tensor, skip: Tensor) -> Tensor:
        return model.block.conv(torch.cat([up(low, skip), skip], 1))

    assert torch.equal(model(x), block(maps[3], maps[2]) - block(maps[3] + 1, maps[2] - 1))


def test_one_layer_between_two_pairs_of_maps_of_the_same_size_takes_the_guide_of_each() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        one, two = model.one(maps[2]), model.two(maps[2])
        return (model.up(maps[3]) + one) * (model.up(maps[3] + 1) + two)

    model, x = whole(head, up=nn.Upsample(scale_factor=2), one=nn.Conv2d(6, 7, 1), two=nn.Conv2d(6, 7, 1)), image()
    sites = sapa.swap_(model, "sapa_b", x)
    assert [site.guides[0].name for site in sites] == ["one", "two"]
    maps, (first, second) = model.backbone(x), (chain.steps[0] for chain in model.up.sapa.values())
    one, two = model.one(maps[2]), model.two(maps[2])
    assert torch.equal(model(x), (first(maps[3], one) + one) * (second(maps[3] + 1, two) + two))


def test_a_result_that_is_written_into_a_buffer_is_followed() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        buffer = torch.zeros(len(maps[2]), 13, *maps[2].shape[2:])
        buffer[:, :7] = F.interpolate(maps[3], size=maps[2].shape[2:])
        buffer[:, 7:] = maps[2]
        return model.last(buffer)

    model, x = whole(head, last=nn.Conv2d(13, 2, 1)), image()
    (site,) = sapa.swap_(model, "sapa_b", x)
    assert site.guides[0].name == "backbone[2]"
    maps = model.backbone(x)
    up = model.sapa["0"].steps[0]
    torch.testing.assert_close(model(x), model.last(torch.cat([up(maps[3], maps[2]), maps[2]], 1)))


def test_a_guide_that_is_missing_later_is_named() -> None:
    class Maybe(nn.Module):
        def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
            y = F.interpolate(x, scale_factor=2)
            return y if skip is None else y + skip.sum(1, keepdim=True)

    model = whole(lambda model, maps: model.maybe(maps[3], skip=maps[2]), maybe=Maybe())
    sapa.swap_(model, "sapa_b", image())
    assert model.maybe(torch.rand(1, 7, 4, 4), torch.rand(1, 6, 8, 8)).shape == (1, 7, 8, 8)
    with pytest.raises(RuntimeError, match=r"maybe: its guide maybe\(skip\) was not made in this forward pass"):
        model.maybe(torch.rand(1, 7, 4, 4))


def test_a_module_under_two_names_is_one() -> None:
    block = Block()
    model = whole(lambda model, maps: model.one(maps[3], maps[2]) + model.two(maps[3], maps[2]), one=block, two=block)
    (site,) = sapa.swap_(model, "sapa_b", image())
    assert site.name == "one"
    assert len(model.one.sapa) == 1


def test_calls_of_children_do_not_shift_the_count() -> None:
    """A child that resizes only at some sizes is no reason to swap the wrong call."""

    class Padded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            wanted = [-(-n // 4) * 4 for n in x.shape[2:]]
            return x if list(x.shape[2:]) == wanted else F.interpolate(x, size=wanted)

    def head(model: Any, maps: list[Tensor]) -> Tensor:
        return F.interpolate(model.pad(maps[3]), size=maps[2].shape[2:]) + maps[2].sum(1, keepdim=True)

    model = whole(head, pad=Padded())
    sapa.swap_(model, "sapa_b", image(64, 96))
    x = image(72, 88)
    maps = model.backbone(x)
    low = model.pad(maps[3])
    assert low.shape[2:] != maps[3].shape[2:]
    assert torch.equal(model(x), model.sapa["0"].steps[0](low, maps[2]) + maps[2].sum(1, keepdim=True))


def test_maps_that_are_written_over_later_still_have_gradients() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        low, skip = maps[3] + 1, maps[2] + 1
        y = F.interpolate(low, scale_factor=2)
        y += skip.mean(1, keepdim=True)
        return (y.sum() + low.mul_(2).sum() + skip.mul_(2).sum()) / 1000

    model, x = whole(head), image()
    model(x).backward()
    (site,) = sapa.swap_(model, "sapa_b", x)
    assert site.is_changed
    assert site.guides[0].is_changed
    model(x).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_site_without_gradients_is_swapped_and_said_to_be() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        with torch.no_grad():
            return F.interpolate(maps[3], scale_factor=2) + maps[2].sum(1, keepdim=True)

    (site,) = sapa.swap_(whole(head), "sapa_b", image())
    assert "runs without gradients" in site.note
    model, x = whole(lambda model, maps: F.interpolate(maps[3], scale_factor=2) + maps[2][:, :1]), image()
    with torch.inference_mode():  # of the caller, which says nothing about training
        (site,) = sapa.find(model, x)
    assert "runs without gradients" not in site.note


def test_an_unguided_upsampler_takes_any_site() -> None:
    model, x = whole(lambda model, maps: F.interpolate(maps[3], scale_factor=2)), image()
    assert [site.swapped for site in sapa.swap_(model, "carafe", x)] == ["carafe"]
    assert torch.equal(model(x), model.sapa["0"].steps[0](model.backbone(x)[3]))


def widen(model: Any, maps: list[Tensor]) -> Tensor:
    wide = F.interpolate(F.avg_pool2d(maps[3], (1, 6)), size=(9, 7))
    return wide.mean() + (F.interpolate(maps[3], scale_factor=2) + maps[2].sum(1, keepdim=True))


def test_a_site_without_a_guide_keeps_its_operator_or_takes_another() -> None:
    lonely, guided = sapa.swap_(whole(widen), "sapa_b", image())
    assert (lonely.swapped, guided.swapped) == ("", "sapa_b")
    assert lonely.note == "no map of this size before it"
    lonely, guided = sapa.swap_(whole(widen), "sapa_b", image(), unguided="bilinear")
    assert (lonely.swapped, guided.swapped) == ("bilinear", "sapa_b")
    with pytest.raises(ValueError, match="'sapa_i' needs a guide, and cannot serve where there is none"):
        sapa.swap_(whole(widen), "sapa_b", image(), unguided="sapa_i")


def test_a_guide_and_what_is_made_of_it_later_are_one_guide() -> None:
    def head(model: Any, maps: list[Tensor]) -> Tensor:
        return torch.cat([F.interpolate(maps[3], scale_factor=2), maps[2], model.conv(maps[2])], 1)

    (site,) = sapa.find(whole(head, conv=nn.Conv2d(6, 9, 1)), image())
    assert [guide.name for guide in site.guides if guide.joined] == ["backbone[2]"]


def test_where_chooses() -> None:
    model = unet()
    for where, expected in (
        ("self[1]", ["", "sapa_b"]),
        (["self*"], ["sapa_b", "sapa_b"]),
        (lambda site: site.channels == 32, ["sapa_b", ""]),
    ):
        assert [site.swapped for site in sapa.swap_(model, "sapa_b", image(), where=where)] == expected
        sapa.restore_(model)
    for wrong, message in (
        ("self[7]", r"no site 'self\[7\]'\. Did you mean 'self\[0\]'"),
        (lambda site: False, "chooses none of the sites self"),
    ):
        with pytest.raises(ValueError, match=message):
            sapa.swap_(model, "sapa_b", image(), where=wrong)


def two_guides(model: Any, maps: list[Tensor]) -> Tensor:
    other = model.other(maps[2])
    return torch.cat([F.interpolate(maps[3], scale_factor=2), maps[2], other], 1)


def test_of_two_guides_one_is_taken_and_the_other_can_be_chosen() -> None:
    model = whole(two_guides, other=nn.Conv2d(6, 9, 1))
    (site,) = sapa.swap_(model, "sapa_b", image())
    assert site.guides[0].name == "other"
    assert site.note == "others for guide=: backbone[2]"
    assert model.sapa["0"].steps[0].guide_channels == 9
    sapa.restore_(model)
    (site,) = sapa.swap_(model, "sapa_b", image(), guide={"self": "backbone[2]"})
    assert model.sapa["0"].steps[0].guide_channels == 6
    sapa.restore_(model)
    with pytest.raises(ValueError, match=r"self has no possible guide 'backbone\[9\]'\. Did you mean 'backbone\[2\]'"):
        sapa.swap_(model, "sapa_b", image(), guide={"self": "backbone[9]"})
    with pytest.raises(ValueError, match="guide= names no site 'head'"):
        sapa.swap_(model, "sapa_b", image(), guide={"head": "backbone[2]"})


def test_an_inner_product_takes_only_a_guide_of_its_channels() -> None:
    model = whole(two_guides, other=nn.Conv2d(6, 7, 1))  # x has 7
    (site,) = sapa.swap_(model, "sapa_i", image())
    assert (site.guides[0].name, site.swapped) == ("other", "sapa_i")
    with pytest.raises(
        ValueError, match=r"(?s)nothing could be swapped:\n  self: .*x has 7 and guide 9; use 'bilinear'"
    ):
        sapa.swap_(whole(two_guides, other=nn.Conv2d(6, 9, 1)), "sapa_i", image())


def test_a_model_that_cannot_run_is_left_as_it_was() -> None:
    model = unet().train()
    with pytest.raises(
        ValueError, match=r"find: UNet cannot run on the example \(\[1, 4, 8, 8\]\): RuntimeError: .* 3 channels"
    ):
        sapa.find(model, torch.rand(1, 4, 8, 8))
    assert model.training
    assert not any(
        part._forward_hooks or part._forward_pre_hooks or "forward" in part.__dict__ for part in model.modules()
    )


def test_what_cannot_be_swapped_is_said_in_words() -> None:
    with pytest.raises(ValueError, match="on this example the model makes no map"):
        sapa.swap_(nn.Conv2d(3, 3, 1), "sapa_b", image())
    assert str(sapa.find(nn.Conv2d(3, 3, 1), image())) == "On this example the model makes no map [B, C, h, w] larger."
    with pytest.raises(KeyError, match=r"no upsampler 'sappa_b'\. Did you mean 'sapa_b'"):
        sapa.swap_(unet(), "sappa_b", image())
    with pytest.raises(TypeError, match="find: give a module, got str"):
        sapa.find("unet", image())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the model is compiled. Find and swap before torch\.compile"):
        sapa.swap_(torch.compile(UNet()), "sapa_b", image())  # type: ignore[arg-type]
    model = unet()
    sapa.swap_(model, "sapa_b", image())
    with pytest.raises(ValueError, match=r"was swapped before; call restore_\(model\) first"):
        sapa.swap_(model, "sapa_b", image())

    class Ending(nn.Sequential):
        def forward(self, input: Tensor) -> Tensor:
            first = self[0](input)
            return F.interpolate(F.avg_pool2d(first, 2), scale_factor=2) + first

    with pytest.raises(ValueError, match="self is a Ending, in which a new child would take part"):
        sapa.swap_(Ending(nn.Conv2d(3, 4, 1)), "sapa_b", image())
    inside = nn.ModuleDict({"end": Ending(nn.Conv2d(3, 4, 1))})
    inside.forward = lambda x: inside["end"](x)
    with pytest.raises(ValueError, match="in which a new child would take part"):
        sapa.swap_(inside, "sapa_b", image())
    taken = unet()
    taken.sapa = 1  # type: ignore[assignment]
    with pytest.raises(ValueError, match="the model has an attribute 'sapa' already"):
        sapa.swap_(taken, "sapa_b", image())


def test_a_model_that_does_not_run_with_the_new_upsampler_gets_its_own_back() -> None:
    class Strict(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            low = F.avg_pool2d(x, 2)
            y = F.interpolate(low, scale_factor=2)
            if not torch.equal(y[..., ::2, ::2], low):
                raise ArithmeticError("not the nearest")
            return y + x

    model = Strict()
    with pytest.raises(
        RuntimeError, match="does not run with its new upsamplers, and is left as it was: not the nearest"
    ):
        sapa.swap_(model, "sapa_b", image())
    assert model(image()).shape == (1, 3, 32, 48)
    assert not list(model.parameters())


@pytest.mark.parametrize("x", [torch.rand(1, 4, 5, 7), torch.rand(1, 4, 6, 3)], ids=["5x7", "6x3"])
def test_the_size_of_a_call_is_what_pytorch_makes_of_it(x: Tensor) -> None:
    weight = torch.rand(4, 2, 3, 4)
    calls = [
        (F.interpolate, (x, (9, 11)), {}),
        (F.interpolate, (x,), {"size": 13}),
        (F.interpolate, (x,), {"scale_factor": 2}),
        (F.interpolate, (x, None, (1.5, 2.7)), {}),
        (F.pixel_shuffle, (x, 2), {}),
        (F.conv_transpose2d, (x, weight), {"stride": 2, "padding": 1, "output_padding": 1}),
        (F.conv_transpose2d, (x, weight, None, (2, 3), (1, 0), (1, 2), 1, (1, 2)), {}),
    ]
    for function, args, kwargs in calls:
        assert size_after(function, x, args, kwargs) == tuple(function(*args, **kwargs).shape[2:])
