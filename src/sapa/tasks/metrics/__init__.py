"""What the four tasks are measured by. Each streams, stays on its device, and can be split over processes."""

from sapa.tasks.metrics.depth import DepthMetric
from sapa.tasks.metrics.detection import DetectionMetric
from sapa.tasks.metrics.matting import MattingMetric
from sapa.tasks.metrics.segmentation import SegmentationMetric

__all__ = ["DepthMetric", "DetectionMetric", "MattingMetric", "SegmentationMetric"]
