"""Devices, and torch's settings, threads and random streams while an estimator computes.

Gradient mode, autocast and the default device belong to a thread. The default dtype, the precision
of float32 products and the choice of kernels belong to the process: during a fit, other threads of
the program see torch's defaults.

Small operations gain little from a second thread, and lose much beside a busy process: after each
operation all threads wait for the slowest. So ``n_threads="auto"`` is one thread, and more only for
steps with large operations.
"""

import difflib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache, partial, wraps
from numbers import Integral
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from tsformer._checks import check_known, shortened

P = ParamSpec("P")
Result = TypeVar("Result")
AnyModule = TypeVar("AnyModule", bound=nn.Module)

_AUTOCAST = ("cpu", "cuda", "mps", "xpu")
#: Multiply-adds of a step's largest operation per additional thread: about 10 ms of work.
_WORTH_A_THREAD = 2**28
#: Environment variables with the user's choice; joblib sets them for its workers too.
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_IN_JOBLIB = multiprocessing.current_process().name.startswith("LokyProcess")
_AT_IMPORT = torch.get_num_threads()


class _Setting(NamedTuple):
    """A process-wide setting, and its values that do not change results."""

    get: Callable[[], Any]
    set: Callable[[Any], None]
    plain: tuple[Any, ...]


def _attribute(owner: Any, name: str, *plain: Any) -> _Setting:
    """Return a setting that is an attribute in torch."""
    return _Setting(partial(getattr, owner, name), partial(setattr, owner, name), plain)


_backends: Any = torch.backends
#: Getter, setter and plain values of each setting; the first plain value replaces any other.
_SETTINGS = (
    _Setting(torch.get_default_dtype, torch.set_default_dtype, (torch.float32,)),
    _attribute(_backends.cuda.matmul, "fp32_precision", "ieee", "none"),
    _attribute(_backends.mkldnn.matmul, "fp32_precision", "ieee", "none"),
    _attribute(_backends.mkldnn.conv, "fp32_precision", "ieee", "none"),
    _attribute(_backends.mkldnn, "enabled", True),
    *(
        _Setting(
            getattr(_backends.cuda, f"{kernel}_sdp_enabled"),
            getattr(_backends.cuda, f"enable_{kernel}_sdp"),
            (True,),
        )
        for kernel in ("flash", "math", "mem_efficient", "cudnn")
    ),
)


class _Blocks:
    """Nested blocks of each thread; the settings are restored after the last block."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0  # threads inside a block
        self.thread = threading.local()
        if hasattr(os, "register_at_fork"):  # a fork copies the lock and the count of all threads
            os.register_at_fork(after_in_child=self._forked)

    def blocks(self) -> list[Any]:
        """Return the blocks of this thread, the innermost last."""
        blocks: list[Any] | None = getattr(self.thread, "blocks", None)
        if blocks is None:
            blocks = self.thread.blocks = []
        return blocks

    def restore(self) -> None:
        """Restore the settings."""
        raise NotImplementedError

    def _forked(self) -> None:
        """Keep only the blocks of the forking thread."""
        self.lock = threading.Lock()
        if self.users and not self.blocks():
            self.restore()
        self.users = int(bool(self.blocks()))


class _Process(_Blocks):
    """Process-wide settings."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[int, Any] = {}

    def enter(self) -> None:
        """Save the settings that are not plain, and make them plain."""
        with self.lock:
            self.users += not self.blocks()
            self.blocks().append(None)
            self._make_plain()

    def leave(self) -> None:
        """Restore the saved settings after the last block of all threads."""
        with self.lock:
            self.blocks().pop()
            self.users -= not self.blocks()
            if self.users:
                self._make_plain()
            else:
                self.restore()

    def _make_plain(self) -> None:
        for number, setting in enumerate(_SETTINGS):
            value = setting.get()
            if value not in setting.plain:
                self.saved[number] = value
                setting.set(setting.plain[0])

    def restore(self) -> None:
        for number, value in self.saved.items():
            setting = _SETTINGS[number]
            if setting.get() in setting.plain:  # otherwise the program set it during the block
                setting.set(value)
        self.saved.clear()


class _Block(NamedTuple):
    """Number of threads in a block, its maximum, and its origin."""

    now: int
    most: int
    automatic: bool


