"""The `sapa` command. Everything heavy is imported by the command that needs it, so that help comes at once."""

import sys
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


def main() -> None:
    app()
