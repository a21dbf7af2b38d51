"""Whole processes: killed in the middle, and two of them together."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from sapa.tasks import checkpoint

SAPA = Path(sys.executable).with_name("sapa")
QUICK = (
    *("train", "segmentation", "--upsampler", "sapa_b", "--batch", "4", "--workers", "0", "--save-every", "0"),
    *("--set", "size=32x48", "--set", "samples=12x3", "--set", "evaluations=1"),
)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "ACCELERATE_USE_CPU": "1"}
LAUNCHERS = {
    "accelerate": (
        *(Path(sys.executable).with_name("accelerate"), "launch", "--multi_gpu", "--num_processes", "2"),
        *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"),
    ),
    "torchrun": (
        *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "0"),
        *("--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"),
    ),
}


def start(*command: str | Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([str(part) for part in command], stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT)


def done(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out


def test_kill_9_and_resume_ends_with_the_same_bits(tmp_path: Path) -> None:
    command = (*QUICK, "--set", "steps=40", "--output")
    whole = start(SAPA, *command, tmp_path / "whole")
    part = start(SAPA, *command, tmp_path / "part")
    state = tmp_path / "part" / checkpoint.STATE
    limit = time.monotonic() + 200
    while not state.exists():
        assert part.poll() is None, part.communicate()[1]
        assert time.monotonic() < limit
        time.sleep(0.01)
    part.send_signal(signal.SIGKILL)
    part.communicate()
    assert not (tmp_path / "part" / checkpoint.RESULT).exists()
    assert 0 < checkpoint.read(state)[1]["step"] < 40
    told = done(start(SAPA, *command, tmp_path / "part", "--resume"))
    assert "goes on after step" in told
    done(whole)
    one, other = (checkpoint.read(tmp_path / name / checkpoint.WEIGHTS)[0] for name in ("whole", "part"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


TASKS = {
    # the runs that follow need the other process, too, whatever the end of a log does
    "segmentation": ("--log", "tensorboard"),
    "depth": (),
    "matting": (),
    # otherwise BatchNorm is rounded differently, and boxes that are equally good to the last digits change places
    "detection": ("--set", "freezes_norms=true"),
}
EACH = """
import sys

from sapa.cli import app

for line in sys.argv[1:]:
    app(line.split("|"), standalone_mode=False)
"""


def test_two_processes_do_what_one_does(tmp_path: Path) -> None:
    def lines(folder: str) -> list[str]:
        # plain descent: the root in Adam would make much of what rounding makes of a gradient near 0
        short = (*QUICK[2:], "--set", "steps=6", "--set", "optimizer=sgd", "--lr", "0.05")
        return [
            "|".join(("train", task, *short, *more, "--output", str(tmp_path / folder / task)))
            for task, more in TASKS.items()
        ]

    script = tmp_path / "each.py"
    script.write_text(EACH)
    together = start(*LAUNCHERS["accelerate"], script, *lines("two"))
    done(start(sys.executable, script, *lines("one")))
    alone = tmp_path / "one" / "segmentation"
    measured = start(*LAUNCHERS["torchrun"], SAPA, "eval", alone, "--json", "--workers", "0")
    done(together)
    for task in TASKS:
        one, two = (json.loads((tmp_path / name / task / checkpoint.RESULT).read_text()) for name in ("one", "two"))
        assert [loss for _, loss in two["losses"]] == pytest.approx([loss for _, loss in one["losses"]], rel=1e-4), task
        states = [checkpoint.read(tmp_path / name / task / checkpoint.WEIGHTS)[0] for name in ("one", "two")]
        torch.testing.assert_close(states[1], states[0], rtol=1e-3, atol=1e-5)
        # a pixel or a box on the edge may fall to the other side
        assert two["metrics"][two["shown"][0]] == pytest.approx(one["metrics"][one["shown"][0]], rel=1e-3), task
    # and of equal weights the metric is equal, though three pictures cannot be shared evenly
    assert json.loads(done(measured)) == json.loads((alone / checkpoint.RESULT).read_text())["metrics"]
