"""Models and moments in which surgery could go wrong in silence: it works, or says what is the matter."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import sapa


def image(size: int = 16) -> Tensor:
    return torch.rand(1, 3, size, size)


class Encoder(nn.Module):
    """Maps of 4 channels at 1/1, 1/2 and 1/4 of the size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        full = self.first(x)
        half = self.second(F.avg_pool2d(full, 2))
        return [full, half, self.third(F.avg_pool2d(half, 2))]


class Model(nn.Module):
    """One step; what else happens in the forward, and by which parts, is up to the test."""

    up: Any
    extra: Any
    skip: Any
    linear: Any

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = Encoder(), nn.Conv2d(4, 4, 1)
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Any:
        _, half, quarter = self.encoder(x)
        return self.decode(quarter, half)

    def decode(self, quarter: Tensor, half: Tensor) -> Tensor:
        return self.head(F.interpolate(quarter, scale_factor=2.0)) + half


def swapped(model: Any, *example: Any, **options: Any) -> Any:
    sapa.swap_(model, "sapa_b", *(example or (image(),)), **options)
    return model


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_that_would_recompute_the_old_operator_is_refused(use_reentrant: bool) -> None:
    class Saving(Model):
        def forward(self, x: Tensor) -> Tensor:
            _, half, quarter = self.encoder(x)
            if not torch.is_grad_enabled():
                return self.decode(quarter, half)
            return checkpoint(self.decode, quarter, half, use_reentrant=use_reentrant)  # type: ignore[return-value]

    model = swapped(Saving())
    with pytest.raises(RuntimeError, match="a checkpoint inside the forward of self would recompute"):
        model(image())


def test_a_shared_layer_in_a_checkpoint_is_refused() -> None:
    class Shared(Model):
        def forward(self, x: Tensor) -> Tensor:
            full, half, quarter = self.encoder(x)
            half = half + self.up(quarter)
            return full + checkpoint(lambda y: self.head(self.up(y)), half, use_reentrant=False)

    model = swapped(Shared(up=nn.Upsample(scale_factor=2)))
    y = model(image())
    with pytest.raises(RuntimeError, match="called from outside the model"):
        y.sum().backward()


def test_parts_that_run_alone_get_no_guide_of_another_picture() -> None:
    class Parts(Model):
        def forward(self, x: Tensor) -> Tensor:
            _, half, quarter = self.encoder(x)
            return self.up(quarter) + half

    model = swapped(Parts(up=nn.Upsample(scale_factor=2)))
    model.encoder(image())
    assert not model.encoder.forward.shelf.states
    with pytest.raises(RuntimeError, match=r"up: its guide encoder\[1\] was not made in this forward pass"):
        model.up(torch.rand(1, 4, 4, 4))


def test_a_hook_with_calls_of_its_own() -> None:
    model, x, seen = swapped(Model()), image(), []
    expected = model(x)
    handle = model.encoder.register_forward_hook(
        lambda *args: seen.append(F.interpolate(args[2][0], size=4, mode="area"))
    )
    assert torch.equal(model(x), expected)
    assert len(seen) == 1
    handle.remove()
    model.encoder.register_forward_hook(lambda *args: seen.append(F.interpolate(args[2][0], scale_factor=0.5)))
    with pytest.raises(RuntimeError, match="makes other calls of interpolate and the like than on the example"):
        model(x)


@pytest.mark.parametrize("channels", [5, 4])
def test_a_call_in_training_alone(channels: int) -> None:
    class Auxiliary(Model):
        def forward(self, x: Tensor) -> Any:
            _, half, quarter = self.encoder(x)
            extra = F.interpolate(self.extra(quarter), scale_factor=2.0) if self.training else None
            return self.decode(quarter, half), extra

    model = swapped(Auxiliary(extra=nn.Conv2d(4, channels, 1)))
    x = image()
    if channels == 4:  # as many as in the map of the site, so that the two calls look alike
        with pytest.raises(RuntimeError, match="a branch for training"):
            model.train()(x)
    else:
        assert torch.equal(model.train()(x)[0], model.eval()(x)[0])


def test_a_call_that_is_left_out() -> None:
    class Optional(Model):
        is_short = False

        def forward(self, x: Tensor) -> Tensor:
            full, half, quarter = self.encoder(x)
            y = half if self.is_short else self.decode(quarter, half)
            return F.interpolate(y, scale_factor=2.0) + full

    model = swapped(Optional())
    model.is_short = True
    with pytest.raises(RuntimeError, match="cannot be told apart"):
        model(image())


