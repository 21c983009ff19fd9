"""TokenTransformer: causal under every encoding, generation, initial weights, padding."""

import pytest
import torch
from torch import nn

from tsformer.encodings import names
from tsformer.model import TokenTransformer

VOCABULARY, LENGTH = 11, 12
ENCODINGS = [*names(), "tape+erpe", "rope+conv", "conv+wavelet"]

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)


def make(encoding="lspe", **options) -> TokenTransformer:
    torch.manual_seed(0)
    sizes = {"max_len": LENGTH, "d_model": 16, "n_heads": 2, "n_layers": 2}
    model = TokenTransformer(VOCABULARY, **sizes | {"encoding": encoding} | options)
    for parameter in model.encoding.parameters():
        if not parameter.any():
            nn.init.normal_(parameter)  # erpe starts at zero, and could leak nothing
    return model.double().eval()


def text(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def drawing(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@every_encoding
@pytest.mark.parametrize("training", [False, True], ids=["eval", "gradient"])
def test_no_later_token_changes_an_earlier_logit(encoding, training):
    """In training, a trained bias takes another path through the kernel."""
    model, tokens = make(encoding, dropout=0.0).train(training), text(4, LENGTH)
    draws = torch.get_rng_state()
    logits = model(tokens)
    for n in (1, 5, LENGTH - 1):
        changed = tokens.clone()
        changed[:, n:] = (changed[:, n:] + 1 + text(4, LENGTH - n, seed=n) % 9) % VOCABULARY
        torch.set_rng_state(draws)  # cape's, in training
        changed_logits = model(changed)
        torch.testing.assert_close(changed_logits[:, :n], logits[:, :n], rtol=1e-9, atol=1e-9)
        assert not torch.allclose(changed_logits[:, n:], logits[:, n:])


@every_encoding
def test_padding_at_the_end_changes_nothing(encoding):
    model, tokens = make(encoding), text(4, LENGTH)
    mask = torch.arange(LENGTH)[None] < torch.tensor([12, 7, 1, 4])[:, None]
    logits = model(tokens, mask)
    for row, n, series in zip(logits, (12, 7, 1, 4), tokens, strict=True):
        alone = model(series[None, :n])[0]
        torch.testing.assert_close(row[:n], alone, rtol=1e-8, atol=1e-8)


def test_embedding_output_and_initial_weights():
    model = make("none", n_layers=0, norm_first=False, tie_weights=True)
    tokens = text(2, 5)
    x = model.embedding.weight[tokens] * 4.0  # the square root of the width
    expected = x @ model.embedding.weight.T + model.output.bias
    torch.testing.assert_close(model(tokens), expected)
    model = make(init_range=0.1, d_model=64)
    assert model.output.weight is not model.embedding.weight
    for weight in (model.embedding.weight.detach(), model.output.weight.detach()):
        assert 0.095 < weight.abs().max() <= 0.1
        assert weight.std().item() == pytest.approx(0.2 / 12**0.5, rel=0.1)
    assert not model.output.bias.any()
    assert make().embedding.weight.abs().max() > 1


def test_generation_continues_beyond_the_trained_length():
    model, lengths = make(), []
    model.register_forward_pre_hook(lambda _, inputs: lengths.append(inputs[0].shape[1]))
    out = model.generate(text(2, LENGTH), 5, temperature=0)
    assert lengths == [LENGTH] * 5
    assert out.shape == (2, LENGTH + 5)
    assert torch.equal(out[:, -1], model(out[:, -LENGTH - 1 : -1])[:, -1].argmax(-1))
    assert model.generate(text(3), 2).shape == (5,)


def test_draws_use_the_generator_and_not_the_global_one():
    model, prompt = make().train(), text(2, 3)
    before = torch.get_rng_state()
    first, again = (model.generate(prompt, 8, generator=drawing(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(model.generate(prompt, 8), model.generate(prompt, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


@pytest.mark.parametrize("options", [{"top_k": 3}, {"top_k": 99}, {"temperature": 50.0}])
def test_draws_come_from_the_top_k_and_follow_the_logits(options):
    model, prompt = make(n_layers=1), text(1, 3).expand(4000, -1)
    logits = model(prompt[:1])[0, -1] / options.get("temperature", 1.0)
    drawn = model.generate(prompt, 1, **options, generator=drawing())[:, -1]
    least = logits.topk(min(options.get("top_k", VOCABULARY), VOCABULARY)).values[-1]
    expected = torch.where(logits >= least, logits, -torch.inf).softmax(-1)
    share = torch.bincount(drawn, minlength=VOCABULARY) / 4000
    assert not share[expected == 0].any()
    torch.testing.assert_close(share, expected.float(), atol=0.03, rtol=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: make()(text(3)),
        lambda: make().generate(text(2, 0), 1),
        lambda: make().generate(text(2, 3), 1, temperature=-1.0),
        lambda: make(max_len=0),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(ValueError):
        call()
