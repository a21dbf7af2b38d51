"""What a run tells while it is going on: nothing, or lines and a bar in the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class Watch:
    """Is told everything and says nothing."""

    def begin(self, label: str, seed: int, steps: int, done: int) -> None:
        """A run starts, or goes on after `done` steps."""

    def step(self, step: int, loss: float, pictures: int) -> None:
        """The steps up to this one took so many pictures, with this mean loss."""

    def measured(self, step: int, name: str, value: float, seconds: float) -> None:
        """The metric after a step, and how long it took to measure."""

    def note(self, text: str) -> None:
        """Something to know."""

    def skip(self) -> None:
        """A run that was finished before."""

    def end(self) -> None:
        """The run is finished."""


class Terminal(Watch):
    """A bar with loss, metric, pictures per second and the time left.

    Args:
        console, progress: of rich.
        runs: how many there will be.
    """

    def __init__(self, console: "Console", progress: "Progress", runs: int = 1) -> None:
        self.console, self.progress = console, progress
        self.whole = progress.add_task("all runs", total=float(runs), **EMPTY) if runs > 1 else None
        self.bar: Any = None

    def begin(self, label: str, seed: int, steps: int, done: int) -> None:
        self.end()
        name = label if self.whole is None else f"{label}, seed {seed}"
        self.bar = self.progress.add_task(name, total=steps, completed=done, **EMPTY)
        self.steps, self.rate, self.last = steps, 0.0, perf_counter()
        self.before = done
        if done:
            self.note(f"{name} goes on after step {done} of {steps}.")

    def step(self, step: int, loss: float, pictures: int) -> None:
        now = perf_counter()
        rate = pictures / max(now - self.last, 1e-9)
        self.rate = rate if self.rate == 0 else 0.95 * self.rate + 0.05 * rate
        self.last = now
        self.progress.update(self.bar, completed=step, loss=f"loss {loss:.3f}", rate=f"{self.rate:.1f}/s")
        if self.whole is not None:
            self.progress.advance(self.whole, (step - self.before) / self.steps)
        self.before = step

    def measured(self, step: int, name: str, value: float, seconds: float) -> None:
        self.progress.update(self.bar, metric=f"{name} {value:.4g}")
        self.last = perf_counter()

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def skip(self) -> None:
        if self.whole is not None:
            self.progress.advance(self.whole, 1)

    def end(self) -> None:
        if self.bar is not None:
            self.progress.remove_task(self.bar)
        self.bar = None


EMPTY: dict[str, Any] = {"loss": "", "metric": "", "rate": ""}


@contextmanager
def terminal(console: "Console", runs: int = 1) -> Iterator[Terminal]:
    """A bar while the runs go on."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TextColumn("{task.fields[metric]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Terminal(console, progress, runs)
