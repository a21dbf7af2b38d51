"""The `sapa` command. Everything heavy is imported by the command that needs it, so that help comes at once."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:
    sys.exit("The sapa command needs typer and rich: pip install 'sapa[cli]'")

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def sapa() -> None:
    """Sharp feature maps from low-res ones: similarity-aware upsampling for PyTorch."""


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
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture to write.")] = Path("sapa-demo.png"),
) -> None:
    """Upsample the features of a photograph with nearest, bilinear and SAPA-I, and draw them side by side."""
    from rich.console import Console

    console = Console()
    try:
        from sapa.demo import save
    except ModuleNotFoundError as missing:
        sys.exit(f"sapa demo needs {missing.name}: pip install 'sapa[demo]'")
    with console.status("upsampling the features of a photograph ..."):
        errors = save(output).errors
    for name, error in errors.items():
        console.print(f"{name:10} mean error of the features {error:.3f}")
    console.print(f"Look at {output}")


class Layout(str, Enum):
    NCHW = "NCHW"
    channels_last = "channels_last"


class Dtype(str, Enum):
    float32 = "float32"
    float64 = "float64"
    bfloat16 = "bfloat16"
    float16 = "float16"


@app.command()
def bench(
    shape: Annotated[str, typer.Option(help="B,C,h,w of the low-res map.")] = "1,256,64,64",
    kernel_size: Annotated[int, typer.Option(help="K.")] = 5,
    embed_dim: Annotated[int, typer.Option(help="D, of queries and keys.", min=1)] = 32,
    layout: Annotated[Layout, typer.Option(help="Memory format.")] = Layout.NCHW,
    dtype: Annotated[Dtype, typer.Option(help="Of all maps.")] = Dtype.float32,
    threads: Annotated[int | None, typer.Option(help="All that PyTorch uses if not given.", min=1)] = None,
    backward: Annotated[bool, typer.Option(help="Time forward and backward together, too.")] = True,
    compiled: Annotated[bool, typer.Option(help="Compile a loop over the shifts, too; takes a minute.")] = False,
    seconds: Annotated[float, typer.Option(help="For each function.", min=0)] = 0.5,
    json: Annotated[Path | None, typer.Option(help="Write machine and times to this file.")] = None,
) -> None:
    """Time attend on this machine beside the unfold form, interpolation, transposed convolution, a copy and a GEMM."""
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from sapa.bench import FORWARD, TRAINED, Case, machine, measure, show

    sizes = shape.replace(" ", "").split(",")
    if len(sizes) != 4 or not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise typer.BadParameter(f"give B,C,h,w as in 1,256,64,64, not {shape!r}", param_hint="--shape")
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise typer.BadParameter(f"must be odd, such as 5, not {kernel_size}", param_hint="--kernel-size")
    B, C, h, w = map(int, sizes)
    case = Case(
        (B, C, h, w),
        layout.value,
        kernel_size,
        embed_dim,
        dtype.value,
        torch.get_num_threads() if threads is None else threads,
    )
    names = [name for name in FORWARD + TRAINED * backward if compiled or not name.startswith("shift loop")]
    console, report = Console(), {"machine": machine()}
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


def main() -> None:
    app()
