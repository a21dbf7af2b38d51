"""docs/results.md: made from the committed results of the comparisons it names."""

import json

import pytest
import torch

from bench import evidence, evidence_pictures
from bench.experiments import EXPERIMENTS
from bench.widths import width
from sapa.tasks import load
from sapa.tasks.presets import from_json
from sapa.tasks.spec import parse_all, sweep, value_of
from sapa.tasks.task import presets_of


def test_the_page_is_made_from_the_results() -> None:
    assert evidence.page() == evidence.PAGE.read_text(), "write it anew: python -m bench.evidence"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_are_those_of_the_command(name: str) -> None:
    experiment = EXPERIMENTS[name]
    found = json.loads((evidence.RESULTS / f"{name}.json").read_text())
    specs = sweep(experiment.sweep) if experiment.sweep else parse_all(experiment.upsamplers)
    assert found["upsamplers"] == list(found["results"]) == [spec.label for spec in specs]
    assert all(list(of) == [str(seed) for seed in range(experiment.seeds)] for of in found["results"].values())
    known = presets_of(load(experiment.task))["quick" if experiment.data is None else "small"]
    assert from_json(found["preset"]) == known.changed(**{key: value_of(of) for key, of in experiment.fields.items()})
    assert not experiment.pictured or (evidence_pictures.HOME / f"{name}.jpg").exists()


def test_widths_are_numbers_of_points() -> None:
    box, one = torch.full((1, 9, 2, 2), 1 / 9), torch.zeros(1, 9, 2, 2)
    one[:, 4] = 1
    assert float(width(box)) == pytest.approx(9)
    assert float(width(one)) == pytest.approx(1)
