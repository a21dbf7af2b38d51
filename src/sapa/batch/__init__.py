"""Many maps, each lifted to the size of its own photograph: what `sapa upsample` does."""

import os
import sys
from collections.abc import Generator
from contextlib import closing

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sapa.batch.options import Options
from sapa.batch.pairs import Pair, Plan, UsageError, plan
from sapa.batch.pool import run_in_processes
from sapa.files import atomic, format_of, split_key

__all__ = ["Options", "UsageError", "upsample_files"]

OK, FAILED, INTERRUPTED = 0, 1, 130
# a process takes a few seconds to start, so that it has to have a few files to do
FILES_PER_PROCESS, MOST_PROCESSES = 4, 8
MOST_NAMES = 5


def upsample_files(
    low: str, guide: str, output: str, options: Options, *, jobs: int | None = None, force: bool = False
) -> int:
    """Upsample each map of `low` by its photograph of `guide`, say how it went, and return the exit code.

    Args:
        low: a file, a folder or a pattern.
        guide: likewise; maps and guides are matched by their names, see `plan`.
        output: a file for one map, or else a folder.
        options: how to upsample.
        jobs: processes; None chooses by the cores and the number of files.
        force: write over what is there.

    Raises:
        UsageError: if there is nothing that could be done.
    """
    found = plan(low, guide, output)
    there = [pair for pair in found.pairs if not force and pair.output.exists()]
    if there and not found.is_folder:
        raise UsageError(f"{there[0].output} is there already: give --force to write over it, or another -o.")
    skipped = set(there)
    pairs = [pair for pair in found.pairs if pair not in skipped]
    # a library that is missing is missing for all of them
    for path in {path.suffix.lower(): path for pair in pairs for path in pair.paths()}.values():
        format_of(split_key(path)[0])
    folders = {pair.output.parent for pair in found.pairs}
    atomic.clean(folders)
    failed, written = 0, 0
    with progress(len(pairs)) as bar:
        (task,) = bar.task_ids
        for line in found.problems:
            failed += 1
            say(bar, line)
        try:
            with closing(results(pairs, options, jobs)) as outcomes:
                for error in outcomes:
                    bar.advance(task)
                    if error is None:
                        written += 1
                    else:
                        failed += 1
                        say(bar, error)
        except KeyboardInterrupt:
            say(bar, f"interrupted: {written} of {len(pairs)} written; the same command does the others.")
            return INTERRUPTED
        finally:
            atomic.clean(folders)  # a process may have died
    summarise(found, written, len(there), failed)
    return FAILED if failed else OK


def results(pairs: list[Pair], options: Options, jobs: int | None) -> Generator[str | None]:
    """For each pair, in the order they are done, None or what was wrong with it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs is None:
        enough = -(-len(pairs) // FILES_PER_PROCESS)
        # processes would only be in each other's way on a GPU
        jobs = min(cores, enough, MOST_PROCESSES) if options.device == "cpu" else 1
    jobs = min(jobs, len(pairs))
    if jobs > 1:
        yield from run_in_processes(pairs, options.shared_by(jobs), jobs, max(cores // jobs, 1))
    elif pairs:
        from sapa.batch.work import attempt

        for pair in pairs:
            yield attempt(pair, options)


def progress(total: int) -> Progress:
    """A bar on the terminal, and nothing at all elsewhere."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty())
    bar.add_task("upsampling", total=total)
    return bar


def say(bar: Progress, line: str) -> None:
    if bar.disable:
        print(f"sapa upsample: {line}", file=sys.stderr, flush=True)
    else:
        bar.console.print(f"sapa upsample: {line}", markup=False, highlight=False, soft_wrap=True)


def summarise(found: Plan, written: int, there: int, failed: int) -> None:
    if found.lone_guides:
        names = ", ".join(map(str, found.lone_guides[:MOST_NAMES]))
        more = f" and {len(found.lone_guides) - MOST_NAMES} more" if len(found.lone_guides) > MOST_NAMES else ""
        print(f"sapa upsample: guides without a map: {names}{more}", file=sys.stderr)
    if not found.is_folder:
        if written:
            print(f"Written to {found.pairs[0].output}")
        return
    counts = {"written": written, "already there": there, "failed": failed}
    print(", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "written"))
