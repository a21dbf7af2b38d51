"""The sapa command, as a person runs it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import torch
from PIL import Image
from typer.testing import CliRunner

import sapa
from sapa import demo
from sapa.cli import app

COMMAND = Path(sys.executable).with_name("sapa")


def test_help_comes_at_once() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        result = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True)
        assert "info" in result.stdout
        assert "demo" in result.stdout
        assert "bench" in result.stdout
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.5


def test_info() -> None:
    result = CliRunner().invoke(app, ["info"])
    assert result.exit_code == 0
    assert sapa.__version__ in result.stdout
    assert str(torch.__version__) in result.stdout
    assert "cpu" in result.stdout
    assert "backend reference  ready" in result.stdout


def test_demo_draws_a_picture_and_sapa_is_closest(tmp_path: Path) -> None:
    path = tmp_path / "new" / "demo.png"
    result = CliRunner().invoke(app, ["demo", "-o", str(path)])
    assert result.exit_code == 0, result.output
    with Image.open(path) as picture:
        assert picture.size == (4 * 328 + 8, 8 + 2 * 328 + 28)
        assert len(picture.getcolors(1 << 24)) > 10_000
    errors = demo.run().errors
    assert errors["sapa_i"] < 0.6 * min(errors["nearest"], errors["bilinear"])


def test_bench_prints_a_table_and_writes_what_it_measured(tmp_path: Path) -> None:
    path = tmp_path / "new" / "bench.json"
    options = ["--shape", "1,4,6,4", "--kernel-size", "3", "--embed-dim", "2", "--layout", "channels_last"]
    options += ["--dtype", "bfloat16", "--threads", "1", "--seconds", "0.001", "--json", str(path)]
    result = CliRunner().invoke(app, ["bench", *options])
    assert result.exit_code == 0, result.output
    for word in ("unfold", "bilinear, trained", "faster", "GFLOP/s", "channels_last, K = 3, D = 2, bfloat16"):
        assert word in result.stdout
    assert "shift loop" not in result.stdout
    report = json.loads(path.read_text())
    assert {"processor", "load", "torch", "sapa"} <= set(report["machine"])
    assert report["case"]["shape"] == [1, 4, 6, 4]
    result = CliRunner().invoke(app, ["bench", *options[:-2], "--no-backward"])
    assert "trained" not in result.stdout


def test_bench_says_what_is_wrong_with_its_options() -> None:
    result = CliRunner().invoke(app, ["bench", "--shape", "256,64,64"])
    assert result.exit_code == 2
    assert "give B,C,h,w as in 1,256,64,64" in result.output
    result = CliRunner().invoke(app, ["bench", "--kernel-size", "4"])
    assert result.exit_code == 2
    assert "must be odd" in result.output


def test_without_typer_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; import sapa.cli"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == "The sapa command needs typer and rich: pip install 'sapa[cli]'\n"
