"""The only training loop. Devices, precision and processes are accelerate's."""

import atexit
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, send_to_device
from torch import Tensor, nn

from sapa.complexity import parameters
from sapa.files import atomic
from sapa.nn import Upsampler
from sapa.tasks import address_of, checkpoint
from sapa.tasks.checkpoint import RESULT, RUN, STATE, WEIGHTS, CannotWrite
from sapa.tasks.loading import Order, Share, evaluation_batches, mixed, training_batches
from sapa.tasks.nets import ENCODERS
from sapa.tasks.norms import share_norms
from sapa.tasks.optimise import optimizer_of, rate, set_rate
from sapa.tasks.pictures import write_pictures
from sapa.tasks.spec import Factory, Spec, seeded
from sapa.tasks.streaming import is_stream, length_of, streamed_batches, streamed_evaluation
from sapa.tasks.task import Batch, Task
from sapa.tasks.watch import Watch

LOSSES = 100  # points of the curve of the loss


class Diverged(RuntimeError):
    """The loss is no number any more."""


@dataclass(frozen=True)
class Machine:
    """How a run is carried out, which does not change what comes out of it.

    Attributes:
        workers: processes that read data.
        precision: "no", "fp16" or "bf16"; this one does change it.
        parts: of a step, one after the other, where a batch does not fit the memory.
        save_every: seconds between two states on the disk.
        trackers: names that accelerate knows, such as tensorboard and wandb.
    """

    workers: int = 1
    precision: str = "no"
    parts: int = 1
    save_every: float = 60.0
    trackers: tuple[str, ...] = ()


def build_model(task: Task, spec: Spec, seed: int, weights: str | None = None) -> nn.Module:
    """The model of a task. Everything but the upsamplers starts the same for one seed, whatever they are."""
    with seeded(mixed(seed)):
        model = task.model(Factory(spec, seed))
    if weights is not None:
        encoders: list[Any] = [part for part in model.modules() if isinstance(part, tuple(ENCODERS.values()))]
        if not encoders:
            raise ValueError(
                f"{task.preset.net} takes its weights from their publisher; leave out --weights {weights}."
            )
        encoders[0].start_from(weights)
    # a fifth faster on the CPU, for every upsampler alike
    return model.to(memory_format=torch.channels_last)


def accelerator_of(machine: Machine, folder: Path) -> Accelerator:
    """The devices and processes of this run."""
    accelerator = Accelerator(
        # said outright: otherwise several processes without a device do not know of each other
        cpu=not torch.accelerator.is_available(),
        mixed_precision=machine.precision,
        gradient_accumulation_steps=machine.parts,
        log_with=list(machine.trackers) or None,
        project_dir=str(folder),
    )
    if accelerator.num_processes > 1:
        # left to the end of the process, the group may be torn down under its own threads, which aborts the process
        atexit.register(accelerator.state.destroy_process_group)
    return accelerator


