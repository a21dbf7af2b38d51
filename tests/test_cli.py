"""The sapa command, as a person runs it."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import sapa
from sapa import demo
from sapa.cli import app
from sapa.demo import motorcycle
from sapa.tasks.presets import PRESETS

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
    assert "backend triton     " in result.stdout


def test_demo_writes_a_page_and_guided_upsampling_is_closest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("nearest", "sapa_b")
    monkeypatch.setattr(demo, "UPSAMPLERS", few)
    tiny = PRESETS["depth"]["quick"].changed(size=(32, 48), samples=(4, 2), steps=2, batch=2)
    monkeypatch.setitem(PRESETS["depth"], "quick", tiny)
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "new" / "demo")])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "new" / "demo" / "report.html").read_text()
    assert (tmp_path / "new" / "demo" / "see.html").stat().st_size > 100_000
    assert "{{" not in page
    assert not re.search(r"""(src|href)=["']https?:|url\(http""", page)
    for name in few:
        assert f'<tr><th scope="row"><code>{name}</code></th><td>' in page
    for name in demo.COMPARED.split(","):
        assert f'<tr><th scope="row"><code>{name}</code></th><td>' in page
        assert re.search(rf"^  {name} +[0-9.]+$", result.stdout, re.MULTILINE)
    assert (tmp_path / "new" / "demo" / "compare" / "report.html").exists()
    errors = motorcycle.lift().errors()
    assert all(errors["guided_upsample"][metric] < 0.8 * errors["bilinear"][metric] for metric in errors["bilinear"])
    assert f"guided_upsample  {errors['guided_upsample']['RMSE']:.2f}" in result.stdout


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
    result = CliRunner().invoke(app, ["bench", "--device", "tpu"])
    assert result.exit_code == 2
    assert "'tpu' is not one of" in result.output


def test_bench_without_the_gpu_it_should_run_on() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, and so another answer")
    result = CliRunner().invoke(app, ["bench", "--device", "cuda"])
    assert result.exit_code == 1
    assert f"sapa bench: PyTorch {torch.__version__} finds no cuda device on this machine." in result.output


def test_without_typer_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; import sapa.cli"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == "The sapa command needs typer and rich: pip install 'sapa[cli]'\n"


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list() -> None:
    shown = invoke("list")
    for name in sapa.UPSAMPLERS:
        assert name in shown
    rows = json.loads(invoke("list", "--json"))
    assert [row["name"] for row in rows] == list(sapa.UPSAMPLERS)
    assert next(row for row in rows if row["name"] == "sapa_b")["parameters"] == 17_472
    assert invoke("list", "--markdown").splitlines()[2].startswith("| nearest |  |  | no | yes | 0 | 0 |")


def test_cost() -> None:
    arguments = ["cost", "sapa_b", "bilinear", "--channels", "32", "--size", "8"]
    assert "32 channels, 8x8 to 16x16" in invoke(*arguments)
    rows = json.loads(invoke(*arguments, "--json"))
    assert [row["name"] for row in rows] == ["sapa_b", "bilinear"]
    assert rows[0]["parameters"] == 4 * 32 + 2 * 32 * 32 + 2 * 32
    assert rows[0]["MACs"] == 64 * (5 * 32 * 32 + 100 * (32 + 32))
    assert rows[1]["ms"] > 0
    assert rows[1]["MB"] >= 32 * 256 * 4 / 2**20
    assert invoke(*arguments, "--csv").splitlines()[0] == "name,parameters,MACs,ms,MB"
    assert invoke(*arguments, "--markdown").startswith("| name | parameters | MACs | ms | MB |\n| --- |")


def test_cost_prints_nothing_besides() -> None:
    command = [COMMAND, "cost", "nearest", "--channels", "1", "--size", "2", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert json.loads(result.stdout)[0]["parameters"] == 0


def test_cost_of_the_paper() -> None:
    tables = json.loads(invoke("cost", "--paper", "--json"))
    assert [len(rows) for rows in tables.values()] == [21, 4, 53]
    assert "+12.26 is two M2O blocks" in invoke("cost", "--paper", "--csv")


def test_cost_says_what_is_wrong() -> None:
    for arguments, message in {
        ("cost", "sapa-b"): "sapa cost: no upsampler 'sapa-b'. Did you mean 'sapa_b'?",
        ("list", "--json", "--csv"): "sapa: choose one of --json, --csv and --markdown.",
    }.items():
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 1
        assert message in result.output


@pytest.mark.parametrize("option", ["--size", "--channels", "--scale"])
def test_cost_of_nothing_is_refused(option: str) -> None:
    result = CliRunner().invoke(app, ["cost", option, "0"])
    assert result.exit_code == 2
    assert option in result.output
    assert "greater than or equal to 1" in " ".join(result.output.replace("│", " ").split())


def test_cost_in_python_prints_nothing_either() -> None:
    code = "import os, sapa; sapa.cost('nearest', channels=1, size=2); assert 'KINETO_LOG_LEVEL' not in os.environ"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_version() -> None:
    assert invoke("--version").strip() == sapa.__version__


def test_cost_of_all_leaves_out_what_cannot_be_built_and_says_so() -> None:
    result = CliRunner().invoke(app, ["cost", "--channels", "6", "--size", "2", "--json"])
    assert result.exit_code == 0, result.output
    assert "sapa_b" in result.stdout
    assert "bilinear_additive is left out: " in result.stderr
    assert CliRunner().invoke(app, ["cost", "bilinear_additive", "--channels", "6", "--size", "2"]).exit_code == 1


def test_find_lists_the_sites_of_a_model_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # how the command finds a module of the working directory
    monkeypatch.setattr(sys, "path", [*sys.path])
    shown = invoke("find", "torchvision:fcn_resnet50", "--size", "64x96")
    assert shown.splitlines()[0].startswith("site  operator")
    assert "self(x) (3)  backbone.layer1 (256), backbone.relu (64)" in shown
    (row,) = json.loads(invoke("find", "torchvision:fcn_resnet50", "--size", "64x96", "--json"))
    assert (row["site"], row["from"], row["to"], row["channels"]) == ("self", "8x12", "64x96", "21")
    assert "self:relu[1] (16)" in invoke("find", "bench.models:UNet", "--size", "32x32")
    nothing = invoke("find", "torchvision:resnet18", "--size", "64x64")
    assert nothing == "On this example the model makes no map [B, C, h, w] larger.\n"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("unet", "give library:name with one of sapa, torchvision, timm, smp, transformers, or module:function"),
        ("smp:Unett", "segmentation_models_pytorch has no 'Unett'. Did you mean 'Unet'?"),
        ("torchvision:fcn_resnt50", "torchvision has no 'fcn_resnt50'. Did you mean 'fcn_resnet50'?"),
        ("sapa:segformer", "no model 'segformer'. Did you mean 'segformer_b1'?"),
        ("bench.models:Any", "Any cannot be instantiated"),
        ("nowhere:model", "nowhere:model needs nowhere, which is not installed."),
    ],
)
def test_find_says_what_is_wrong_with_a_name(model: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    result = CliRunner().invoke(app, ["find", model])
    assert result.exit_code == 1
    assert f"sapa find: {message}" in result.output


def test_find_wants_a_size_of_two_numbers() -> None:
    result = CliRunner().invoke(app, ["find", "torchvision:fcn_resnet50", "--size", "64"])
    assert result.exit_code == 2
    assert "give HEIGHTxWIDTH as in 224x224, not '64'" in result.output
