"""`sapa train`, `sapa eval` and `sapa compare`. Heavy imports happen inside, so that help comes at once."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sapa.tasks.engine import Machine
    from sapa.tasks.presets import Preset
    from sapa.tasks.task import Task

TaskName = Annotated[str, typer.Argument(help="segmentation, detection, depth, matting, or module:Class of your own.")]
DataPath = Annotated[str | None, typer.Option("--data", help="A folder or hub:NAME; drawn on the spot if not given.")]
PresetName = Annotated[str, typer.Option(help="quick, small, or one of the paper; sapa presets lists them.")]
Weights = Annotated[Path | None, typer.Option(help="Pretrained weights of the encoder: MobileNetV2 for small.")]
Epochs = Annotated[float | None, typer.Option(help="Instead of the preset's.", min=0)]
BatchSize = Annotated[int | None, typer.Option("--batch", help="Pictures in a step, over all processes.", min=1)]
Rate = Annotated[float | None, typer.Option("--lr", help="Learning rate.", min=0)]
Others = Annotated[list[str] | None, typer.Option("--set", help="FIELD=VALUE of the preset, such as size=192x256.")]
Workers = Annotated[int | None, typer.Option(help="Processes that read data; by the cores if not given.", min=0)]
Parts = Annotated[int, typer.Option(help="Split each step, where a batch does not fit the memory.", min=1)]
Precision = Annotated[str, typer.Option(help="no, bf16 or fp16.")]
SaveEvery = Annotated[float, typer.Option(help="Seconds between two states on the disk.", min=0)]
Trackers = Annotated[list[str] | None, typer.Option("--log", help="tensorboard or wandb; give it once for each.")]


INSTALL = "pip install 'sapa[tasks]'"


def train(
    task: TaskName = "segmentation",
    upsampler: Annotated[str, typer.Option("--upsampler", "-u", help="Such as sapa_b:kernel_size=3.")] = "sapa_b",
    data: DataPath = None,
    preset: PresetName = "quick",
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the run.")] = Path("runs/train"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    seed: Annotated[int, typer.Option(help="Of weights, order and augmentation.")] = 0,
    weights: Weights = None,
    epochs: Epochs = None,
    batch: BatchSize = None,
    lr: Rate = None,
    others: Others = None,
    workers: Workers = None,
    parts: Parts = 1,
    precision: Precision = "no",
    save_every: SaveEvery = 60.0,
    log: Trackers = None,
) -> None:
    """Train a model with an upsampler, and measure it."""
    with _told("train"):
        kind, chosen = _chosen(task, preset, epochs, batch, lr, others)
        from sapa.tasks.engine import Run
        from sapa.tasks.spec import parse
        from sapa.tasks.task import same_classes
        from sapa.tasks.watch import terminal

        console = _console()
        train_data, val_data = kind.data(chosen, data, "train"), kind.data(chosen, data, "val")
        same_classes(train_data.classes, val_data.classes)
        with terminal(console) as watch:
            run = Run(
                kind(chosen, train_data.classes),
                parse(upsampler),
                output,
                seed=seed,
                weights=None if weights is None else str(weights),
                machine=_machine(workers, parts, precision, save_every, log),
                watch=watch,
                about={"data": data},
            )
            result = run.fit(train_data, val_data, resume=resume)
        if run.accelerator.is_main_process:
            for line in _numbers(result["metrics"], kind.shown):
                console.print(line, markup=False, highlight=False)
            if result["skipped"]:
                console.print(f"{len(result['skipped'])} samples could not be read; {output}/result.json names them.")
            console.print(f"Weights, numbers and pictures are in {output}", highlight=False, soft_wrap=True)


def eval_(
    folder: Annotated[Path, typer.Argument(help="The folder of a run of sapa train or sapa compare.")],
    data: DataPath = None,
    task: Annotated[str | None, typer.Option(help="module:Class, if the run is of a task of your own.")] = None,
    split: Annotated[str, typer.Option(help="train or val.")] = "val",
    workers: Workers = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure a trained model again, on the data of its run or on other data."""
    with _told("eval"):
        from sapa.tasks import TASKS, checkpoint, load
        from sapa.tasks.engine import accelerator_of, build_model, evaluate
        from sapa.tasks.presets import from_json
        from sapa.tasks.spec import parse
        from sapa.tasks.task import same_classes

        path = folder / checkpoint.RUN
        if not path.exists():
            raise FileNotFoundError(f"{folder} holds no run: {checkpoint.RUN} is not there.")
        about = checkpoint.read_json(path)
        if task is None and about["task"] not in TASKS:
            # a file must not say what is imported
            raise ValueError(f"{folder} is of a task of your own: add --task {about['task']}.")
        sys.path.insert(0, "")  # for a task in the working directory
        kind, chosen = load(task or about["task"]), from_json(about["preset"])
        # its weights come from the run, not from the publisher of the backbone
        trained = kind(chosen.changed(pretrained=False), about["classes"])
        machine = _machine(workers, 1, about["precision"], 60.0, None)
        accelerator = accelerator_of(machine, folder)
        model = build_model(trained, parse(about["upsampler"]), about["seed"])
        model.load_state_dict(checkpoint.weights_in(folder))
        of = kind.data(chosen, about["data"] if data is None else data, split)
        same_classes(about["classes"], of.classes, "the run", "the data")
        with _console(stderr=True).status("measuring ..."):
            numbers = evaluate(trained, model.to(accelerator.device), of, accelerator, machine)
        if accelerator.is_main_process and json:
            import json as text

            print(text.dumps(checkpoint.without_nan(numbers), indent=1))
        elif accelerator.is_main_process:
            for line in _numbers(numbers, kind.shown):
                print(line)


