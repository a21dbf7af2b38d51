"""Surgery on the models of other libraries, built from their configurations: which sites, which guides, and back."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sapa
from bench.models import MODELS
from sapa.surgery.trace import leaves

# pinned: for each site the guides of its steps, none where the operator is kept
EXPECTED: dict[str, dict[str, tuple[str, ...]]] = {
    "a U-Net by hand": {
        "self[0]": ("self:relu[1]",),
        "self[1]": ("self:relu[0]",),
    },
    "timm features_only, nn.Upsample": {
        "up[0]": ("backbone[3]",),
        "up[1]": ("backbone[2]",),
        "up[2]": ("backbone[1]",),
        "up[3]": ("backbone[0]",),
    },
    "torchvision Faster R-CNN": {
        "backbone.fpn[0]": ("backbone.fpn.inner_blocks.2",),
        "backbone.fpn[1]": ("backbone.fpn.inner_blocks.1",),
        "backbone.fpn[2]": ("backbone.fpn.inner_blocks.0",),
    },
    "torchvision Mask R-CNN": {
        "backbone.fpn[0]": ("backbone.fpn.inner_blocks.2",),
        "backbone.fpn[1]": ("backbone.fpn.inner_blocks.1",),
        "backbone.fpn[2]": ("backbone.fpn.inner_blocks.0",),
        "roi_heads.mask_predictor.conv5_mask": (),
    },
    "torchvision RetinaNet": {
        "backbone.fpn[0]": ("backbone.fpn.inner_blocks.1",),
        "backbone.fpn[1]": ("backbone.fpn.inner_blocks.0",),
    },
    "torchvision FCN": {
        "self": ("backbone.layer1", "backbone.relu", "self(x)"),
    },
    "torchvision DeepLabV3": {
        "classifier.0.convs.4": (),
        "self": ("backbone.layer1", "backbone.relu", "self(x)"),
    },
    "torchvision LRASPP": {
        "classifier": ("backbone['low']",),
        "self": ("backbone.3", "backbone.1", "self(input)"),
    },
    "transformers SegFormer": {
        "decode_head[0]": ("decode_head:reshape[0]",),
        "decode_head[1]": ("decode_head:reshape[1]", "decode_head:reshape[0]"),
        "decode_head[2]": ("decode_head:reshape[2]", "decode_head:reshape[1]", "decode_head:reshape[0]"),
    },
    "transformers MaskFormer": {
        "model.pixel_level_module.decoder.fpn.layers.0": ("model.pixel_level_module.decoder.fpn.layers.0.proj",),
        "model.pixel_level_module.decoder.fpn.layers.1": ("model.pixel_level_module.decoder.fpn.layers.1.proj",),
        "model.pixel_level_module.decoder.fpn.layers.2": ("model.pixel_level_module.decoder.fpn.layers.2.proj",),
    },
    "transformers Mask2Former": {
        "model.pixel_level_module.decoder": ("model.pixel_level_module.decoder.adapter_1",),
    },
    "transformers UPerNet": {
        "decode_head.psp_modules[0]": (),
        "decode_head.psp_modules[1]": (),
        "decode_head[0]": ("decode_head.lateral_convs.2",),
        "decode_head[1]": ("decode_head.lateral_convs.1",),
        "decode_head[2]": ("decode_head.lateral_convs.0",),
        "decode_head[3]": ("decode_head.fpn_convs.2", "decode_head.fpn_convs.1", "decode_head.fpn_convs.0"),
        "decode_head[4]": ("decode_head.fpn_convs.1", "decode_head.fpn_convs.0"),
        "decode_head[5]": ("decode_head.fpn_convs.0",),
        "self": ("self(pixel_values)",),
    },
    "transformers DPT": {
        "neck.reassemble_stage.layers.0.resize": (),
        "neck.reassemble_stage.layers.1.resize": (),
        "neck.fusion_stage.layers.0": ("neck.convs.2",),
        "neck.fusion_stage.layers.1": ("neck.convs.1",),
        "neck.fusion_stage.layers.2": ("neck.convs.0",),
        "neck.fusion_stage.layers.3": (),
        "head.head.1": ("self(pixel_values)",),
    },
    "transformers DepthAnything": {
        "neck.reassemble_stage.layers.0.resize": (),
        "neck.reassemble_stage.layers.1.resize": (),
        "neck.fusion_stage.layers.0": ("neck.convs.2",),
        "neck.fusion_stage.layers.1": ("neck.convs.1",),
        "neck.fusion_stage.layers.2": ("neck.convs.0",),
        "neck.fusion_stage.layers.3": (),
        "head": ("self(pixel_values)",),
    },
    "smp Unet": {
        "decoder.blocks.0": ("encoder[4]",),
        "decoder.blocks.1": ("encoder[3]",),
        "decoder.blocks.2": ("encoder[2]",),
        "decoder.blocks.3": ("encoder[1]",),
        "decoder.blocks.4": ("self(x)",),
    },
    "smp Unet++": {
        "decoder.blocks.x_0_0": ("encoder[4]",),
        "decoder.blocks.x_1_1": ("encoder[3]",),
        "decoder.blocks.x_2_2": ("encoder[2]",),
        "decoder.blocks.x_3_3": ("encoder[1]",),
        "decoder.blocks.x_0_1": ("decoder:cat[0]",),
        "decoder.blocks.x_1_2": ("decoder:cat[1]",),
        "decoder.blocks.x_2_3": ("decoder:cat[2]",),
        "decoder.blocks.x_0_2": ("decoder:cat[3]",),
        "decoder.blocks.x_1_3": ("decoder:cat[4]",),
        "decoder.blocks.x_0_3": ("decoder:cat[5]",),
        "decoder.blocks.x_0_4": ("self(x)",),
    },
    "smp FPN": {
        "decoder.p4": ("encoder[4]",),
        "decoder.p3": ("encoder[3]",),
        "decoder.p2": ("encoder[2]",),
        "decoder.seg_blocks.0.block.0": ("encoder[4]",),
        "decoder.seg_blocks.0.block.1": ("encoder[3]",),
        "decoder.seg_blocks.0.block.2": ("decoder.p2",),
        "decoder.seg_blocks.1.block.0": ("encoder[3]",),
        "decoder.seg_blocks.1.block.1": ("decoder.p2",),
        "decoder.seg_blocks.2.block.0": ("decoder.p2",),
        "segmentation_head.1": ("encoder[1]", "self(x)"),
    },
    "smp PAN": {
        "decoder.fpa[0]": (),
        "decoder.fpa[1]": (),
        "decoder.fpa[2]": ("decoder.fpa.down1",),
        "decoder.fpa[3]": ("decoder.fpa.mid",),
        "decoder.gau2": ("encoder[3]",),
        "decoder.gau1": ("encoder[2]",),
        "segmentation_head.1": ("encoder[1]", "self(x)"),
    },
    "smp DeepLabV3+": {
        "decoder.aspp.0.convs.4": (),
        "decoder.up": ("encoder[3]", "encoder[2]"),
        "segmentation_head.1": ("encoder[1]", "self(x)"),
    },
    "smp UPerNet": {
        "decoder.psp[0]": (),
        "decoder.psp[1]": (),
        "decoder.psp[2]": (),
        "decoder.fpn_lateral_blocks.0": ("decoder.fpn_lateral_blocks.0.conv_norm_relu",),
        "decoder.fpn_lateral_blocks.1": ("decoder.fpn_lateral_blocks.1.conv_norm_relu",),
        "decoder.fpn_lateral_blocks.2": ("decoder.fpn_lateral_blocks.2.conv_norm_relu",),
        "decoder[0]": ("decoder.fpn_conv_blocks.0", "decoder.fpn_conv_blocks.1", "decoder.fpn_conv_blocks.2"),
        "decoder[1]": ("decoder.fpn_conv_blocks.1", "decoder.fpn_conv_blocks.2"),
        "decoder[2]": ("decoder.fpn_conv_blocks.2",),
        "segmentation_head.1": ("encoder[1]", "self(x)"),
    },
}
# what runs without the heads, whose boxes have no gradient before training
TRUNK = {"torchvision Faster R-CNN", "torchvision Mask R-CNN", "torchvision RetinaNet"}
# where a model does not take all: multiples of a patch, squares, or larger ones
OTHER_SIZES = {"transformers DepthAnything": (98, 70), "transformers DPT": (96, 96), "smp PAN": (160, 128)}


def other_size(name: str) -> tuple[Any, ...]:
    if name in TRUNK:
        return ([torch.rand(3, 80, 110), torch.rand(3, 90, 60)],)
    return (torch.rand(2, 3, *OTHER_SIZES.get(name, (96, 64))),)


def outputs(model: nn.Module, *example: Any) -> list[Tensor]:
    with torch.no_grad():
        return [y for _, y in leaves(model(*example))]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_swapped_trained_copied_and_restored(name: str) -> None:
    model, example = MODELS[name]()
    before, keys = outputs(model, *example), list(model.state_dict())

    sites = sapa.swap_(model, "sapa_g", *example)
    assert {
        site.name: tuple(g.name for g in (*site.between, site.guides[0])) if site.swapped else () for site in sites
    } == EXPECTED[name]
    added = [key for key in model.state_dict() if key not in keys]
    assert list(model.state_dict()) != keys
    assert [key for key in model.state_dict() if key not in added] == keys
    assert all(".sapa." in f".{key}" for key in added)

    swapped = outputs(model, *example)
    if name in TRUNK:
        assert len(outputs(model.backbone, torch.rand(1, 3, 64, 64))) > 3
    else:
        assert [y.shape for y in swapped] == [y.shape for y in before]
        assert any(not torch.equal(new, old) for new, old in zip(swapped, before, strict=True))
    assert outputs(model, *other_size(name))
    if name not in TRUNK:  # which want boxes in training
        assert outputs(copy.deepcopy(model).train(), *other_size(name))

    run = model.backbone if name in TRUNK else model
    inputs = (torch.rand(1, 3, 64, 96),) if name in TRUNK else example
    torch.stack([y.float().sum() for _, y in leaves(run(*inputs)) if y.requires_grad]).sum().backward()
    new = [parameter for key, parameter in model.named_parameters() if key in added]
    assert new
    assert all(parameter.grad is not None for parameter in new)
    model.zero_grad()

    twin = copy.deepcopy(model)
    assert all(torch.equal(a, b) for a, b in zip(outputs(twin, *example), swapped, strict=True))

    sapa.restore_(model)
    assert list(model.state_dict()) == keys
    assert all(torch.equal(a, b) for a, b in zip(outputs(model, *example), before, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(outputs(twin, *example), swapped, strict=True))


@pytest.mark.parametrize("name", ["torchvision LRASPP", "transformers SegFormer", "transformers DPT", "smp Unet"])
def test_export_and_autocast(name: str) -> None:
    model, example = MODELS[name]()
    sapa.swap_(model, "sapa_b", *example)
    expected = outputs(model, *example)
    exported = outputs(torch.export.export(model, example).module(), *example)
    for found, wanted in zip(exported, expected, strict=True):
        torch.testing.assert_close(found, wanted)
    with torch.autocast("cpu", torch.bfloat16):
        half = outputs(model, *example)
    assert [y.shape for y in half] == [y.shape for y in expected]
    assert all(y.isfinite().all() for y in half)


def test_a_swapped_pyramid_is_the_one_written_by_hand() -> None:
    from torchvision.ops import FeaturePyramidNetwork

    maps = {str(i): torch.rand(1, 4 + i, 48 // 2**i, 32 // 2**i) for i in range(3)}
    pyramid: Any = FeaturePyramidNetwork([4, 5, 6], 8)
    sapa.swap_(pyramid, "sapa_b", maps)
    laterals = [block(maps[str(i)]) for i, block in enumerate(pyramid.inner_blocks)]
    last = laterals[2]
    expected = [pyramid.layer_blocks[2](last)]
    for i, chain in zip((1, 0), pyramid.sapa.values(), strict=True):
        last = laterals[i] + chain.steps[0](last, laterals[i])
        expected.insert(0, pyramid.layer_blocks[i](last))
    for found, wanted in zip(pyramid(maps).values(), expected, strict=True):
        assert torch.equal(found, wanted)


def test_segformer_goes_up_in_three_and_two_and_one_steps_by_hand() -> None:
    model, (x,) = MODELS["transformers SegFormer"]()
    sites = sapa.swap_(model, "sapa_b", x)
    assert [len(model.decode_head.sapa[str(i)].steps) for i in range(3)] == [1, 2, 3]
    assert [site.swapped for site in sites] == ["sapa_b", "sapa_b, 2 steps", "sapa_b, 3 steps"]
    head = model.decode_head
    with torch.no_grad():
        hidden = model.segformer(x, output_hidden_states=True).hidden_states
        maps = []
        for stage, mlp in zip(hidden, head.linear_projections, strict=True):
            y = mlp.proj(stage.flatten(2).transpose(1, 2))
            maps.append(y.transpose(1, 2).unflatten(2, stage.shape[2:]).contiguous())
        raised = [maps[0]]
        for i in (1, 2, 3):
            y = maps[i]
            for step, guide in zip(head.sapa[str(i - 1)].steps, reversed(maps[:i]), strict=True):
                y = step(y, guide)
            raised.append(y)
        y = head.linear_fuse(torch.cat(raised[::-1], 1))
        expected = head.classifier(head.dropout(head.activation(head.batch_norm(y))))
        torch.testing.assert_close(model(x).logits, expected)


def test_depth_is_guided_by_the_next_map_of_the_neck() -> None:
    """The guide lies in another module, which is run before the site's."""
    model, (x,) = MODELS["transformers DPT"]()
    sapa.swap_(model, "sapa_b", x)
    layers = model.neck.fusion_stage.layers
    seen: dict[str, Tensor] = {}
    handles = [
        model.neck.convs[2].register_forward_hook(lambda _, __, y: seen.update(guide=y)),
        layers[0].sapa["0"].register_forward_hook(lambda _, args, y: seen.update(x=args[0], given=args[1][0], y=y)),
    ]
    with torch.no_grad():
        model(x)
        assert seen["given"] is seen["guide"]
        assert torch.equal(seen["y"], layers[0].sapa["0"].steps[0](seen["x"], seen["guide"]))
    for handle in handles:
        handle.remove()


def test_a_detector_trains_through_its_new_upsamplers() -> None:
    model, example = MODELS["torchvision Faster R-CNN"]()
    sapa.swap_(model, "sapa_g", *example)
    targets = [{"boxes": torch.tensor([[10.0, 10.0, 60.0, 70.0]]), "labels": torch.tensor([3])}]
    losses = model.train()(*example, targets)
    torch.stack(list(losses.values())).sum().backward()
    gradients = [p.grad for p in model.backbone.fpn.sapa.parameters()]
    assert len(gradients) > 20
    assert all(g is not None and g.isfinite().all() for g in gradients)


def test_the_picture_itself_and_pasted_masks_are_no_sites() -> None:
    model, _ = MODELS["torchvision Mask R-CNN"]()
    small = [torch.rand(3, 48, 64)]  # which the detector enlarges first
    assert all(site.path.startswith(("backbone.fpn", "roi_heads.mask_predictor")) for site in sapa.find(model, small))
