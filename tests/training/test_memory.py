"""When memory runs out: prediction halves its batches; training names the size of a batch."""

import pytest
import torch
from small_problem import fit, make_model, make_panel, make_plan
from torch import Tensor, nn

from tsformer.training import forward
from tsformer.training.inference import is_out_of_memory, released


def test_errors_that_mean_memory_ran_out():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(RuntimeError) as on_the_host:
        torch.empty(2**55)
    assert is_out_of_memory(on_the_host.value)
    with pytest.raises(RuntimeError, match="of another kind"):
        released(RuntimeError("of another kind"))


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


def test_a_batch_that_does_not_fit_is_an_error_that_names_its_size():
    model = make_model()
    model.blocks[0] = Small(model.blocks[0], 3)
    message = r"a batch of 4 series .* smaller batch_size \(it is 4\).*\(4 series do not fit\)"
    with pytest.raises(MemoryError, match=message):
        fit(model, *make_panel(), make_plan())


def test_prediction_halves_its_batches():
    model, (panel, _) = make_model().eval(), make_panel(ragged=True)
    expected = forward(model, panel)
    model.blocks[0] = Small(model.blocks[0], 3)
    torch.testing.assert_close(forward(model, panel), expected)
    assert max(model.blocks[0].sizes) == 3
    model.blocks[0].most = 0
    with pytest.raises(MemoryError, match=r"one series of \d+ steps"):
        forward(model, panel)


@pytest.mark.parametrize("mode", [True, False])
def test_forward_leaves_the_mode_of_the_model(mode):
    model = make_model().train(mode)
    forward(model, make_panel()[0])
    assert model.training == mode