def compare(
    task: TaskName = "segmentation",
    upsamplers: Annotated[
        str | None, typer.Option(help="a,b:option=value,c. By default nearest,bilinear,carafe,sapa_b,sapa_g.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many runs of each.", min=1)] = 1,
    sweep: Annotated[
        str | None,
        typer.Option(help="similarity, normalize, kernel_size, embed_dim or border of SAPA instead: Table 6."),
    ] = None,
    data: DataPath = None,
    preset: PresetName = "quick",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The folder of all runs.")] = None,
    weights: Weights = None,
    epochs: Epochs = None,
    batch: BatchSize = None,
    lr: Rate = None,
    others: Others = None,
    workers: Workers = None,
    parts: Parts = 1,
    precision: Precision = "no",
    save_every: SaveEvery = 60.0,
    log: Trackers = None,
) -> None:
    """Train with one upsampler after the other, all else equal; a table and a page. The same command again goes on."""
    with _told("compare"):
        kind, chosen = _chosen(task, preset, epochs, batch, lr, others)
        from sapa import tables
        from sapa.tasks import comparison_page
        from sapa.tasks.compare import compare as run_all
        from sapa.tasks.compare import table
        from sapa.tasks.spec import parse_all
        from sapa.tasks.spec import sweep as sweep_over
        from sapa.tasks.watch import terminal

        if sweep is None:
            specs = parse_all(upsamplers or "nearest,bilinear,carafe,sapa_b,sapa_g")
        else:
            specs = sweep_over(sweep, upsamplers or "sapa_b")
        folder = output or Path("runs") / "-".join(filter(None, ("compare", kind.name, preset, sweep)))
        console = _console()
        with terminal(console, runs=len(specs) * seeds) as watch:
            found = run_all(
                kind,
                chosen,
                specs,
                range(seeds),
                folder,
                path=data,
                weights=None if weights is None else str(weights),
                machine=_machine(workers, parts, precision, save_every, log),
                watch=watch,
            )
        from accelerate import PartialState

        if PartialState().is_main_process:
            page = comparison_page.write(found)
            console.width = max(console.width, 120)  # narrower, the columns would be cut
            console.print(tables.rich(table(found)))
            console.print(f"Look at {page}", markup=False, highlight=False, soft_wrap=True)