class Run:
    """One model, trained and measured.

    Args:
        task: what is learned.
        spec: the upsampler.
        folder: everything about the run is written there.
        seed: of weights, order and augmentation.
        weights: a file of pretrained weights for the encoder.
        machine: how it is carried out.
        watch: is told what happens.
        about: what else belongs to the description of the run, such as the path of its data.
    """

    def __init__(
        self,
        task: Task,
        spec: Spec,
        folder: Path,
        *,
        seed: int = 0,
        weights: str | None = None,
        machine: Machine = Machine(),
        watch: Watch | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.task, self.spec, self.folder, self.seed, self.machine = task, spec, folder, seed, machine
        self.accelerator = accelerator_of(machine, folder)
        self.device = self.accelerator.device
        self.share = Share(self.accelerator.process_index, self.accelerator.num_processes, machine.parts)
        self.watch = watch if watch is not None and self.accelerator.is_main_process else Watch()
        self.about = {
            "task": address_of(type(task)),
            "upsampler": spec.label,
            "seed": seed,
            "weights": None if weights is None else Path(weights).name,
            "precision": machine.precision,
            **(about or {}),
            "preset": task.preset.as_json(),
            "classes": None if task.classes is None else list(task.classes),
        }
        model = build_model(task, spec, seed, weights)
        if self.share.processes > 1:
            model = share_norms(model, self.device)
        optimizer = optimizer_of(task.preset, model)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.step, self.seconds = 0, 0.0
        self.losses: list[tuple[int, float]] = []
        self.history: list[dict[str, Any]] = []
        self.skipped: dict[str, str] = {}

    @property
    def bare(self) -> nn.Module:
        """The model without what accelerate wraps around it."""
        return self.accelerator.unwrap_model(self.model)

    def fit(self, train: Any, val: Any, *, resume: bool = False) -> dict[str, Any]:
        """Train, measure, and write weights, pictures and numbers; return the numbers."""
        steps = self.steps(length_of(train))
        if self.accelerator.is_main_process:
            self._prepare_folder(resume)
        self.accelerator.wait_for_everyone()
        if (self.folder / RESULT).exists():
            self.watch.skip()
            return checkpoint.read_json(self.folder / RESULT)
        if (self.folder / STATE).exists():
            self._restore()
        if len({*gather_object([self.step])}) > 1:
            raise ValueError(f"{self.folder} holds a state on some machines only: put it where all of them see it.")
        if self.machine.trackers:
            plain = {key: str(value) for key, value in self.about.items()}
            self.accelerator.init_trackers("sapa", plain)
        self.watch.begin(self.spec.label, self.seed, steps, self.step)
        self._train(train, val, steps)
        result = self._finish(train, val)
        # not end_training, which would take the other processes from the runs that follow
        for tracker in self.accelerator.trackers:
            tracker.finish()
        return result

    def steps(self, length: int | None) -> int:
        """Of the optimizer, for data of a length, which a stream has not."""
        preset = self.task.preset
        if length is not None and length < 1:
            raise ValueError("there is nothing to train on: the data is empty.")
        if preset.steps is not None:
            return preset.steps
        if length is None:
            raise ValueError("a stream has no epochs; say how long to train with --set steps=1000.")
        return max(1, round(preset.epochs * length / preset.batch))

    def _train(self, train: Any, val: Any, steps: int) -> None:
        preset = self.task.preset
        order = Order(length_of(train) or 1, preset.batch, (self.step, steps), self.seed, self.share)
        given = (train, self.task.augment(True), self.task.collate, order, self.machine.workers)
        is_pinned = self.device.type == "cuda"
        stream = streamed_batches(*given) if is_stream(train) else training_batches(*given, is_pinned)
        measured = {round(steps * (i + 1) / preset.evaluations) for i in range(preset.evaluations)} | {steps}
        noted = {round(steps * (i + 1) / LOSSES) for i in range(LOSSES)} | measured
        total, count, start, saved = torch.zeros((), device=self.device), 0, perf_counter(), perf_counter()
        self._mode()
        while self.step < steps:
            set_rate(self.optimizer, rate(preset, self.step, steps))
            total += self._step(stream)
            count, self.step = count + 1, self.step + 1
            # rarely on devices, which would have to wait for each number; the same steps in all processes
            is_read = self.device.type == "cpu" or self.step in noted or self.step % 10 == 0
            if is_read:
                loss = self._read(total, count)
                self.watch.step(self.step, loss, count * preset.batch)
                if self.step in noted:
                    self.losses.append((self.step, loss))
                    self.accelerator.log({"loss": loss, "lr": self.optimizer.param_groups[0]["lr"]}, self.step)
                total, count = torch.zeros((), device=self.device), 0
            if self.step in measured:
                self.seconds += perf_counter() - start
                self._measure(val, length_of(train))
                start = perf_counter()
            is_due = perf_counter() - saved >= self.machine.save_every
            # only what was read, and so is known to be numbers
            if self.step < steps and is_read and (is_due or self.step in measured):
                self._save(perf_counter() - start)
                saved = perf_counter()

    def _step(self, stream: Any) -> Tensor:
        """One step of the optimizer on the next batch; returns its loss."""
        batches = []
        for _ in range(self.machine.parts):
            loaded = next(stream)
            for name, reason in loaded.failures.items():
                if name not in self.skipped:
                    self.skipped[name] = reason
                    self.watch.note(f"{reason} Left out.")
            batches.append(send_to_device(loaded.batch, self.device, non_blocking=True))
        # chance follows from the number of the step, so that a run that was interrupted goes on as it would have; after
        # the data, since loaders draw a number when they start
        torch.manual_seed(mixed(self.seed, self.step, self.share.rank))
        weights = [self.task.weight(batch).detach() for batch in batches]
        whole = self._summed(torch.stack(weights).sum()).clamp_min(1e-12)
        total = torch.zeros((), device=self.device)
        for batch, weight in zip(batches, weights, strict=True):
            with self.accelerator.accumulate(self.model):
                with self.accelerator.autocast():
                    loss = self.task.loss(self.model, batch)
                part = loss * (weight / whole)
                # accelerate and DDP take the mean over parts and processes, and this is a sum
                self.accelerator.backward(part * (self.machine.parts * self.share.processes))
                if self.accelerator.sync_gradients and self.task.preset.clip is not None:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), self.task.preset.clip)
                self.optimizer.step()
                self.optimizer.zero_grad()
                total += part.detach()
        return total

    def _read(self, total: Tensor, count: int) -> float:
        loss = float(self._summed(total)) / count
        if loss != loss or loss in (float("inf"), float("-inf")):
            state = self.folder / STATE
            kept = f"The last state, {state}, is whole" if state.exists() else "No state was written yet"
            raise Diverged(
                f"{self.spec.label}: the loss is {loss} in step {self.step}. {kept}. Try a lower --lr, more warm-up "
                f"(--set warmup=500), or --set clip=1."
            )
        return loss

    def _summed(self, x: Tensor) -> Tensor:
        """Over all processes."""
        return cast(Tensor, self.accelerator.reduce(x, "sum"))

    def _mode(self) -> None:
        self.model.train()
        if self.task.preset.freezes_norms:
            for part in self.model.modules():
                if isinstance(part, nn.modules.batchnorm._BatchNorm):
                    part.eval()

    def _measure(self, val: Any, length: int | None) -> None:
        start = perf_counter()
        numbers = evaluate(self.task, self.bare, val, self.accelerator, self.machine)
        self._mode()
        epoch = None if length is None else self.step * self.task.preset.batch / length
        self.history.append({"step": self.step, "epoch": epoch, "seconds": self.seconds, "metrics": numbers})
        main = self.task.shown[0]
        self.watch.measured(self.step, main, numbers[main], perf_counter() - start)
        self.accelerator.log({name: value for name, value in numbers.items() if value == value}, self.step)

    def _note(self, more: float = 0.0) -> dict[str, Any]:
        return {
            "about": self.about,
            "step": self.step,
            "seconds": self.seconds + more,
            "losses": self.losses,
            "history": self.history,
            "skipped": self.skipped,
            "scaler": None if self.accelerator.scaler is None else self.accelerator.scaler.state_dict(),
        }

    def _save(self, more: float) -> None:
        if self.accelerator.is_main_process:
            try:
                tensors = checkpoint.gather(self.bare.state_dict(), self.optimizer)
                checkpoint.save(self.folder / STATE, tensors, self._note(more))
            except CannotWrite as error:
                # the state before is whole, and there may be room the next time
                self.watch.note(f"{error} The training goes on, and can be resumed from the state before.")

    def _restore(self) -> None:
        tensors, note = checkpoint.read(self.folder / STATE)
        checkpoint.restore(tensors, self.bare, self.optimizer)
        self.step, self.seconds, self.history = note["step"], note["seconds"], note["history"]
        self.losses, self.skipped = [(step, loss) for step, loss in note["losses"]], note["skipped"]
        if note["scaler"] is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(note["scaler"])

    def _prepare_folder(self, resume: bool) -> None:
        path = self.folder / RUN
        atomic.clean([self.folder])
        if path.exists():
            if not resume:
                raise FileExistsError(f"{self.folder} holds a run already: add --resume, or choose another --output.")
            different = differences(checkpoint.read_json(path), self.about)
            if different:
                raise ValueError(f"{self.folder} holds another run: {different}. Choose another --output.")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        checkpoint.write_json(path, self.about)

    def _finish(self, train: Any, val: Any) -> dict[str, Any]:
        skipped = {name: why for part in gather_object([self.skipped]) for name, why in part.items()}
        model = self.bare
        result = {
            "about": self.about,
            "metrics": self.history[-1]["metrics"],
            "shown": list(self.task.shown),
            "higher": self.task.is_higher_better,
            "steps": self.step,
            "seconds": self.seconds,
            "pictures_per_second": self.step * self.task.preset.batch / self.seconds,
            "parameters": parameters(model),
            "upsampler_parameters": sum(parameters(part) for part in model.modules() if isinstance(part, Upsampler)),
            "losses": self.losses,
            "history": self.history,
            "skipped": skipped,
            "data": {"train": length_of(train), "val": length_of(val)},
        }
        if self.accelerator.is_main_process:
            try:
                checkpoint.save(self.folder / WEIGHTS, model.state_dict(), self.about)
            except CannotWrite as error:
                raise CannotWrite(f"{error} Make room, and go on with --resume.") from error
            write_pictures(self.task, model, val, self.folder, self.device)
            result["macs"] = self.task.macs(model.to("cpu"))
            checkpoint.write_json(self.folder / RESULT, result)
            (self.folder / STATE).unlink(missing_ok=True)
        self.accelerator.wait_for_everyone()
        self.watch.end()
        return result


