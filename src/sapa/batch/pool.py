"""Pairs done by several processes at once, of which any may die without the others noticing."""

import multiprocessing
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait

from sapa.batch.options import Options
from sapa.batch.pairs import Pair


class Worker:
    """A process that does one pair at a time; its end closes the pipe, however it ends."""

    def __init__(self, options: Options, threads: int) -> None:
        # a fork of a process whose libraries have threads may hang
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, options, threads), daemon=True)
        with _interrupts_held():
            self.process.start()
        theirs.close()

    def start(self, pair: Pair) -> None:
        self.pair = pair
        self.pipe.send(pair)

    def result(self) -> str | None:
        """None, or what was wrong with the pair. Raises EOFError if the process is dead."""
        return self.pipe.recv()

    def obituary(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return f"{self.pair.low}: its process was killed, as for want of memory: try fewer --jobs or less --memory."
        return f"{self.pair.low}: its process died with exit code {code}."

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_in_processes(pairs: list[Pair], options: Options, jobs: int, threads: int) -> Generator[str | None]:
    """For each pair, in the order they are done, None or what was wrong with it.

    Whoever stops early closes the iterator, which kills the processes; writing is atomic, so that leaves no half file.
    """
    waiting = iter(pairs)
    busy: dict[Connection, Worker] = {}

    def start(worker: Worker, pair: Pair) -> None:
        busy[worker.pipe] = worker
        worker.start(pair)

    try:
        for _, pair in zip(range(jobs), waiting, strict=False):
            start(Worker(options, threads), pair)
        while busy:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                try:
                    error = worker.result()
                    is_alive = True
                except (EOFError, ConnectionResetError):
                    error, is_alive = worker.obituary(), False
                del busy[worker.pipe]
                pair = next(waiting, None)
                if pair is None:
                    worker.kill()
                else:
                    start(worker if is_alive else Worker(options, threads), pair)
                yield error
    finally:
        for worker in busy.values():
            worker.kill()


def _serve(pipe: Connection, options: Options, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers it
    import torch

    from sapa.batch.work import attempt

    torch.set_num_threads(threads)
    while True:
        try:
            pair = pipe.recv()
            pipe.send(attempt(pair, options))
        except (EOFError, ConnectionResetError, BrokenPipeError):  # the parent is gone
            return


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches every process of the terminal: a child born here never sees it, and this one sees it after."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would let interrupts through again when a child starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
