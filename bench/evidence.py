"""Take up what `sapa compare` found, and write docs/results.md from it.

`python -m bench.evidence runs` reads the comparisons in runs/NAME, for the names in `bench.experiments`, into
bench/results/tasks/NAME.json and draws their pictures; without an argument it writes the page from those files.
"""

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from bench import report
from bench.experiments import EXPERIMENTS, Experiment
from bench.tables import named
from sapa.bench import machine
from sapa.tables import Cell, Table, markdown
from sapa.tasks import load
from sapa.tasks.compare import Comparison, open_comparison, paired, table
from sapa.tasks.comparison_page import verdict

PAGE = report.ROOT / "docs" / "results.md"
RESULTS = report.RESULTS / "tasks"
KEPT = ("metrics", "steps", "seconds", "parameters", "upsampler_parameters", "macs", "data")


def collect(name: str, folder: Path) -> None:
    """What the page needs of a comparison, without the paths of the machine it ran on."""
    experiment = EXPERIMENTS[name]
    found = open_comparison(load(experiment.task), folder)
    results: dict[str, Any] = {}
    for label, of in found.results.items():
        for seed, result in of.items():
            kept = {key: result[key] for key in KEPT}
            kept["loss"] = mean(loss for _, loss in result["losses"][-len(result["losses"]) // 10 :])
            kept["history"] = [
                {"epoch": each["epoch"], **{number: each["metrics"][number] for number in result["shown"]}}
                for each in result["history"]
            ]
            results.setdefault(label, {})[str(seed)] = kept
    preset = found.first(found.labels[0])["about"]["preset"]
    RESULTS.mkdir(parents=True, exist_ok=True)
    whole = {
        "machine": machine(),
        "task": experiment.task,
        "command": experiment.command(name),
        "upsamplers": found.labels,
        "seeds": found.seeds,
        "preset": preset,
        "results": results,
    }
    if experiment.has_widths:
        from bench.widths import of_run

        similar = [label for label in found.labels if label.startswith("sapa_")]
        whole["widths"] = {label: of_run(found.folder_of(label, found.seeds[0])) for label in similar}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def known(name: str) -> Comparison:
    """A comparison as it was committed."""
    read = json.loads((RESULTS / f"{name}.json").read_text())
    results = {label: {int(seed): result for seed, result in of.items()} for label, of in read["results"].items()}
    return Comparison(load(read["task"]), Path(), read["upsamplers"], read["seeds"], results)


def section(name: str, experiment: Experiment) -> str:
    found = known(name)
    preset = json.loads((RESULTS / f"{name}.json").read_text())["preset"]
    first = found.first(found.labels[0])
    H, W = preset["size"]
    about = (
        f"{first['data']['train']} pictures to train on, {first['data']['val']} to measure, {H}x{W}, {first['steps']} "
        f"steps of {preset['batch']}, {len(found.seeds)} seeds. {verdict(found)}"
    )
    lines = [f"```sh\n{experiment.command(name)}\n```", about, markdown(named(table(found)))]
    if experiment.pictured:
        shown = ", ".join(f"`{label}`" for label in experiment.pictured)
        below = f", with the error below. {found.task.error}" if found.task.error else "."
        lines.append(f"![Image, truth and predictions](img/results/{name}.jpg)")
        lines.append(f"From the left: the picture and the truth, then {shown}{below}")
    return "\n\n".join(line.rstrip() for line in lines) + "\n"


def overview(names: list[str]) -> str:
    """The difference to bilinear of what more than one comparison has measured, and whether it is clear."""
    found = {name: known(name) for name in names}
    labels = [label for label in next(iter(found.values())).labels if label != "bilinear"]
    labels = [label for label in labels if sum(label in each.results for each in found.values()) > 1]
    rows: list[tuple[Cell, ...]] = []
    for label in labels:
        cells: list[Cell] = [f"`{label}`"]
        for each in found.values():
            cells.append(difference(each, label) if label in each.results else None)
        rows.append(tuple(cells))
    columns = tuple(f"{name}, {each.task.shown[0]}" for name, each in found.items())
    return markdown(Table("overview", ("upsampler", *columns), rows))


def difference(found: Comparison, label: str) -> str:
    sign = 1 if found.task.is_higher_better else -1
    value, half = paired(found, label, found.task.shown[0])
    digits = 2 if abs(found.first(found.base)["metrics"][found.task.shown[0]]) >= 10 else 4
    if half is None or abs(value) <= half:
        return f"{value:+.{digits}f}"
    return f"**{value:+.{digits}f}** better" if sign * value > 0 else f"{value:+.{digits}f} worse"


def widths(name: str) -> str:
    """How many points the kernels mix at the steps of the decoder, and how well the training set is learned."""
    read = json.loads((RESULTS / f"{name}.json").read_text())
    rows: list[tuple[Cell, ...]] = []
    for label in (*(label for label in ("bilinear", "carafe") if label in read["results"]), *read["widths"]):
        of = read["widths"].get(label, {"start": [], "end": []})
        loss = mean(run["loss"] for run in read["results"][label].values())
        rows.append((f"`{label}`", *(", ".join(f"{width:.1f}" for width in of[when]) for when in of), loss))
    columns = ("upsampler", "points mixed at the start", "at the end", "loss in the last tenth of training")
    return markdown(Table("widths", columns, rows, decimals=3))


def page() -> str:
    """docs/results.md as it should be."""
    here = [name for name in EXPERIMENTS if (RESULTS / f"{name}.json").exists()]
    sections = {name: section(name, EXPERIMENTS[name]) for name in here}
    sections |= {f"{name} widths": widths(name) for name in here if EXPERIMENTS[name].has_widths}
    sections["overview"] = overview([name for name in here if EXPERIMENTS[name].data is not None])
    return report.filled(PAGE, "results", sections)


def main() -> None:
    if len(sys.argv) > 1:
        from bench import evidence_pictures

        for name in EXPERIMENTS:
            folder = Path(sys.argv[1]) / name
            if folder.exists():
                collect(name, folder)
                evidence_pictures.draw(name, folder)
    PAGE.write_text(page())
    print(PAGE)


if __name__ == "__main__":
    main()
