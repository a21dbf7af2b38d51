"""The same task with one upsampler after the other: runs that can be interrupted, and the table they make."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from sapa.tables import Cell, Table
from sapa.tasks import checkpoint
from sapa.tasks.checkpoint import RESULT
from sapa.tasks.engine import Machine, Run
from sapa.tasks.presets import Preset
from sapa.tasks.significance import difference, spread
from sapa.tasks.spec import Spec
from sapa.tasks.task import Task, same_classes
from sapa.tasks.watch import Watch

BASE = "bilinear"
COMPARISON = "compare.json"


@dataclass(frozen=True)
class Comparison:
    """Results by the label of the upsampler and then by seed, and where they lie."""

    task: type[Task]
    folder: Path
    labels: list[str]
    seeds: list[int]
    results: dict[str, dict[int, dict[str, Any]]]

    @property
    def base(self) -> str:
        return BASE if BASE in self.labels else self.labels[0]

    def values(self, label: str, number: str) -> dict[int, float]:
        """By seed; NaN where there is none, which is null in JSON."""
        found = {seed: result["metrics"][number] for seed, result in self.results.get(label, {}).items()}
        return {seed: float("nan") if value is None else value for seed, value in found.items()}

    def first(self, label: str) -> dict[str, Any]:
        return next(iter(self.results[label].values()))

    def folder_of(self, label: str, seed: int) -> Path:
        return run_folder(self.folder, label, seed)


def compare(
    task: type[Task],
    preset: Preset,
    specs: Sequence[Spec],
    seeds: Sequence[int],
    folder: Path,
    *,
    path: str | None = None,
    weights: str | None = None,
    machine: Machine = Machine(),  # noqa: B008
    watch: Watch | None = None,
) -> Comparison:
    """Train and measure every upsampler with every seed. Runs that are finished stay, and one that was interrupted goes
    on where it was; so the same call again does what is left."""
    train, val = task.data(preset, path, "train"), task.data(preset, path, "val")
    classes = same_classes(train.classes, val.classes)
    found = Comparison(task, folder, [spec.label for spec in specs], list(seeds), {})
    for seed in seeds:
        for spec in specs:
            run = Run(
                task(preset, classes),
                spec,
                run_folder(folder, spec.label, seed),
                seed=seed,
                weights=weights,
                machine=machine,
                watch=watch,
                about={"data": None if path is None else str(path)},
            )
            result = run.fit(train, val, resume=True)
            found.results.setdefault(spec.label, {})[seed] = result
            if run.accelerator.is_main_process:
                checkpoint.write_json(folder / COMPARISON, as_json(found))
    return found


def run_folder(folder: Path, label: str, seed: int) -> Path:
    """Of one run: the label in letters that every file system takes."""
    safe = "".join(letter if letter.isalnum() or letter in "_.=-" else "+" for letter in label)
    return folder / "runs" / f"{safe}-seed{seed}"


def open_comparison(task: type[Task], folder: Path) -> Comparison:
    """What `compare` left in a folder."""
    known = checkpoint.read_json(folder / COMPARISON)
    labels, seeds = known["upsamplers"], known["seeds"]
    found = Comparison(task, folder, labels, seeds, {})
    for label in labels:
        for seed in seeds:
            path = run_folder(folder, label, seed) / RESULT
            if path.exists():
                found.results.setdefault(label, {})[seed] = checkpoint.read_json(path)
    return found


def paired(found: Comparison, label: str, number: str) -> tuple[float, float | None]:
    """The difference to the base, and half the width of its interval."""
    return difference({each: found.values(each, number) for each in found.results}, label, found.base)


def table(found: Comparison) -> Table:
    """One row for each upsampler: its numbers, the difference to the base, and what it costs."""
    shown, has_spread = found.task.shown, len(found.seeds) > 1
    main = shown[0]
    columns: list[str] = ["upsampler"]
    for number in shown:
        columns += [number, "±"] if has_spread and number == main else [number]
    columns += [f"{main} - {found.base}", *(["95% ±"] if has_spread else [])]
    columns += ["parameters", "GMACs", "minutes"]
    rows: list[tuple[Cell, ...]] = []
    for label in found.labels:
        if label not in found.results:
            continue
        cells: list[Cell] = [label]
        for number in shown:
            values = list(found.values(label, number).values())
            cells.append(mean(values))
            if has_spread and number == main:
                cells.append(spread(values))
        better, half = (None, None) if label == found.base else paired(found, label, main)
        cells += [better, *([half] if has_spread else [])]
        some = list(found.results[label].values())
        cells += [some[0]["upsampler_parameters"], some[0]["macs"] / 1e9, mean(r["seconds"] for r in some) / 60]
        rows.append(tuple(cells))
    names = tuple(_distinct(columns))
    best = found.results[rows[0][0]] if rows else {}  # type: ignore[index]
    runs = f"{len(best)} seed{'s' if len(best) != 1 else ''}"
    return Table(f"{found.task.name}, {runs}", names, rows, decimals=_decimals(rows, len(shown)))


def _distinct(columns: list[str]) -> list[str]:
    """A table has no two columns of one name: the second ± is wider by a blank."""
    return [name + " " * columns[:i].count(name) for i, name in enumerate(columns)]


def _decimals(rows: list[tuple[Cell, ...]], count: int) -> int:
    """Enough for three digits of the main number."""
    largest = max((abs(row[1]) for row in rows if isinstance(row[1], float)), default=1.0)
    return 2 if largest >= 10 else 3 if largest >= 1 else 4


def as_json(found: Comparison) -> dict[str, Any]:
    return {
        "task": found.task.name,
        "upsamplers": found.labels,
        "seeds": found.seeds,
        "base": found.base,
        "results": {label: {str(seed): result for seed, result in of.items()} for label, of in found.results.items()},
    }
