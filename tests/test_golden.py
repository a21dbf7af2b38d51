"""The official code's own numbers: values and every gradient to 1e-9 in float64, through the public API."""

import json
from pathlib import Path

import pytest
import torch
from official import FURTHER_OUTPUTS, OFFICIAL, OTHER_FORMS, own_name
from safetensors import safe_open
from torch import Tensor

import sapa

FILES = sorted(Path(__file__).with_name("golden").glob("*.safetensors"))

Tensors = dict[str, Tensor]


def nchw(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def run_core(operator: str, config: dict, inputs: Tensors) -> Tensor:
    if operator == "sapa_sim":
        return sapa.sim(inputs["q"], inputs["k"], config["kernel_size"], config["scale"])
    if operator == "sapa_atn":
        return sapa.atn(inputs["w"], inputs["v"], config["kernel_size"], config["scale"])
    y = sapa.attend(*(nchw(inputs[name]) for name in "qkv"), kernel_size=config["kernel_size"])
    return y.permute(0, 2, 3, 1)


def run(operator: str, config: dict, inputs: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
    """The outputs, and the parameters they were made with."""
    if operator in ("sapa_sim", "sapa_atn", "sapa_attend"):
        return {"out": run_core(operator, config, inputs)}, {}
    up = OFFICIAL[operator](config, *inputs.values()).double().eval()
    up.load_state_dict(state)
    if operator in FURTHER_OUTPUTS:
        return FURTHER_OUTPUTS[operator](up, *inputs.values()), dict(up.named_parameters())
    return {"out": up(*inputs.values())}, dict(up.named_parameters())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, backend: str) -> None:
    with safe_open(path, framework="pt") as file:
        meta, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    inputs = {name: tensors[name].requires_grad_() for name in meta["inputs"].split(",")}
    state = {key.removeprefix("param."): value for key, value in tensors.items() if key.startswith("param.")}
    operator = meta["operator"] + ("_without_gate" if meta.get("gate") == "no" else "")
    if meta.get("official_class") in OTHER_FORMS:
        operator = OTHER_FORMS[meta["official_class"]]
    outputs, parameters = run(operator, json.loads(meta["config"]), inputs, state)
    torch.stack([(out * tensors[f"grad_{name}"]).sum() for name, out in outputs.items()]).sum().backward()
    expected = {name: value for name, value in tensors.items() if name.partition("_")[0] == "out"}
    torch.testing.assert_close(outputs, expected, rtol=1e-9, atol=1e-9)
    # what the official module carries for another purpose than this output
    idle = meta.get("params_without_grad", "").split(",")
    found = {f"grad.{name}": x.grad for name, x in inputs.items()}
    found |= {f"grad.param.{name}": p.grad for name, p in parameters.items() if name not in idle}
    expected = {own_name(key): value for key, value in tensors.items() if key.startswith("grad.")}
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_the_files_are_there() -> None:
    assert len(FILES) == 46
