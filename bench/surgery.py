"""Write the table of docs/surgery.md, at the usual sizes of the models: `python -m bench.surgery`. Takes minutes."""

import re
from pathlib import Path
from typing import Any

import torch

import sapa
from bench.models import MODELS, Made, library
from sapa.complexity import multiply_accumulates, parameters
from sapa.tables import Cell, Table, markdown

PAGE = Path(__file__).parents[1] / "docs" / "surgery.md"
COLUMNS = ("model", "sites", "swapped", "kept", "parameters", "added", "GMACs", "added")
STAGES = ["stage1", "stage2", "stage3", "stage4"]


def made(name: str) -> Made:
    """The model of the tests, but those of transformers as their configurations are by default."""
    hf: Any = library("transformers")
    picture = (torch.rand(1, 3, 224, 224),)
    if name == "transformers SegFormer":
        return hf.SegformerForSemanticSegmentation(hf.SegformerConfig()).eval(), picture
    if name == "transformers MaskFormer":
        return hf.MaskFormerForInstanceSegmentation(hf.MaskFormerConfig()).eval(), picture
    if name == "transformers Mask2Former":
        return hf.Mask2FormerForUniversalSegmentation(hf.Mask2FormerConfig()).eval(), picture
    if name == "transformers UPerNet":
        config = hf.UperNetConfig(
            backbone_config=hf.ConvNextConfig(hidden_sizes=[96, 192, 384, 768], out_features=STAGES)
        )
        return hf.UperNetForSemanticSegmentation(config).eval(), picture
    if name == "transformers DPT":
        config = hf.DPTConfig(is_hybrid=False, image_size=224)
        return hf.DPTForDepthEstimation(config).eval(), picture
    if name == "transformers DepthAnything":
        return hf.DepthAnythingForDepthEstimation(hf.DepthAnythingConfig()).eval(), picture
    model, example = MODELS[name]()
    if isinstance(example[0], torch.Tensor):
        return model, picture
    return model, example


def work(model: Any, example: tuple[Any, ...]) -> int:
    """Of a detector without its heads, whose work depends on what they find."""
    if isinstance(example[0], torch.Tensor):
        return multiply_accumulates(model, *example)
    return multiply_accumulates(model.backbone, torch.rand(1, 3, 224, 224))


def row(name: str) -> tuple[Cell, ...]:
    torch.manual_seed(0)
    model, example = made(name)
    before, macs = parameters(model), work(model, example)
    sites = sapa.swap_(model, "sapa_g", *example)
    steps = [len(site.between) + 1 for site in sites if site.swapped]
    swapped = f"{len(steps)}" + (f" in {sum(steps)} steps" if sum(steps) > len(steps) else "")
    added = work(model, example) - macs
    cells = (len(sites), swapped, len(sites) - len(steps), before, parameters(model) - before, macs / 1e9, added / 1e9)
    return name, *cells


if __name__ == "__main__":
    rows = []
    for name in MODELS:
        rows.append(row(name))
        print(rows[-1], flush=True)
    found = markdown(Table("", COLUMNS, rows))
    page = re.sub(r"(<!-- surgery -->\n).*?(<!-- /surgery -->)", rf"\1{found}\2", PAGE.read_text(), flags=re.DOTALL)
    PAGE.write_text(page)
