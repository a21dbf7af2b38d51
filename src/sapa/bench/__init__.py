"""attend beside what people use today: the peers, one measured case, and how it is timed."""

from sapa.bench.case import FORWARD as FORWARD
from sapa.bench.case import GPU_FORWARD as GPU_FORWARD
from sapa.bench.case import GPU_TRAINED as GPU_TRAINED
from sapa.bench.case import TRAINED as TRAINED
from sapa.bench.case import Case as Case
from sapa.bench.case import measure as measure
from sapa.bench.timing import machine as machine
