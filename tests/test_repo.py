"""The repository keeps its own rules: import arrows, public names, file sizes, examples, the built package."""

import ast
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import sapa
from bench import tables

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sapa"
FILES = sorted(SOURCE.rglob("*.py"))

# from the top down: a module imports from its own layer or from those below
LAYERS = (
    ("cli",),
    ("demo",),
    ("batch", "bench", "export", "listing", "paper_tables", "tasks", "viewer"),
    ("surgery",),
    ("models",),
    ("complexity", "files", "guided", "onnx_ops", "paper_cells", "tables"),
    ("nn", "compat"),
    ("functional",),
    ("ops", "shortcut"),
    ("backends",),
    ("checks",),
    ("geometry",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
PUBLIC = [
    *(
        "A2U",
        "BACKENDS",
        "Bicubic",
        "Bilinear",
        "BilinearAdditive",
        "CARAFE",
        "Cost",
        "DUpsample",
        "Deconv",
        "DySample",
        "FADE",
    ),
    *("FreqFusion", "IndexNet", "JointBilateral", "MaxUnpool", "Nearest", "PixelShuffle", "PixelTCL", "SAPA"),
    *("SAPADeform", "SIERRA", "UPSAMPLERS", "Upsampler"),
    *("assemble", "atn", "attend", "build", "cost", "export_onnx", "find", "guided_upsample", "kernels"),
    *("restore_", "see", "sim", "status", "swap_", "use_backend"),
]
MODULES = ["models", "surgery"]  # whose names are public with the module's own


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            module = node.module or ""
            found |= {f"sapa.{alias.name}" for alias in node.names} if module == "sapa" else {module}
    return found


@pytest.mark.parametrize(
    "path", [p for p in FILES if p != SOURCE / "__init__.py"], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_import_arrows_go_down(path: Path) -> None:
    layer = layer_of(path)
    for module in imports_of(path):
        if module.startswith("sapa."):
            target = module.split(".")[1]
            assert LEVEL[target] >= LEVEL[layer], f"{layer} imports {target}, which lies above it"


@pytest.mark.parametrize("path", [p for p in FILES if LEVEL.get(layer_of(p), 0) >= LEVEL["nn"]], ids=lambda p: p.name)
def test_the_core_imports_torch_and_nothing_else(path: Path) -> None:
    outside = {module.split(".")[0] for module in imports_of(path)} - set(sys.stdlib_module_names)
    is_kernel = path.parent == SOURCE / "backends" / "triton" and path.name != "__init__.py"
    assert outside <= ({"torch", "sapa", "triton"} if is_kernel else {"torch", "sapa"})


def test_public_names() -> None:
    assert dir(sapa) == PUBLIC
    for name in PUBLIC:
        assert getattr(sapa, name).__module__.startswith("sapa") if callable(getattr(sapa, name)) else True
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    hints = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {name for name in hints if name} == {*PUBLIC, *MODULES}, "what type checkers see is what there is"


def test_modules_are_attributes_and_star_brings_the_public_names() -> None:
    code = "import sapa; from sapa import *; print(sapa.nn.SAPA is SAPA, sapa.ops.__name__)"
    assert run(sys.executable, "-c", code).stdout == "True sapa.ops\n"


def test_files_stay_small() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}
    assert {name: n for name, n in lengths.items() if n > 400} == {}
    assert not [path for path in FILES if "utils" in path.name]


def run(*command: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_importing_does_not_load_torch() -> None:
    code = "import sys, sapa, sapa.cli; print('torch' in sys.modules, 'rich' in sys.modules)"
    assert run(sys.executable, "-c", code).stdout == "False False\n"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    result = run(sys.executable, "-W", "error", str(path), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_readme_code_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    result = run(sys.executable, "-c", "\n".join(blocks), cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", tables.PAGES, ids=lambda path: path.name)
def test_tables_of_costs_are_made_from_the_upsamplers(path: Path) -> None:
    assert tables.written(path) == path.read_text(), "write them anew: python -m bench.tables"


@pytest.mark.parametrize("name", sapa.UPSAMPLERS)
def test_every_upsampler_has_its_picture(name: str) -> None:
    picture = ROOT / "docs" / "img" / "upsamplers" / f"{name}.png"
    assert picture.exists(), "draw it: python -m bench.pictures"
    assert picture.stat().st_size < 40_000
    assert f"](img/upsamplers/{name}.png)" in (ROOT / "docs" / "upsamplers.md").read_text()


def test_kernels_were_built_where_there_is_a_compiler() -> None:
    """The install falls back to Python without a word, so that a mistake in the C++ would only skip its tests."""
    if shutil.which("c++") or shutil.which("g++"):
        assert sapa.status("cpu")["cpu"] == "ready"


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_docs_paper_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "paper.md").read_text()
    defined = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", text)
    assert len(named) > 10
    assert [
        name for name in named if f"def {name}(" not in defined and not (ROOT / "tests" / f"{name}.py").exists()
    ] == []


def test_wheel_and_sdist_build_and_the_wheel_works_in_a_clean_environment(tmp_path: Path) -> None:
    # what the kernels compute and how fast is tested elsewhere: here they need not be optimised, which takes minutes
    quick = "--config-setting=cmake.build-type=Debug"
    built = run(sys.executable, "-m", "build", "--no-isolation", quick, "--outdir", str(tmp_path), str(ROOT))
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert list(tmp_path.glob("*.tar.gz"))
    clean = tmp_path / "clean"
    assert run(sys.executable, "-m", "venv", "--without-pip", str(clean)).returncode == 0
    python = clean / "bin" / "python"
    installed = run(sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--quiet", str(wheel))
    assert installed.returncode == 0, installed.stderr
    (site,) = clean.glob("lib/python*/site-packages")
    (site / "torch_alone.pth").write_text(str(only_torch(tmp_path / "torch_alone")))
    smoke = (
        "import sapa, torch; from pathlib import Path; "
        "y = sapa.build('sapa_g', 8)(torch.randn(1, 8, 3, 3), torch.randn(1, 8, 7, 6)); "
        "print(sapa.__version__, tuple(y.shape), Path(sapa.__file__).parent)"
    )
    result = run(str(python), "-c", smoke, cwd=tmp_path)
    assert result.stdout.split()[-1:] == [str(site / "sapa")], result.stderr
    assert "(1, 8, 7, 6)" in result.stdout
    command = run(str(clean / "bin" / "sapa"), "info", cwd=tmp_path)
    assert command.stderr == "The sapa command needs typer and rich: pip install 'sapa[cli]'\n"


def only_torch(folder: Path) -> Path:
    """A folder through which torch and what it requires can be imported, and nothing else of this environment."""
    folder.mkdir()
    names, seen = ["torch"], set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # a requirement of another platform
            continue
        names += [re.split(r"[^\w.-]", line)[0] for line in found.requires or () if "extra ==" not in line]
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(found.locate_file(top))).resolve())
    return folder
