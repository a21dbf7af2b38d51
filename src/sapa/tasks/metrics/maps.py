"""What the metrics ask of maps."""

from torch import Tensor


def same_shape(metric: str, **maps: Tensor) -> None:
    (first, expected), *others = maps.items()
    for name, x in others:
        if x.shape != expected.shape:
            raise ValueError(
                f"{metric}: {first} is {list(expected.shape)} but {name} is {list(x.shape)}. "
                f"Resize the prediction to the size of the truth before measuring."
            )