def evaluate(task: Task, model: nn.Module, data: Any, accelerator: Accelerator, machine: Machine) -> dict[str, float]:
    """The metric over all of the data, each process its part of it."""
    share = Share(accelerator.process_index, accelerator.num_processes)
    # Apple's GPUs have no float64, which sums need
    place = torch.device("cpu") if accelerator.device.type == "mps" else accelerator.device
    metric = task.metric().to(place)
    model.eval()
    given = (data, task.augment(False), task.collate, task.evaluation_batch())
    batches = (
        streamed_evaluation(*given, share) if is_stream(data) else evaluation_batches(*given, machine.workers, share)
    )
    with torch.no_grad():
        for batch in batches:
            there = cast(Batch, send_to_device(batch, accelerator.device, non_blocking=True))
            with accelerator.autocast():
                prediction = task.predict(model, there)
            seen = there if place == accelerator.device else cast(Batch, send_to_device(batch, place))
            task.update(metric, send_to_device(prediction, place), seen)
    return {name: float(value) for name, value in metric.compute().items()}


def differences(known: dict[str, Any], given: dict[str, Any], path: str = "") -> str:
    """Where two descriptions of a run differ, in words."""
    found = []
    for key in sorted(known.keys() | given.keys()):
        old, new = known.get(key), given.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += [text for text in (differences(old, new, f"{path}{key}."),) if text]
        elif _plain(old) != _plain(new):
            found.append(f"{path}{key} is {old!r} there and {new!r} here")
    return ", ".join(found)


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value