def test_a_shared_transposed_convolution_trains_both_of_its_upsamplers() -> None:
    class Shared(Model):
        def forward(self, x: Tensor) -> Tensor:
            full, half, quarter = self.encoder(x)
            return full + self.up(half + self.up(quarter))

    model = swapped(Shared(up=nn.ConvTranspose2d(4, 4, 2, stride=2)))
    assert all(p.requires_grad == (".sapa." in f".{name}") for name, p in model.up.named_parameters())
    model(image()).sum().backward()
    assert all(p.grad is not None for p in model.up.sapa.parameters())
    assert all(p.requires_grad for p in sapa.restore_(model).parameters())


class Transposed(Model):
    def forward(self, x: Tensor) -> Tensor:
        _, half, quarter = self.encoder(x)
        return self.up(quarter) + half


def test_parametrized_and_tied_weights_of_a_transposed_convolution() -> None:
    model: Any = Transposed(up=parametrizations.weight_norm(nn.ConvTranspose2d(4, 4, 2, stride=2)))
    assert not any(p.requires_grad for name, p in swapped(model).up.named_parameters() if "sapa" not in name)
    assert all(p.requires_grad for p in sapa.restore_(model).parameters())

    model = Transposed(up=nn.ConvTranspose2d(4, 4, 2, stride=2), twin=nn.Conv2d(4, 4, 2))
    model.twin.weight = model.up.weight
    assert swapped(model).twin.weight.requires_grad
    assert not model.up.bias.requires_grad


def test_in_inference_mode() -> None:
    model = Model()
    with torch.inference_mode():
        swapped(model, image())
    model(image()).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_guide_that_is_written_over_through_a_view() -> None:
    class Writing(Model):
        def forward(self, x: Tensor) -> Tensor:
            _, half, quarter = self.encoder(x)
            skip = self.skip(half)
            y = self.decode(quarter, skip)
            skip[:, :2].zero_()
            return y

    model = swapped(Writing(skip=nn.Conv2d(4, 4, 1)))
    model(image()).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_upsamplers_have_the_dtype_of_their_map() -> None:
    class Mixed(Model):
        def forward(self, x: Tensor) -> Tensor:
            _, half, quarter = (map.float() for map in self.encoder(x.bfloat16()))
            return self.decode(quarter, half)

    model: Any = Mixed()
    model.encoder.bfloat16()
    assert swapped(model)(image()).dtype == torch.float32
    assert {p.dtype for p in model.sapa.parameters()} == {torch.float32}


def test_inputs_by_name() -> None:
    class Named(Model):
        def forward(self, *, picture: Tensor) -> Any:  # type: ignore[override]
            return super().forward(picture)

    model = Named()
    assert len(sapa.find(model, kwargs={"picture": image()})) == 1
    with pytest.raises(ValueError, match=r"Named cannot run on the example \(\[1, 3, 16, 16\]\): TypeError"):
        sapa.find(model, image())
    sites = sapa.swap_(model, "sapa_b", kwargs={"picture": image()})
    assert [site.swapped for site in sites] == ["sapa_b"]


def test_a_forward_that_runs_only_without_gradients() -> None:
    class Final(Model):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x).numpy()

    (site,) = sapa.find(Final(), image())
    assert not site.note


def test_what_is_wrapped_or_compiled_already_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Give model\.module, and wrap it in DistributedDataParallel afterwards"):
        swapped(nn.DataParallel(Model()))
    model = Model()
    model.encoder.compile()
    with pytest.raises(TypeError, match="its part encoder is compiled"):
        swapped(model)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:FutureWarning")
def test_torch_script_of_a_swapped_model_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"cannot be scripted: take torch\.compile or torch\.export"):
        torch.jit.script(swapped(Model()))


def test_an_output_that_is_a_list_only_in_evaluation() -> None:
    class Changing(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x if self.training else [2 * x]

    class Whole(Model):
        def forward(self, x: Tensor) -> Tensor:
            _, half, quarter = self.encoder(x)
            skip = self.skip(half)
            return F.interpolate(quarter, scale_factor=2.0) + (skip if self.training else skip[0])

    model = swapped(Whole(skip=Changing()))
    with pytest.raises(RuntimeError, match=r"its guide skip\[0\] was not made"):
        model.train()(image())


def test_a_map_is_traced_back_through_a_linear_layer() -> None:
    class Tokens(Model):
        def forward(self, x: Tensor) -> Tensor:
            _, half, quarter = self.encoder(x)
            y = F.interpolate(quarter, size=half.shape[-2:], mode="bilinear")
            tokens = self.linear(half.flatten(2).transpose(1, 2))  # [B, H*W, C]
            return torch.cat([y, tokens.transpose(1, 2).unflatten(2, half.shape[-2:])], 1)

    (site,) = sapa.find(Tokens(linear=nn.Linear(4, 6)), image())
    assert (site.guides[0].name, site.guides[0].joined) == ("encoder[1]", "concatenated")
