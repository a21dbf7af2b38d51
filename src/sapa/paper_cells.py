"""What the paper prints about cost, cell by cell, and where that is not what its own formula or our module gives."""

from typing import NamedTuple


class Row(NamedTuple):
    """A row of Table 1, the upsampler it is held against, and which part of that."""

    module: str
    operation: str
    flops: str
    params: str
    name: str
    part: str
    reason: str = ""

    @property
    def is_printed_total(self) -> bool:
        return self.part == "total" and "*" not in self.operation


ELEMENTWISE = "elementwise products are not counted"
A2U_ONCE = f"{ELEMENTWISE}, C + 4K²; 108C once for the whole map are"
TWO_OF_THREE = "two of the three projections (qy, qx, k)"

TABLE_1 = (
    Row("CARAFE", "Kernel generation", "Cd + 36K²d", "Cd + 36K²d", "carafe", "generation"),
    Row("CARAFE", "Feature assembly", "4K²C", "0", "carafe", "assembly"),
    Row("CARAFE", "Total", "Cd + 36K²d + 4K²C", "Cd + 36K²d", "carafe", "total"),
    Row("IndexNet HIN", "Kernel generation", "32C² + 8C", "32C² + 8C", "indexnet_hin", "generation"),
    Row("IndexNet HIN", "Feature assembly", "4C", "0", "indexnet_hin", "assembly"),
    Row("IndexNet HIN", "Total", "32C² + 12C", "32C² + 8C", "indexnet_hin", "total"),
    Row("IndexNet M2O", "Kernel generation", "68C²", "68C²", "indexnet_m2o", "generation"),
    Row("IndexNet M2O", "Feature assembly", "4C", "0", "indexnet_m2o", "assembly"),
    Row("IndexNet M2O", "Total", "68C² + 4C", "68C²", "indexnet_m2o", "total"),
    Row("A2U", "Kernel generation", "73C + 4K²", "4K²C + 2C", "a2u", "generation", A2U_ONCE),
    Row("A2U", "Feature assembly", "4K²C", "0", "a2u", "assembly"),
    Row("A2U", "Total", "73C + 4K² + 4K²C", "4K²C + 2C", "a2u", "total", A2U_ONCE),
    Row("SAPA", "(1) Feature embedding", "5Cd", "2Cd", "sapa_b", "generation"),
    Row("SAPA", "(2) Gated addition", "C + 8d", "C", "sapa_g", "gate", f"{ELEMENTWISE}, 8d"),
    Row("SAPA", "(3) Inner product", "4K²d", "0", "sapa_b", "product"),
    Row("SAPA", "(4) Feature assembly", "4K²C", "0", "sapa_b", "assembly"),
    Row("SAPA", "I Total (3)(4)", "8K²C", "0", "sapa_i", "total"),
    Row("SAPA", "B Total (1)(3)(4)", "5Cd + 4K²d + 4K²C", "2Cd", "sapa_b", "total"),
    Row(
        *("SAPA", "G Total (1)(2)(3)(4)", "5Cd + 4K²d + 4K²C + C + 5d", "2Cd + C", "sapa_g", "total"),
        f"{TWO_OF_THREE}: 6Cd and 3Cd + C are ours; 5d should be the 8d of (2); {ELEMENTWISE}",
    ),
    # not printed: the rows with a star are the other conventions
    Row(
        *("SAPA", "* G, its rows added up", "5Cd + 4K²d + 4K²C + C + 8d", "2Cd + C", "sapa_g", "total"),
        f"{TWO_OF_THREE}; {ELEMENTWISE}",
    ),
    Row(
        *("SAPA", "* G, as trained", "9Cd + 4K²d + 4K²C + C + 8d", "3Cd + C", "sapa_g", "total"),
        f"Params equal; qx here before x is enlarged, Cd for 4Cd; {ELEMENTWISE}",
    ),
)

NAMES = {
    "CARAFE": "carafe",
    "IndexNet": "indexnet_hin",
    "IndexNet HIN": "indexnet_hin",
    "A2U": "a2u",
    "SAPA-I": "sapa_i",
    "SAPA-B": "sapa_b",
    "SAPA-G": "sapa_g",
}
SETTINGS: dict[str, dict[str, int]] = {
    "CARAFE": {"d": 64, "K": 5},
    "A2U": {"K": 3},
    **{module: {} for module in ("IndexNet", "IndexNet HIN", "IndexNet M2O")},
    **{module: {"d": 32, "K": 5} for module in ("SAPA", "SAPA-I", "SAPA-B", "SAPA-G")},
}
SENTENCE = {"CARAFE": "99K", "IndexNet HIN": "2M", "A2U": "28K", "SAPA-B": "70K"}

