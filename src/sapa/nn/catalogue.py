"""What to know of each upsampler before it is built: where it comes from, and when to take it."""

from typing import NamedTuple


class Entry(NamedTuple):
    paper: str
    year: int | None  # of the publication, None where there is none
    use: str


CATALOGUE: dict[str, Entry] = {
    "nearest": Entry("", None, "the fastest; blocks do not matter, or a convolution follows"),
    "bilinear": Entry("", None, "the usual default: smooth, blurred at borders"),
    "bicubic": Entry("Keys, TASSP", 1981, "images rather than features: sharper than bilinear, overshoots"),
    "joint_bilateral": Entry("Kopf et al., SIGGRAPH", 2007, "no training: sharpen a mask or depth map by its photo"),
    "max_unpool": Entry("SegNet, TPAMI", 2017, "the encoder pools by maximum, and a convolution follows"),
    "pixel_shuffle": Entry("ESPCN, CVPR", 2016, "parameters to spare, and one convolution has to do all"),
    "deconv": Entry("FCN, CVPR", 2015, "the learned classic; can leave a checkerboard"),
    "pixel_tcl": Entry("PixelTCL, TPAMI", 2019, "as deconv, made to avoid its checkerboard, at six times the work"),
    "bilinear_additive": Entry("Wojna et al., IJCV", 2019, "a learned layer that starts as a smooth interpolation"),
    "dupsample": Entry("DUpsample, CVPR", 2019, "the last step to label maps, over a large scale at once"),
    "carafe": Entry("CARAFE, ICCV", 2019, "no guide at hand; in the paper of SAPA the best for detection"),
    "indexnet_hin": Entry("IndexNet, ICCV", 2019, "matting with the pooling that belongs to it, one index for all"),
    "indexnet_m2o": Entry("IndexNet, ICCV", 2019, "as indexnet_hin, an index for each channel; the most expensive"),
    "indexnet_o2o": Entry("IndexNet, ICCV", 2019, "as indexnet_m2o at a hundredth of the work"),
    "a2u": Entry("A2U, CVPR", 2021, "matting with few parameters; kernels from the encoder alone"),
    "sapa_i": Entry("SAPA, NeurIPS", 2022, "no parameters; guide and map already live in one space"),
    "sapa_b": Entry("SAPA, NeurIPS", 2022, "the default with a guide: sharp borders, smooth regions"),
    "sapa_p": Entry("SAPA, NeurIPS", 2022, "the ablation of the gate of sapa_g"),
    "sapa_g": Entry("SAPA, NeurIPS", 2022, "the paper's best for segmentation, depth and matting"),
    "sapa_d": Entry("SAPA-D, arXiv", 2023, "a few learned places rather than a window"),
    "fade": Entry("FADE, ECCV", 2022, "made for regions and details alike; lets the guide itself through"),
    "fade_lite": Entry("FADE-Lite, IJCV", 2024, "as fade at a third of the work"),
    "dysample": Entry("DySample, ICCV", 2023, "no guide, few parameters and little work"),
    "dysample_plus": Entry("DySample, ICCV", 2023, "as dysample, with a reach that is learned"),
    "dysample_s": Entry("DySample, ICCV", 2023, "as dysample with the fewest parameters"),
    "dysample_s_plus": Entry("DySample, ICCV", 2023, "as dysample_s, with a reach that is learned"),
    "sierra": Entry("SIERRA, CVIU", 2023, "no guide and nothing to learn, but it keeps edges of the low-res map"),
    "freqfusion": Entry("FreqFusion, TPAMI", 2024, "a fusion of both maps, which also sharpens the guide"),
}
