"""Sharp feature maps from low-res ones: similarity-aware upsampling for PyTorch.

Names are imported when they are first used, so that `import sapa` and `sapa --help` do not wait for PyTorch. To load a
program saved by `torch.export`, import `sapa.ops` first: that registers the operators.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapa import models as models
    from sapa import surgery as surgery
    from sapa.backends import BACKENDS as BACKENDS
    from sapa.backends import status as status
    from sapa.backends import use_backend as use_backend
    from sapa.compat import atn as atn
    from sapa.compat import sim as sim
    from sapa.complexity import Cost as Cost
    from sapa.complexity import cost as cost
    from sapa.export import export_onnx as export_onnx
    from sapa.functional import assemble as assemble
    from sapa.functional import attend as attend
    from sapa.functional import kernels as kernels
    from sapa.guided import guided_upsample as guided_upsample
    from sapa.nn import A2U as A2U
    from sapa.nn import CARAFE as CARAFE
    from sapa.nn import FADE as FADE
    from sapa.nn import SAPA as SAPA
    from sapa.nn import SIERRA as SIERRA
    from sapa.nn import UPSAMPLERS as UPSAMPLERS
    from sapa.nn import Bicubic as Bicubic
    from sapa.nn import Bilinear as Bilinear
    from sapa.nn import BilinearAdditive as BilinearAdditive
    from sapa.nn import Deconv as Deconv
    from sapa.nn import DUpsample as DUpsample
    from sapa.nn import DySample as DySample
    from sapa.nn import FreqFusion as FreqFusion
    from sapa.nn import IndexNet as IndexNet
    from sapa.nn import JointBilateral as JointBilateral
    from sapa.nn import MaxUnpool as MaxUnpool
    from sapa.nn import Nearest as Nearest
    from sapa.nn import PixelShuffle as PixelShuffle
    from sapa.nn import PixelTCL as PixelTCL
    from sapa.nn import SAPADeform as SAPADeform
    from sapa.nn import Upsampler as Upsampler
    from sapa.nn import build as build
    from sapa.surgery import find as find
    from sapa.surgery import restore_ as restore_
    from sapa.surgery import swap_ as swap_
    from sapa.viewer import see as see

    __version__: str

_NAMES = {
    "sapa.functional": "attend kernels assemble",
    "sapa.nn": "UPSAMPLERS Upsampler build Nearest Bilinear Bicubic JointBilateral MaxUnpool PixelShuffle Deconv "
    "PixelTCL BilinearAdditive DUpsample CARAFE IndexNet A2U SAPA SAPADeform FADE DySample SIERRA FreqFusion",
    "sapa.complexity": "cost Cost",
    "sapa.guided": "guided_upsample",
    "sapa.export": "export_onnx",
    "sapa.surgery": "find swap_ restore_",
    "sapa.viewer": "see",
    "sapa.compat": "sim atn",
    "sapa.backends": "BACKENDS use_backend status",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("backends", "compat", "functional", "models", "nn", "ops", "surgery")

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("sapa")
    if name in _MODULES:
        return import_module(f"sapa.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'sapa' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)
