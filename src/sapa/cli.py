"""The `sapa` command. Everything heavy is imported by the command that needs it, so that help comes at once."""

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

try:
    import typer
except ModuleNotFoundError:
    sys.exit("The sapa command needs typer and rich: pip install 'sapa[cli]'")

from sapa.tasks import commands

if TYPE_CHECKING:
    from sapa.tables import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(version("sapa"))
        raise typer.Exit


@app.callback()
def sapa(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version)] = False,
) -> None:
    """Sharp feature maps from low-res ones: similarity-aware upsampling for PyTorch."""


MODEL = "torchvision:NAME, smp:NAME, timm:NAME, transformers:CLASS, sapa:NAME:UPSAMPLER, or module:function."
IsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
IsCSV = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
IsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]


@app.command()
def info() -> None:
    """Print versions, devices, and for each backend whether it is ready or why not."""
    import platform

    import torch
    from rich.console import Console
    from rich.table import Table

    import sapa

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("sapa", sapa.__version__)
    table.add_row("torch", str(torch.__version__))
    table.add_row("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    table.add_row("devices", ", ".join(_devices()))
    for name, state in sapa.status().items():
        table.add_row(f"backend {name}", state)
    Console().print(table)


def _devices() -> list[str]:
    import torch

    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator()
        devices.append(f"{torch.accelerator.device_count()} x {kind}")
    return devices


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("runs/demo"),
) -> None:
    """Sharpen a map with its photograph, look into four upsamplers, train with five, measure all, and write a page."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console()
    try:
        from sapa.demo import run, steps
    except ModuleNotFoundError as missing:
        sys.exit(f"sapa demo needs {missing.name}: pip install 'sapa[demo]'")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("starting", total=steps())
        found = run(output, tick=lambda step: progress.update(task, description=step, advance=1))
    console.print("A disparity map lifted 8 times, root mean square error in pixels:")
    for name, errors in found.errors.items():
        console.print(f"  {name:16} {errors['RMSE']:.2f}", highlight=False)
    console.print("Features of a photograph upsampled 4 times, mean absolute error:")
    for name, error in found.features.items():
        console.print(f"  {name:16} {error:.3f}", highlight=False)
    console.print("Depth of drawn scenes after seconds of training, RMS error in metres:")
    for name, error, *_ in found.compared.rows:
        console.print(f"  {name:16} {error:.3f}", highlight=False)
    console.print(f"What each of {len(found.costs)} upsamplers costs on this machine is on the page.", highlight=False)
    console.print(f"Look at {found.page}", markup=False, highlight=False, soft_wrap=True)


class Layout(str, Enum):
    NCHW = "NCHW"
    channels_last = "channels_last"


class Dtype(str, Enum):
    float32 = "float32"
    float64 = "float64"
    bfloat16 = "bfloat16"
    float16 = "float16"


class Device(str, Enum):
    cpu = "cpu"
    cuda = "cuda"
    xpu = "xpu"


@app.command()
def bench(
    shape: Annotated[str, typer.Option(help="B,C,h,w of the low-res map.")] = "1,256,64,64",
    kernel_size: Annotated[int, typer.Option(help="K.")] = 5,
    embed_dim: Annotated[int, typer.Option(help="D, of queries and keys.", min=1)] = 32,
    layout: Annotated[Layout, typer.Option(help="Memory format.")] = Layout.NCHW,
    dtype: Annotated[Dtype, typer.Option(help="Of all maps.")] = Dtype.float32,
    threads: Annotated[int | None, typer.Option(help="All that PyTorch uses if not given.", min=1)] = None,
    device: Annotated[Device, typer.Option(help="On a GPU, CUDA extensions compete if installed.")] = Device.cpu,
    backward: Annotated[bool, typer.Option(help="Time forward and backward together, too.")] = True,
    compiled: Annotated[bool, typer.Option(help="Compile a loop over the shifts, too; takes a minute.")] = False,
    seconds: Annotated[float, typer.Option(help="For each function.", min=0)] = 0.5,
    json: Annotated[Path | None, typer.Option(help="Write machine and times to this file.")] = None,
) -> None:
    """Time attend on this machine beside the unfold form, interpolation, transposed convolution, a copy and a GEMM."""
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from sapa.bench import FORWARD, GPU_FORWARD, GPU_TRAINED, TRAINED, Case, machine, measure, show

    sizes = shape.replace(" ", "").split(",")
    if len(sizes) != 4 or not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise typer.BadParameter(f"give B,C,h,w as in 1,256,64,64, not {shape!r}", param_hint="--shape")
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise typer.BadParameter(f"must be odd, such as 5, not {kernel_size}", param_hint="--kernel-size")
    kind = device.value
    if kind != "cpu" and not torch.get_device_module(kind).is_available():
        sys.exit(f"sapa bench: PyTorch {torch.__version__} finds no {kind} device on this machine.")
    B, C, h, w = map(int, sizes)
    case = Case(
        (B, C, h, w),
        layout.value,
        kernel_size,
        embed_dim,
        dtype.value,
        torch.get_num_threads() if threads is None else threads,
        kind,
    )
    forward, trained = (FORWARD, TRAINED) if kind == "cpu" else (GPU_FORWARD, GPU_TRAINED)
    names = [name for name in forward + trained * backward if compiled or not name.startswith("shift loop")]
    console, report = Console(), {"machine": machine(kind)}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("compiling and timing" if compiled else "timing", total=1)
        report["case"] = measure(case, names, seconds, tick=lambda done: progress.update(task, completed=done))
    console.print(show.title(report["case"]))
    console.print(show.table(report["case"]))
    console.print(show.notes(report))
    if json is not None:
        import json as text

        json.parent.mkdir(parents=True, exist_ok=True)
        json.write_text(text.dumps(report, indent=1) + "\n")
        console.print(f"Written to {json}")


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="An upsampler, such as sapa_b.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The ONNX file to write.")] = Path("up.onnx"),
    channels: Annotated[int, typer.Option(help="Channels of the low-res map.")] = 256,
    guide_channels: Annotated[int | None, typer.Option(help="Channels of the guide, if others.")] = None,
    scale: Annotated[int, typer.Option(help="How many times larger the output is.")] = 2,
) -> None:
    """Write an upsampler, as it is before training, to an ONNX file for any batch and size."""
    from rich.console import Console

    import sapa

    console = Console()
    try:
        up = sapa.build(name, channels, guide_channels, scale=scale)
        output.parent.mkdir(parents=True, exist_ok=True)
        with console.status(f"exporting {name} ..."):
            sapa.export_onnx(up, output)
    except (KeyError, ValueError, ModuleNotFoundError) as error:
        sys.exit(f"sapa export: {error.args[0]}")
    except OSError as error:
        sys.exit(f"sapa export: cannot write {output}: {error.strerror}")
    guide = f", guide [B, {up.guide_channels}, H, W]" if up.needs_guide else ""
    console.print(f"{output} takes x [B, {channels}, h, w]{guide}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def find(
    model: Annotated[str, typer.Argument(help=MODEL)],
    size: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the picture it runs on.")] = "224x224",
    json: IsJSON = False,
    csv: IsCSV = False,
    markdown: IsMarkdown = False,
) -> None:
    """List where a model makes maps larger, and which of its own maps could guide an upsampler there."""
    import torch
    from rich.console import Console

    import sapa
    from sapa.surgery import command

    sides = size.lower().split("x")
    if len(sides) != 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
        raise typer.BadParameter(f"give HEIGHTxWIDTH as in 224x224, not {size!r}", param_hint="--size")
    try:
        with Console(stderr=True).status(f"running {model} ..."):
            made = command.load(model)
            photo = torch.rand(1, 3, int(sides[0]), int(sides[1]))
            sites = sapa.find(made, *command.example_of(made, photo))
    except (KeyError, ModuleNotFoundError, ValueError, TypeError) as error:
        sys.exit(f"sapa find: {str(error.args[0]).removeprefix('find: ')}")
    if json or csv or markdown:
        _print([sites.table(f"{model} on {size}")], json, csv, markdown)
    else:
        print(sites)  # in full width: its names are what swap_ takes


@app.command()
def upsample(
    low: Annotated[str, typer.Argument(help="Low-res maps: a file, a folder, or a pattern in quotes.")],
    guide: Annotated[str, typer.Option("--guide", "-g", help="Their photographs: likewise, of the same names.")],
    output: Annotated[str, typer.Option("--output", "-o", help="A file for one map, or else a folder.")],
    size: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH; the size of the guide if not given.")] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Values are classes; those of palette images are.")] = False,
    invalid: Annotated[str, typer.Option(help="Value that means unknown, such as 0, besides NaN.")] = "none",
    kernel_size: Annotated[int | None, typer.Option(help="K, odd.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Likeness of the guide, in its units.")] = None,
    iterations: Annotated[int, typer.Option(help="Times to bring the result back in line with the map.", min=0)] = 1,
    memory: Annotated[str | None, typer.Option(help="For temporary tiles, such as 512MB.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; by the cores if not given.", min=1)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    force: Annotated[bool, typer.Option("--force", help="Write over results that are there.")] = False,
) -> None:
    """Lift depth maps, masks or any maps to the size of the photographs they belong to, sharp at their borders."""
    try:
        from sapa import batch

        options = batch.Options.parse(size, kernel_size, sigma, iterations, labels, invalid, memory, device)
        code = batch.upsample_files(low, guide, output, options, jobs=jobs, force=force)
    except KeyboardInterrupt:
        code = 130
    except ModuleNotFoundError as missing:
        print(f"sapa upsample needs {missing.name}: pip install 'sapa[files]'", file=sys.stderr)
        code = 2
    except ValueError as error:
        print(f"sapa upsample: {error}", file=sys.stderr)
        code = 2
    raise typer.Exit(code)


@app.command()
def see(
    image: Annotated[Path, typer.Argument(help="A photograph.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    upsampler: Annotated[
        list[str] | None, typer.Option("--upsampler", "-u", help="Such as sapa_i; give it once for each.")
    ] = None,
    checkpoint: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE or NAME=FILE:PLACE: the state dict of a trained one.")
    ] = None,
    scale: Annotated[int, typer.Option(help="High-res points in a low-res one, each way.", min=1)] = 4,
    size: Annotated[int, typer.Option(help="Longer side of the high-res map.", min=1)] = 192,
    kernel_size: Annotated[int | None, typer.Option(help="K of checkpoints whose shapes do not show it.")] = None,
    colours: Annotated[str | None, typer.Option(help="Channels for red, green, blue: 0,1,2. Else by PCA.")] = None,
    model: Annotated[str | None, typer.Option(help="Show a stage of a model: " + MODEL)] = None,
    weights: Annotated[Path | None, typer.Option(help="State dict of the model, which is untrained without.")] = None,
    stage: Annotated[str | None, typer.Option(help="Name or number of the stage; the last if not given.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a figure to print, too.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Write a figure to print, too.")] = None,
) -> None:
    """Write one page on which you point at a pixel and see the low-res points that each upsampler makes it of."""
    from rich.console import Console

    console = Console()
    try:
        from sapa.viewer.command import write_all

        with console.status("reading ...") as status:
            paths = write_all(
                image,
                upsampler or (),
                checkpoint or (),
                [path for path in (output, png, pdf) if path is not None],
                scale=scale,
                size=size,
                kernel_size=kernel_size,
                colours=colours,
                model=model,
                weights=weights,
                stage=stage,
                tick=lambda name: status.update(f"running {name} ..."),
            )
    except (KeyError, ValueError, ModuleNotFoundError) as error:
        sys.exit(f"sapa see: {str(error.args[0]).removeprefix('see: ')}")
    except OSError as error:
        sys.exit(f"sapa see: {error.filename}: {error.strerror}" if error.strerror else f"sapa see: {error}")
    for path in paths:
        console.print(f"Look at {path}", markup=False, highlight=False, soft_wrap=True)


@app.command("list")
def list_upsamplers(json: IsJSON = False, csv: IsCSV = False, markdown: IsMarkdown = False) -> None:
    """List the upsamplers: where they come from, what they need and cost, and when to use them."""
    from sapa.listing import listing

    _print([listing()], json, csv, markdown)


@app.command()
def cost(
    names: Annotated[list[str] | None, typer.Argument(help="Upsamplers, such as sapa_b; all of them if none.")] = None,
    channels: Annotated[int, typer.Option(help="Channels of the map and of the guide.", min=1)] = 256,
    size: Annotated[int, typer.Option(help="Height and width of the low-res map.", min=1)] = 64,
    scale: Annotated[int, typer.Option(help="How many times larger the output is.", min=1)] = 2,
    paper: Annotated[bool, typer.Option("--paper", help="The numbers of the SAPA paper beside ours instead.")] = False,
    json: IsJSON = False,
    csv: IsCSV = False,
    markdown: IsMarkdown = False,
) -> None:
    """Parameters, multiply-accumulates, milliseconds and megabytes of a forward pass, counted and measured here."""
    if paper:
        from sapa.paper_tables import paper_tables

        _print(paper_tables(), json, csv, markdown)
        return
    from dataclasses import astuple

    from rich.console import Console

    import sapa
    from sapa.tables import Cell, Table

    rows: list[tuple[Cell, ...]] = []
    left_out: list[str] = []
    with Console(stderr=True).status("measuring ...") as status:
        for name in names or sapa.UPSAMPLERS:
            status.update(f"measuring {name} ...")
            try:
                rows.append((name, *astuple(sapa.cost(name, channels=channels, size=size, scale=scale))))
            except (KeyError, ValueError) as error:
                if names:
                    sys.exit(f"sapa cost: {error.args[0]}")
                left_out.append(f"{name} is left out: {error.args[0]}")
    for line in left_out:
        print(line, file=sys.stderr)
    title = f"{channels} channels, {size}x{size} to {scale * size}x{scale * size}"
    _print([Table(title, ("name", "parameters", "MACs", "ms", "MB"), rows)], json, csv, markdown)


def _print(tables: "list[Table]", json: bool, csv: bool, markdown: bool) -> None:
    from rich.console import Console

    from sapa import tables as ways

    if json + csv + markdown > 1:
        sys.exit("sapa: choose one of --json, --csv and --markdown.")
    if json or csv or markdown:
        print((ways.as_json if json else ways.as_csv if csv else ways.as_markdown)(tables), end="")
        return
    console = Console()
    console.width = max(console.width, 120)  # narrower, the columns would be cut
    for table in tables:
        console.print(ways.rich(table))
        console.print()


app.command()(commands.train)
app.command("eval")(commands.eval_)
app.command()(commands.compare)
app.command()(commands.presets)


def main() -> None:
    app()
