"""How each experiment is trained. Data only: every field can be overridden from the command line."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sapa.checks import suggest

Size = tuple[int, int]


@dataclass(frozen=True)
class Group:
    """Parameters whose names match a pattern, with factors on the learning rate and the weight decay."""

    pattern: str
    lr: float = 1.0
    decay: float = 1.0


@dataclass(frozen=True)
class Preset:
    """One way to train.

    Attributes:
        net: "quick" or "small" of `sapa.tasks.nets`, or a name in `sapa.models.MODELS`.
        data: what it was published with, in words; any other data of the task will do.
        size: (H, W) of the pictures in training.
        batch: pictures in a step, over all processes and accumulated parts together.
        steps: of the optimizer; None takes `epochs`.
        epochs: passes over the data.
        optimizer: "sgd", "adam" or "adamw".
        groups: parameters with other learning rates; the first pattern that matches counts.
        decays_norms: whether norms and embeddings decay too.
        schedule: "constant", "poly", "cosine" or "step".
        power: of "poly".
        floor: the part of the learning rate that "poly" and "cosine" end with.
        milestones: parts of the training after which "step" divides the learning rate by 10.
        warmup: steps in which the learning rate grows from `warmup_from` of it.
        clip: largest norm of the gradient; None leaves it alone.
        pretrained: start the backbone from published weights.
        freezes_norms: BatchNorm keeps its statistics.
        augment: options of `sapa.tasks.data.augment`, beside size.
        evaluations: how often the metric is measured, the end included.
        samples: pictures of the built-in data for training and evaluation.
        options: of the net.
    """

    net: str
    data: str
    size: Size
    batch: int
    lr: float
    steps: int | None = None
    epochs: float = 1.0
    optimizer: str = "adamw"
    weight_decay: float = 0.01
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    groups: tuple[Group, ...] = ()
    decays_norms: bool = True
    schedule: str = "poly"
    power: float = 1.0
    floor: float = 0.0
    milestones: tuple[float, ...] = ()
    warmup: int = 0
    warmup_from: float = 1e-6
    clip: float | None = None
    pretrained: bool = False
    freezes_norms: bool = False
    augment: dict[str, Any] = field(default_factory=dict)
    evaluations: int = 6
    samples: Size = (400, 100)
    options: dict[str, Any] = field(default_factory=dict)

    def changed(self, **values: Any) -> "Preset":
        """A copy with other values; `augment.flip` and `options.width` reach into those two."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        changes: dict[str, Any] = {}
        for name, value in values.items():
            home, dot, key = name.partition(".")
            if home not in known or bool(dot) != isinstance(known[home], dict):
                listed = [each if not isinstance(of, dict) else f"{each}.NAME" for each, of in known.items()]
                raise KeyError(f"a preset has no field {name!r}.{suggest(name, listed)}")
            if dot:
                value = _of_augment(key, value) if home == "augment" else value
                changes[home] = {**changes.get(home, known[home]), key: value}
            else:
                changes[name] = _like(name, known[home], value)
        if "epochs" in changes and "steps" not in changes:
            changes["steps"] = None
        return replace(self, **changes)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _like(name: str, known: Any, value: Any) -> Any:
    """A value from a command line in the type of the field: 96x128 for a pair."""
    if name == "groups":
        raise ValueError("groups cannot be set from a text; make a Preset in Python.")
    if isinstance(known, tuple) and isinstance(value, str):
        kind = int if name in ("size", "samples") else float
        try:
            value = tuple(kind(part) for part in value.lower().replace("x", " ").split())
        except ValueError:
            raise ValueError(f"{name} is several numbers, as in 192x256, not {value!r}.") from None
    if name in ("steps", "clip") and value == "none":
        return None
    if isinstance(known, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    expected = {"steps": (int, type(None)), "clip": (int, float, type(None))}.get(name, type(known))
    is_pair = isinstance(known, tuple) and len(known) == 2
    if not isinstance(value, expected) or (is_pair and isinstance(value, tuple) and len(value) != 2):
        raise ValueError(f"{name} is like {known!r}, not {value!r}.")
    return value


def _of_augment(key: str, value: Any) -> Any:
    """A value from a command line as `sapa.tasks.data.augment` takes it."""
    from inspect import signature

    from sapa.tasks.data.augment import augment

    known = {name: of.default for name, of in signature(augment).parameters.items() if name not in ("task", "train")}
    if key not in known:
        raise KeyError(f"augment has no option {key!r}.{suggest(key, known)}")
    if value == "none" and known[key] is None:
        return None
    if isinstance(known[key], tuple) and not isinstance(value, tuple):
        kind = int if key == "crops" else float
        try:
            return tuple(kind(part) for part in str(value).lower().split("x"))
        except ValueError:
            raise ValueError(f"augment.{key} is several numbers, as in 0.5x2, not {value!r}.") from None
    return value


def from_json(values: dict[str, Any]) -> Preset:
    """What `as_json` wrote."""
    pairs = {name: tuple(values[name]) for name in ("size", "betas", "milestones", "samples")}
    augment = {name: tuple(value) if isinstance(value, list) else value for name, value in values["augment"].items()}
    return Preset(
        **{**values, **pairs, "augment": augment, "groups": tuple(Group(**each) for each in values["groups"])}
    )


# seconds on the built-in data, from nothing
QUICK: dict[str, Any] = {
    "net": "quick",
    "data": "built-in",
    "size": (64, 96),
    "batch": 8,
    "lr": 0.01,
    "epochs": 1.0,
    "schedule": "cosine",
    "warmup": 10,
    "warmup_from": 0.1,
    "evaluations": 3,
    "samples": (1200, 48),
    "options": {"width": 32, "stride": 2},
}
# minutes on a small set: MobileNetV2, whose weights of ImageNet --weights brings
SMALL: dict[str, Any] = {
    "net": "small",
    "data": "any",
    "size": (192, 256),
    "batch": 8,
    "lr": 2e-3,
    "epochs": 12.0,
    "groups": (Group("*encoder.*", lr=0.25),),
    "decays_norms": False,
    "power": 0.9,
    "warmup": 20,
    "warmup_from": 0.1,
    "augment": {"scale": (0.75, 1.5)},
    "evaluations": 4,
}
# all training at the size of the crop after scaling by 0.5 to 2, as the three models on ADE20K have it
ADE20K: dict[str, Any] = {"scale": (0.5, 2.0), "colour": "ssd", "evaluate": "whole"}

PRESETS: dict[str, dict[str, Preset]] = {
    "segmentation": {
        "quick": Preset(**QUICK),
        "small": Preset(**SMALL),
        "segformer_b1_ade20k": Preset(
            "segformer_b1",
            "ADE20K",
            (512, 512),
            batch=16,
            lr=6e-5,
            steps=160_000,
            groups=(Group("decode_head.*", lr=10.0),),
            decays_norms=False,
            warmup=1500,
            pretrained=True,
            augment={**ADE20K, "short": 512, "longest": 2048, "most": 0.75},
            evaluations=10,
        ),
        "maskformer_swin_b_ade20k": Preset(
            "maskformer_swin_b",
            "ADE20K",
            (640, 640),
            batch=16,
            lr=6e-5,
            steps=160_000,
            decays_norms=False,
            power=0.9,
            warmup=1500,
            clip=0.01,
            pretrained=True,
            augment={**ADE20K, "short": 640, "longest": 2560},
            evaluations=32,
            # the loss of every layer of the decoder, which transformers has only of states that it returns
            options={"use_auxiliary_loss": True, "output_hidden_states": True},
        ),
        "mask2former_swin_b_ade20k": Preset(
            "mask2former_swin_b",
            "ADE20K",
            (640, 640),
            batch=16,
            lr=1e-4,
            steps=160_000,
            weight_decay=0.05,
            groups=(Group("model.pixel_level_module.encoder.*", lr=0.1),),
            decays_norms=False,
            power=0.9,
            clip=0.01,
            pretrained=True,
            augment={**ADE20K, "short": 640, "longest": 2560},
            evaluations=32,
        ),
        # size and weight decay are not printed in the paper
        "segnet_sunrgbd": Preset(
            "segnet_vgg16",
            "SUN RGB-D",
            (480, 480),
            batch=8,
            lr=0.01,
            epochs=200.0,
            optimizer="sgd",
            weight_decay=5e-4,
            schedule="constant",
            pretrained=True,
            augment={"short": 480, "scale": (0.5, 2.0), "evaluate": "whole"},
            evaluations=20,
        ),
    },
    "detection": {
        "quick": Preset(**{**QUICK, "lr": 4e-3, "options": {"box_batch_size_per_image": 64}}),
        "small": Preset(**{**SMALL, "lr": 1e-3, "augment": {}}),
        "faster_rcnn_coco": Preset(
            "faster_rcnn_r50",
            "COCO",
            (800, 1333),
            batch=16,
            lr=0.02,
            epochs=12.0,
            optimizer="sgd",
            weight_decay=1e-4,
            schedule="step",
            milestones=(8 / 12, 11 / 12),
            warmup=500,
            warmup_from=1e-3,
            pretrained=True,
            augment={"short": 800, "longest": 1333},
            evaluations=12,
        ),
    },
    "depth": {
        "quick": Preset(**QUICK),
        "small": Preset(**{**SMALL, "options": {"stride": 2}}),
        "bts_nyu": Preset(
            "bts_r50",
            "NYU Depth V2",
            (416, 544),
            batch=16,
            lr=1e-4,
            epochs=50.0,
            groups=(Group("encoder.*"), Group("*", decay=0.0)),
            eps=1e-3,
            power=0.9,
            floor=0.1,
            pretrained=True,
            augment={"short": 427, "rotate": 2.5, "colour": "bts", "evaluate": "whole"},
            evaluations=10,
        ),
    },
    "matting": {
        "quick": Preset(**{**QUICK, "augment": {"trimap": (1.0, 4.0)}, "options": {"width": 16, "stride": 1}}),
        "small": Preset(**{**SMALL, "options": {"width": 32, "stride": 1}}),
        "a2u_adobe": Preset(
            "a2u_matting_r34",
            "Adobe Image Matting",
            (512, 512),
            batch=16,
            lr=0.01,
            steps=180_000,
            optimizer="adam",
            weight_decay=0.0,
            groups=(Group("conv1.*", lr=0.01), Group("bn1.*", lr=0.01), Group("layer*", lr=0.01)),
            schedule="step",
            milestones=(20 / 30, 26 / 30),
            pretrained=True,
            freezes_norms=True,
            augment={"crops": (512,), "trimap": (1.0, 15.0), "evaluate": "whole"},
            evaluations=30,
        ),
    },
}
