"""What the data of a run cannot tell about models of other libraries. One line each."""

# resizing that is no upsampling of features: class of the module, which of its resizing calls (None is all), and why
NOT_FEATURES: tuple[tuple[str, int | None, str], ...] = (
    ("GeneralizedRCNNTransform", None, "torchvision: the picture itself"),
    ("MaskRCNN", None, "torchvision: masks pasted into the picture"),
    ("UperNetForSemanticSegmentation", 1, "transformers: logits of the auxiliary head, for its loss alone"),
)


def is_no_feature(owner: str, ordinal: int) -> bool:
    return any(name == owner and number in (None, ordinal) for name, number, _ in NOT_FEATURES)
