"""SegFormer (Xie et al., NeurIPS 2021, arXiv 2105.15203), of transformers, with its maps lifted step by step."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import SegformerConfig, SegformerForSemanticSegmentation
from transformers.models.segformer.modeling_segformer import SegformerDecodeHead

from sapa.models.fit import Up

B1: dict[str, Any] = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 320, 512], "decoder_hidden_size": 256}


def build(up: Up | None, *, weights: str | None = None, num_classes: int = 150, **options: Any) -> nn.Module:
    """SegFormer-B1; its own step is one bilinear interpolation of each map to a quarter of the image."""
    config = {**B1, "num_labels": num_classes, **options}
    if weights is None:
        model = SegformerForSemanticSegmentation(SegformerConfig(**config))
    else:
        model = SegformerForSemanticSegmentation.from_pretrained(weights, **config)
    if up is not None:
        model.decode_head = Head(model.decode_head, up)
    return model


class Head(SegformerDecodeHead):
    """Double each map until it is as large as the first, with the projected maps on the way as guides.

    The upsamplers 0 to 2 lift the smallest map, 3 and 4 the next, 5 the last.
    """

    def __init__(self, head: SegformerDecodeHead, up: Up) -> None:
        super().__init__(head.config)
        self.load_state_dict(head.state_dict(), assign=True)
        C, maps = head.config.decoder_hidden_size, head.config.num_encoder_blocks
        self.upsamplers = nn.ModuleList(up(C, C) for _ in range(maps * (maps - 1) // 2))

    def forward(self, encoder_hidden_states: Any, **_: Any) -> Tensor:
        projected = [
            project(x).transpose(1, 2).unflatten(2, x.shape[2:])
            for project, x in zip(self.linear_projections, encoder_hidden_states, strict=True)
        ]
        upsamplers, lifted = iter(self.upsamplers), []
        while projected:
            x = projected.pop()
            for guide in reversed(projected):
                x = next(upsamplers)(x, guide)
            lifted.append(x)
        fused = self.activation(self.batch_norm(self.linear_fuse(torch.cat(lifted, 1))))
        return self.classifier(self.dropout(fused))