def presets(task: Annotated[str | None, typer.Argument(help="Of this task only.")] = None) -> None:
    """List the presets: on what and how each of them trains."""
    from sapa import tables
    from sapa.tasks.presets import PRESETS

    rows: list[tuple[tables.Cell, ...]] = []
    for name, of in PRESETS.items():
        for key, preset in of.items() if task in (None, name) else ():
            length = f"{preset.steps:,} steps" if preset.steps else f"{preset.epochs:g} epochs"
            H, W = preset.size
            rate = f"{preset.optimizer} {preset.lr:g}, {preset.schedule}"
            rows.append((name, key, preset.net, preset.data, f"{H}x{W}", preset.batch, length, rate))
    if not rows:
        sys.exit(f"sapa presets: no task {task!r}. Available: {', '.join(PRESETS)}.")
    columns = ("task", "preset", "net", "data", "size", "batch", "length", "optimizer")
    console = _console()
    console.width = max(console.width, 120)
    console.print(tables.rich(tables.Table("presets", columns, rows)))


@contextmanager
def _told(command: str) -> Iterator[None]:
    """Say what a user can mend in one line, rather than in a traceback."""
    try:
        yield
    except ModuleNotFoundError as missing:
        known = str(missing)
        sys.exit(f"sapa {command}: {known if 'pip install' in known else f'needs {missing.name}: {INSTALL}'}")
    except KeyboardInterrupt:
        print(f"sapa {command}: interrupted. Go on with --resume." * (command == "train"), file=sys.stderr)
        sys.exit(130)
    except (KeyError, ValueError, OSError) as error:
        sys.exit(f"sapa {command}: {error.args[0] if len(error.args) == 1 else error}")
    except RuntimeError as error:
        from sapa.tasks.engine import Diverged

        if not isinstance(error, Diverged):
            raise
        sys.exit(f"sapa {command}: {error}")


def _chosen(
    task: str,
    preset: str,
    epochs: float | None,
    batch: int | None,
    lr: float | None,
    others: list[str] | None,
) -> "tuple[type[Task], Preset]":
    """The task, and its preset with what was set otherwise."""
    sys.path.insert(0, "")  # for a task in the working directory
    from sapa.checks import suggest
    from sapa.tasks import load
    from sapa.tasks.spec import value_of
    from sapa.tasks.task import presets_of

    kind = load(task)
    known = presets_of(kind)
    if preset not in known:
        raise KeyError(f"{kind.name} has no preset {preset!r}.{suggest(preset, known)}")
    changes: dict[str, Any] = {"epochs": epochs, "batch": batch, "lr": lr}
    changes = {name: value for name, value in changes.items() if value is not None}
    for text in others or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set {text}: write FIELD=VALUE, as in --set size=192x256.")
        changes[name.strip()] = value_of(value)
    return kind, known[preset].changed(**changes)


def _machine(workers: int | None, parts: int, precision: str, save_every: float, log: list[str] | None) -> "Machine":
    import os

    from sapa.tasks.engine import Machine

    if workers is None:
        # one reads while the others compute; more only where there are cores to spare
        workers = max(1, min(8, (os.cpu_count() or 1) // 2))
    return Machine(workers, precision, parts, save_every, tuple(log or ()))


def _console(*, stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr)


def _numbers(metrics: dict[str, float], shown: tuple[str, ...]) -> Iterator[str]:
    """The main numbers first."""
    names: Callable[[str], int] = lambda name: shown.index(name) if name in shown else len(shown)  # noqa: E731
    width = max(map(len, metrics))
    for name in sorted(metrics, key=names):
        yield f"{name:{width}}  {metrics[name]:.4g}"
