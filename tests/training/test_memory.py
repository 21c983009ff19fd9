"""When memory runs out: smaller pieces, and the same steps."""

import warnings
import weakref
from unittest import mock

import pytest
import torch
from small_problem import equal, fit, make_model, make_panel, make_plan, make_step, weights_of
from torch import Tensor, nn

from tsformer.training import forward
from tsformer.training.distributed import Ranks
from tsformer.training.inference import catch_oom, is_out_of_memory


def test_errors_that_mean_memory_ran_out():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(RuntimeError) as on_the_host:
        torch.empty(2**55)
    assert is_out_of_memory(on_the_host.value)
    with pytest.raises(RuntimeError) as other:
        torch.zeros(2, 3) @ torch.zeros(2, 3)
    assert not is_out_of_memory(other.value)
    with pytest.raises(RuntimeError, match="of another kind"), catch_oom():
        raise RuntimeError("of another kind")


class Small(nn.Module):
    """A block that fits only so many series into memory."""

    def __init__(self, block: nn.Module, most: int):
        super().__init__()
        self.block, self.most, self.sizes = block, most, []

    def forward(self, x: Tensor, *rest) -> Tensor:
        if len(x) > self.most:
            raise torch.OutOfMemoryError(f"{len(x)} series do not fit")
        self.sizes.append(len(x))
        return self.block(x, *rest)


@pytest.mark.parametrize(
    ("encoding", "stem", "head_norm", "ragged", "weighted"),
    [
        ("tape+erpe", "conv", "batch", True, True),
        ("tape+erpe", "conv", "batch", False, False),
        ("fire", "patch", None, True, False),
    ],
)
def test_pieces_give_the_steps_of_the_whole_batch(encoding, stem, head_norm, ragged, weighted):
    """Batch norms, too, see the whole batch: the first parameters to show it are theirs."""
    panel, targets = make_panel(ragged=ragged)
    weights = torch.linspace(0.2, 1.8, 20) if weighted else None
    options = {"stem": stem, "head_norm": head_norm, "dropout": 0.0}
    models = [make_model(encoding, **options).double() for _ in range(2)]
    panel = panel._each(lambda x: x.double() if x.is_floating_point() else x)
    models[1].blocks[0] = Small(models[1].blocks[0], 3)
    plan = make_plan(batch_size=10)
    fit(models[0], panel, targets, plan, weights=weights)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit(models[1], panel, targets, plan, weights=weights)
    assert ["did not fit into the memory of cpu" in str(w.message) for w in seen] == [True]
    assert max(models[1].blocks[0].sizes) == 3
    plain, pieces = (dict(m.named_parameters()) for m in models)
    for name, value in plain.items():
        name = name.replace("blocks.0.", "blocks.0.block.")
        torch.testing.assert_close(pieces[name], value, rtol=1e-4, atol=1e-6)


def test_not_even_one_series():
    model = make_model()
    model.blocks[0] = Small(model.blocks[0], 0)
    with (
        pytest.warns(UserWarning, match="in pieces"),
        pytest.raises(MemoryError, match="nor does one series; choose a smaller"),
    ):
        fit(model, *make_panel(), make_plan())


def test_a_batch_shared_with_other_processes_is_not_cut():
    """Pieces would bypass the averaging of gradients, and each process would train alone."""

    class SharedByTwo(Ranks):
        def wrap(self, model, device):
            return model

    model = make_model()
    model.blocks[0] = Small(model.blocks[0], 1)
    step = make_step(model, *make_panel(), make_plan(), ranks=SharedByTwo(0, 2))
    with pytest.raises(MemoryError, match="cannot be cut here"):
        step(torch.arange(4), torch.arange(4))


def test_prediction_halves_its_batches():
    model, (panel, _) = make_model().eval(), make_panel(ragged=True)
    expected = forward(model, panel)
    model.blocks[0] = Small(model.blocks[0], 3)
    torch.testing.assert_close(forward(model, panel), expected)
    assert max(model.blocks[0].sizes) == 3
    model.blocks[0].most = 0
    with pytest.raises(MemoryError, match=r"one series of \d+ steps .*\(1 series do not fit\)"):
        forward(model, panel)


def test_data_that_stay_on_the_host_train_alike(monkeypatch):
    """Data too large for a device are sent batch by batch; here host and device are the same."""
    ends = []
    for exceeds in (False, True):
        monkeypatch.setattr(
            "tsformer.training.inference.exceeds_device_memory", lambda *_, e=exceeds: e
        )
        monkeypatch.setattr("tsformer.data.panel.Panel.pinned", lambda self: self)
        model = make_model()
        fit(model, *make_panel(ragged=True), make_plan())
        ends.append(weights_of(model))
    assert equal(*ends)


def test_what_the_frames_of_the_error_held_is_free_before_the_block_is_left():
    """Only then does emptying the allocator's cache give anything back."""

    class Large:
        pass

    seen = []

    def fails():
        large = Large()
        seen.append(weakref.ref(large))
        raise torch.OutOfMemoryError(
            "Tried to allocate 2.00 MiB. If reserved but unallocated memory"
        )

    def emptied():
        seen.append(seen[0]() is None)

    with (
        mock.patch.object(torch.cuda, "is_available", return_value=True),
        mock.patch.object(torch.cuda, "empty_cache", emptied),
        catch_oom() as ran_out,
    ):
        fails()
    assert seen[1:] == [True]
    assert ran_out == [" (Tried to allocate 2.00 MiB.)"]