# Table 1's parameters where decoder (x) and encoder (y) differ in channels
PARAMS = {
    "CARAFE": "xd + 36K²d",
    "IndexNet": "32y² + 8y",
    "A2U": "4K²y + 2y",
    "SAPA-I": "0",
    "SAPA-B": "xd + yd",
    "SAPA-G": "xd + yd + x",
}


class Model(NamedTuple):
    table: int
    stages: tuple[tuple[int, int, int | None], ...]  # channels of encoder and decoder, low-res side
    printed: dict[str, dict[str, str]]


def _both(*cells: str) -> dict[str, dict[str, str]]:
    pairs = (cell.split() for cell in cells)
    return {module: {"FLOPs": flops, "Params": params} for module, (flops, params) in zip(PARAMS, pairs, strict=True)}


def _params(**cells: str) -> dict[str, dict[str, str]]:
    return {module.replace("_", "-"): {"Params": cell} for module, cell in cells.items()}


MODELS = {
    "SegFormer-B1": Model(
        2,
        tuple((256, 256, side) for side in (16, 32, 32, 64, 64, 64)),  # of a 512² image
        _both("+1.45 +0.44", "+30.65 +12.60", "+0.41 +0.06", "+0.75 +0.00", "+1.02 +0.10", "+1.02 +0.10"),
    ),
    "MaskFormer Swin-B": Model(
        2,
        tuple((256, 256, side) for side in (20, 40, 80)),  # of a 640² image
        _both("+0.84 +0.22", "+17.64 +6.30", "+0.23 +0.03", "+0.43 +0.00", "+0.59 +0.05", "+0.59 +0.05"),
    ),
    "Mask2Former Swin-B": Model(
        2,
        ((256, 256, 80),),
        _both("+0.63 +0.07", "+13.44 +2.10", "+0.18 +0.01", "+0.33 +0.00", "+0.45 +0.02", "+0.45 +0.02"),
    ),
    "Faster R-CNN R50": Model(
        3,
        ((256, 256, None),) * 3,
        _params(CARAFE="+0.22", IndexNet="+6.30", A2U="+0.03", SAPA_I="+0", SAPA_B="+0.05", SAPA_G="+0.05"),
    ),
    "BTS R50": Model(
        4,
        ((1024, 2048, None), (512, 512, None), (256, 128, None), (64, 128, None)),
        _params(CARAFE="+0.41", IndexNet="+44.20", A2U="+0.08", SAPA_B="+0.16", SAPA_G="+0.25"),
    ),
    "A2U Matting R34": Model(
        5,
        tuple((C, C, None) for C in (256, 128, 64, 64)),
        _params(CARAFE="+0.26", IndexNet="+12.26", A2U="+0.02", SAPA_I="+0", SAPA_B="+0.04", SAPA_G="+0.04"),
    ),
}

NO_NORMS = "the formula leaves out norms and biases"
REASONS = {
    ("A2U", "FLOPs"): ELEMENTWISE,
    ("A2U", "Params"): NO_NORMS,
    ("SAPA-B", "Params"): NO_NORMS,
    ("SAPA-G", "Params"): f"the formula has {TWO_OF_THREE}, no norms, no biases",
    ("SegFormer-B1", "SAPA-G", "FLOPs"): f"the formula has {TWO_OF_THREE}; as trained, 9Cd, +1.50",
    ("MaskFormer Swin-B", "SAPA-G", "FLOPs"): f"the formula has {TWO_OF_THREE}; as trained, 9Cd, +0.87",
    ("Mask2Former Swin-B", "SAPA-G", "FLOPs"): f"the formula has {TWO_OF_THREE}; as trained, 9Cd, +0.66",
    ("Mask2Former Swin-B", "CARAFE", "FLOPs"): "cut to +0.63, not rounded",
    ("BTS R50", "IndexNet", "Params"): "+44.20 counts the running statistics of BatchNorm too, or more biases",
    ("A2U Matting R34", "IndexNet", "Params"): "+12.26 is two M2O blocks in each stage; this row is HIN",
    ("A2U Matting R34", "SAPA-G", "Params"): "+0.04 is two projections with norms and biases, three are +0.05",
}
