"""The official code's own numbers: values and every gradient to 1e-9 in float64, through the public API."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import sapa

FILES = sorted(Path(__file__).with_name("golden").glob("*.safetensors"))
SIMILARITY = {"encoder_only": "bilinear", "cat": "plain", "gate": "gated"}


def make(meta: dict[str, str], config: dict, x: Tensor, guide: Tensor) -> sapa.Upsampler:
    channels, guide_channels, scale = x.shape[1], guide.shape[1], config["up_factor"]
    if meta["operator"] == "sapa_d":
        return sapa.build(
            "sapa_d",
            channels,
            guide_channels,
            scale=scale,
            points=config["num_point"],
            groups=config["groups"],
            embed_dim=config["embedding_dim"],
            is_high_res=config["high_offset"],
        )
    if meta["operator"] == "sapa_i":
        return sapa.build("sapa_i", channels, scale=scale, kernel_size=config["up_kernel_size"])
    return sapa.SAPA(
        channels,
        guide_channels,
        similarity=SIMILARITY[config.get("q_mode", "encoder_only")],
        scale=scale,
        kernel_size=config["up_kernel_size"],
        embed_dim=config["embedding_dim"],
        norm="group" if meta["operator"] == "sapa_b_gn" else "layer",
        normalize=config.get("kernel_norm", "softmax"),
        out_channels=channels if config.get("v_embed") else None,
    )


def nchw(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def run(meta: dict[str, str], inputs: dict[str, Tensor], params: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    config = json.loads(meta["config"])
    if meta["operator"] == "sapa_sim":
        return sapa.sim(inputs["q"], inputs["k"], config["kernel_size"], config["scale"]), {}
    if meta["operator"] == "sapa_atn":
        return sapa.atn(inputs["w"], inputs["v"], config["kernel_size"], config["scale"]), {}
    if meta["operator"] == "sapa_attend":
        y = sapa.attend(*(nchw(inputs[name]) for name in "qkv"), kernel_size=config["kernel_size"])
        return y.permute(0, 2, 3, 1), {}
    up = make(meta, config, inputs["x"], inputs["guide"]).double()
    up.load_state_dict(params)
    return up(inputs["x"], inputs["guide"]), dict(up.named_parameters())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, backend: str) -> None:
    with safe_open(path, framework="pt") as file:
        meta, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    inputs = {name: tensors[name].requires_grad_() for name in meta["inputs"].split(",")}
    params = {key.removeprefix("param."): value for key, value in tensors.items() if key.startswith("param.")}
    out, parameters = run(meta, inputs, params)
    (out * tensors["grad_out"]).sum().backward()
    torch.testing.assert_close(out, tensors["out"], rtol=1e-9, atol=1e-9)
    found = {f"grad.{name}": x.grad for name, x in inputs.items()}
    found |= {f"grad.param.{name}": parameter.grad for name, parameter in parameters.items()}
    expected = {key: value for key, value in tensors.items() if key.startswith("grad.")}
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_the_files_are_there() -> None:
    assert len(FILES) == 27
