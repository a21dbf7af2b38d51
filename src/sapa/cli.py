"""The `sapa` command. Everything heavy is imported by the command that needs it, so that help comes at once."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

try:
    import typer
except ModuleNotFoundError:
    sys.exit("The sapa command needs typer and rich: pip install 'sapa[cli]'")

if TYPE_CHECKING:
    from sapa.tables import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def sapa() -> None:
    """Sharp feature maps from low-res ones: similarity-aware upsampling for PyTorch."""


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
        with console.status(f"exporting {name} ..."):
            sapa.export_onnx(up, output)
    except (KeyError, ValueError, ModuleNotFoundError) as error:
        sys.exit(f"sapa export: {error.args[0]}")
    guide = f", guide [B, {up.guide_channels}, H, W]" if up.needs_guide else ""
    console.print(f"{output} takes x [B, {channels}, h, w]{guide}", markup=False, highlight=False, soft_wrap=True)


@app.command("list")
def list_upsamplers(json: IsJSON = False, csv: IsCSV = False, markdown: IsMarkdown = False) -> None:
    """List the upsamplers: where they come from, what they need and cost, and when to use them."""
    from sapa.listing import listing

    _print([listing()], json, csv, markdown)


@app.command()
def cost(
    names: Annotated[list[str] | None, typer.Argument(help="Upsamplers, such as sapa_b; all of them if none.")] = None,
    channels: Annotated[int, typer.Option(help="Channels of the map and of the guide.")] = 256,
    size: Annotated[int, typer.Option(help="Height and width of the low-res map.")] = 64,
    scale: Annotated[int, typer.Option(help="How many times larger the output is.")] = 2,
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
    import os
    from dataclasses import astuple

    from rich.console import Console

    import sapa
    from sapa.tables import Cell, Table

    # the profiler, which measures the memory, otherwise reports each start and stop
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    rows: list[tuple[Cell, ...]] = []
    with Console(stderr=True).status("measuring ...") as status:
        for name in names or sapa.UPSAMPLERS:
            status.update(f"measuring {name} ...")
            try:
                rows.append((name, *astuple(sapa.cost(name, channels=channels, size=size, scale=scale))))
            except (KeyError, ValueError) as error:
                sys.exit(f"sapa cost: {error.args[0]}")
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


def main() -> None:
    app()
