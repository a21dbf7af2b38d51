"""Train two upsamplers on scenes drawn on the spot, all else equal, and compare them: seconds, and little learned."""

from pathlib import Path

from sapa.tables import markdown
from sapa.tasks import comparison_page, load
from sapa.tasks.compare import compare, table
from sapa.tasks.engine import Machine
from sapa.tasks.presets import PRESETS
from sapa.tasks.spec import parse_all

task = load("segmentation")
preset = PRESETS["segmentation"]["quick"].changed(size="64x96", samples="32x8", epochs=2, evaluations=2)
specs = parse_all("bilinear,sapa_b:kernel_size=3,prior=gaussian")

# run it twice: what is finished stays, and what was interrupted goes on
found = compare(task, preset, specs, seeds=[0], folder=Path("runs/05"), machine=Machine(workers=0))
print(markdown(table(found)))
print("Look at", comparison_page.write(found))