class _Numbers(_Blocks):
    """Numbers of threads: torch has one for each thread, and a default for new threads."""

    def __init__(self) -> None:
        super().__init__()
        self.before = self.newest = 0
        self.limit: int | None = None

    def enter(self, n_threads: object, work: float | None, most: int | None) -> None:
        """Set the number of threads of a block."""
        with self.lock:
            blocks, current = self.blocks(), torch.get_num_threads()
            if not blocks:
                # A thread that started during another thread's block has the block's number.
                temporary = self.users > 0 and current == self.newest
                self.thread.before = self.before if temporary else current
                if not self.users:
                    self.before = self.thread.before
                self.users += 1
            before: int = self.thread.before
            valid = isinstance(n_threads, Integral) and not isinstance(n_threads, bool)
            number = int(cast(Any, n_threads)) if valid else 0
            if number > 0:
                block = _Block(number, number, automatic=False)
            elif n_threads is None and blocks:
                block = blocks[-1]
            elif most is not None:
                block = _Block(1, most, automatic=True)
            elif self._chosen(before):
                block = _Block(before, before, automatic=False)
            else:
                block = _Block(1, before, automatic=True)
            if block.automatic and work is not None:
                now = min(block.most, 1 + int(min(work // _WORTH_A_THREAD, block.most)))
                block = block._replace(now=now)
            blocks.append(block)
            self._set(block.now)

    def leave(self) -> None:
        """Restore the number of the enclosing block, or the original number."""
        with self.lock:
            blocks = self.blocks()
            blocks.pop()
            self._set(blocks[-1].now if blocks else self.thread.before)
            self.users -= not blocks

    def _set(self, number: int) -> None:
        if self.users > 1 or torch.get_num_threads() != number:
            torch.set_num_threads(number)
        self.newest = number

    def _chosen(self, number: int) -> bool:
        """Whether the user chose the number of threads of the program."""
        if self.limit is not None:
            return number != self.limit
        if _IN_JOBLIB:
            return number != _AT_IMPORT
        return any(map(os.environ.get, _VARIABLES)) or number != _default()

    def restore(self) -> None:
        torch.set_num_threads(self.before)


@cache
def _default() -> int | None:
    """Return torch's default for this machine; None if the program changed it."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    if _AT_IMPORT in (affinity, os.cpu_count()):
        return _AT_IMPORT
    import joblib  # counts physical cores with a process of its own

    return _AT_IMPORT if joblib.cpu_count(only_physical_cores=True) == _AT_IMPORT else None


_PROCESS, _NUMBERS = _Process(), _Numbers()


@contextmanager
def threads(
    n_threads: object = None, *, work: float | None = None, most: int | None = None
) -> Iterator[None]:
    """Set torch's number of threads inside the block."""
    _NUMBERS.enter(n_threads, work, most)
    try:
        yield
    finally:
        _NUMBERS.leave()


def threads_for(model: Any, n_tokens: int) -> AbstractContextManager[None]:
    """Set the number of threads for steps of `n_tokens` tokens."""
    config: Any = getattr(model, "config", None)
    if config is None:
        return threads(work=0)
    width = config.d_model
    feedforward = getattr(config, "d_ff", None) or 2 * width
    return threads(work=n_tokens * width * max(feedforward, getattr(model, "max_tokens", 0)))


def share_of_threads(n_processes: int) -> dict[str, Any]:
    """Return the arguments of `threads` for each of several processes."""
    block = _NUMBERS.blocks()[-1] if _NUMBERS.blocks() else None
    number = max((torch.get_num_threads() if block is None else block.most) // n_processes, 1)
    if block is not None and not block.automatic:
        return {"n_threads": number}
    return {"n_threads": "auto", "most": number}


def limit_threads(n_threads: int) -> None:
    """Limit torch's number of threads in this process; "auto" may choose fewer."""
    if torch.get_num_threads() != n_threads:
        torch.set_num_threads(n_threads)
    _NUMBERS.limit = n_threads


@contextmanager
def plain_torch(n_threads: object = None) -> Iterator[None]:
    """Compute with torch's default settings inside the block, and `n_threads` as in `threads`."""
    _PROCESS.enter()
    try:
        with threads(n_threads), ExitStack() as stack:
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            for kind in _AUTOCAST:
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            if torch._C._len_torch_function_stack():  # asking for the default device is slow
                stack.enter_context(torch.device(getattr(_PROCESS.thread, "device", "cpu")))
            yield
    finally:
        _PROCESS.leave()


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Make tensors without memory inside the block, also inside `plain_torch`."""
    _PROCESS.thread.device = "meta"
    try:
        with torch.device("meta"):
            yield
    finally:
        del _PROCESS.thread.device


def in_plain_torch(function: Callable[P, Result]) -> Callable[P, Result]:
    """Run a function inside `plain_torch`, with the `n_threads` of its first argument."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Result:
        with plain_torch(getattr(args[0], "n_threads", None) if args else None):
            return function(*args, **kwargs)

    return inside


def trainable(module: AnyModule) -> AnyModule:
    """Replace inference-mode tensors, which cannot be trained; return the module."""
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            if parameter.is_inference():
                setattr(owner, name, nn.Parameter(parameter.clone(), parameter.requires_grad))
        for name, buffer in owner.named_buffers(recurse=False):
            if buffer.is_inference():
                setattr(owner, name, buffer.clone())
    return module


class _Turn:
    """Reentrant lock on the global generators: one thread at a time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # a fork copies the lock, but not the thread with it
            os.register_at_fork(after_in_child=self._free)

    def _free(self) -> None:
        self.lock = threading.RLock()


_TURN = _Turn()


class RandomStream:
    """The random stream of one training run.

    Module initialisation, dropout, and users' encodings and augmentations draw from torch's global
    generators, which all threads share. So training runs in several threads take turns: inside
    `drawing`, the global generators belong to this stream. Other threads of the program that draw
    at the same moment are not isolated.
    """

    def __init__(self, seed: int, device: torch.device):
        self._other = device if device.type in ("cuda", "mps") else None
        devices = [torch.device("cpu")] if self._other is None else [torch.device("cpu"), device]
        self.states = {
            each.type: torch.Generator(each).manual_seed(seed).get_state() for each in devices
        }

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let torch's global generators continue this stream inside the block."""
        with _TURN.lock, plain_torch():
            before = self._get()
            self._set(self.states)
            try:
                yield
            finally:
                self.states = self._get()
                self._set(before)

    def _get(self) -> dict[str, Tensor]:
        states = {"cpu": torch.default_generator.get_state()}
        if self._other is not None:
            module: Any = torch.get_device_module(self._other)
            states[self._other.type] = module.get_rng_state(self._other)
        return states

    def _set(self, states: dict[str, Tensor]) -> None:
        torch.default_generator.set_state(states["cpu"])
        if self._other is not None:
            module: Any = torch.get_device_module(self._other)
            module.set_rng_state(states[self._other.type], self._other)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators of the CPU and `device` inside the block."""
    with RandomStream(seed, device).drawing():
        yield


def drawing(
    seed: int, step: int, device: torch.device, *, stream: Sequence[int] = ()
) -> AbstractContextManager[None]:
    """Seed torch's generators for one step and one `stream` of draws."""
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return nullcontext()  # a captured seed would repeat in every replay
    return seeded(int(np.random.SeedSequence([seed, step, *stream]).generate_state(1)[0]), device)


PRECISIONS = ("auto", "float32", "bfloat16")


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the specified device; "auto" is cuda if available, else mps, else cpu."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
        if found.type == "meta":
            raise RuntimeError("tensors on it have no values")
    # torch raises any of these errors for a missing device
    except (RuntimeError, AssertionError, TypeError) as error:
        why_not = _why_not(device, error)
        choose = " Choose" if why_not.endswith("?") else "; choose"
        raise ValueError(
            f"device {shortened(device)} cannot be used here: {why_not}{choose} from: "
            f"{', '.join(map(repr, _devices_here()))}"
        ) from error
    return found


def _devices_here() -> list[str]:
    """Return the valid values of `device` on this machine."""
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = ["cuda", *(f"cuda:{i}" for i in range(n_gpus) if n_gpus > 1)] if n_gpus else []
    others = ["mps"] if torch.backends.mps.is_available() else []
    return ["auto", "cpu", *gpus, *others]


def _why_not(device: object, error: Exception) -> str:
    """Explain why a device cannot be used."""
    if not isinstance(device, (str, torch.device)):
        return f"a device is named by a string, not by {type(device).__name__}"
    kind = str(device).partition(":")[0].strip().lower()
    near = difflib.get_close_matches(kind, (*_MISSING, "cpu"), n=1, cutoff=0.7)
    meant = _ALSO_CALLED.get(kind, near[0] if near else "")
    missing = "" if meant in _devices_here() else _MISSING.get(meant, "")
    if not meant or str(device).startswith(meant):
        return missing or str(error).splitlines()[0][:100]
    return f"did you mean {meant!r}?" + (f" That is not there either: {missing}" if missing else "")


#: Common names of devices, and PyTorch's names.
_ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "rocm": "cuda", "hip": "cuda", "metal": "mps"}
#: Reasons for a missing device.
_MISSING = {
    "cuda": f"PyTorch {torch.__version__} sees no GPU of NVIDIA or AMD",
    "mps": f"PyTorch {torch.__version__} sees no GPU of Apple",
}


#: Smallest number of values (tokens times width) of a series for bfloat16 by default. Below it,
#: casting costs more than it gains: ``experiments/results/gpu/training.jsonl``.
_MANY_VALUES = 2**14


def resolve_precision(precision: str, device: torch.device, n_values: int = 0) -> bool:
    """Whether to autocast to bf16; "auto" does for large models on CUDA devices that support it."""
    if precision == "auto":
        if device.type != "cuda" or n_values < _MANY_VALUES:
            return False
        return torch.cuda.is_bf16_supported(including_emulation=False)
    check_known("precision", precision, PRECISIONS)
    return precision == "bfloat16"
