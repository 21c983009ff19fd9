"""TSTransformer as a torch module, and from its tokens to one vector."""

import pytest
import torch
from torch import Tensor, nn

from tsformer import ModelConfig, TSTransformer
from tsformer.encodings import names
from tsformer.model.stems import STEMS
from tsformer.model.transformer import POOLINGS

SIZES = {"n_channels": 3, "n_outputs": 4, "max_len": 30, "d_model": 8, "n_heads": 2}
MASK = torch.arange(30)[None] < torch.tensor([30, 17, 2])[:, None]


# What a stem needs in addition to its name.
NEEDS = {"embedding": {"n_channels": 1, "stem_params": {"n_codes": 6}}}


def make_model(**config) -> TSTransformer:
    torch.manual_seed(0)
    return TSTransformer(ModelConfig(**SIZES | NEEDS.get(config.get("stem"), {}) | config)).eval()


def series(stem: str = "conv") -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if stem == "embedding":
        return torch.randint(7, (3, 30, 1), generator=generator).float()
    return torch.randn(3, 30, 3, generator=generator)


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_values_mask_and_times_to_logits(stem, pooling, norm_first):
    model, x = make_model(stem=stem, pooling=pooling, norm_first=norm_first), series(stem)
    times = torch.arange(30.0)[None]
    logits = model(x, MASK, times)
    assert logits.shape == (3, 4)
    torch.testing.assert_close(model(x, MASK), logits)
    torch.testing.assert_close(model(x, MASK, times.expand(3, -1)), logits)
    alone = [model(x[i : i + 1, :n]) for i, n in enumerate((30, 17, 2))]
    torch.testing.assert_close(logits, torch.cat(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stem", STEMS)
def test_times_are_times_of_steps(stem):
    model, x = make_model(stem=stem, encoding="fixed"), series(stem)
    default = model(x)
    assert not torch.allclose(model(x, times=2 * torch.arange(30.0)[None]), default, atol=1e-4)
    shifted = torch.arange(30.0) + torch.tensor([[0.0], [100.0], [200.0]])
    torch.testing.assert_close(model(x, times=shifted)[0], default[0], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(model(x, times=shifted)[1], default[1], atol=1e-4)


@pytest.mark.parametrize("stem", STEMS)
def test_values_at_padding_are_ignored_even_nan(stem):
    model, x = make_model(stem=stem, dropout=0.0, encoding="tape+erpe").train(), series(stem)
    clean = model(x.where(MASK[..., None], 0.0), MASK)
    dirty = model(x.where(MASK[..., None], float("nan")), MASK)
    torch.testing.assert_close(dirty, clean)
    dirty.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_models_that_differ_in_encoding_share_all_other_weights():
    reference = make_model(encoding="none").state_dict()
    for encoding in [*names(), "tape+erpe"]:
        model = make_model(encoding=encoding).state_dict()
        assert set(reference) == {key for key in model if not key.startswith("encoding.")}
        assert all(torch.equal(model[key], value) for key, value in reference.items()), encoding


KEPT = torch.arange(6)[None] < torch.tensor([6, 4, 1])[:, None]


def tokens() -> torch.Tensor:
    return torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0))


def make_pool(name: str) -> nn.Module:
    torch.manual_seed(0)
    pooling = POOLINGS[name](5)
    for parameter in pooling.parameters():
        nn.init.normal_(parameter)
    return pooling


def test_sizes_follow_the_options():
    model = make_model(stem="patch", stem_params={"stride": 4}, encoding="learnable")
    assert model.max_tokens == 8
    assert model.encoding.at(0).table.shape == (8, 8)
    assert model.blocks[0].feed_forward[0].out_features == 16
    assert make_model(d_ff=5).blocks[0].feed_forward[0].out_features == 5
    with pytest.raises(ValueError, match="'mean'"):
        make_model(pooling="maen")
    with pytest.raises(ValueError):
        make_model(n_heads=3)


def test_attention_weighs_by_a_learned_score():
    pooling, x = make_pool("attention"), tokens()
    score = torch.exp(x[1, :4] @ pooling.score.weight[0] + pooling.score.bias)
    expected = (score[:, None] * x[1, :4]).sum(0) / score.sum()
    torch.testing.assert_close(pooling(x, KEPT)[1], expected)
    torch.testing.assert_close(POOLINGS["attention"](5)(x), x.mean(1))  # as it starts


@pytest.mark.parametrize("mask", [None, KEPT], ids=["whole", "padded"])
@pytest.mark.parametrize("name", POOLINGS)
def test_shares_are_what_is_pooled(name, mask):
    pooling, x = make_pool(name), tokens()
    shares = pooling.shares(x, mask)
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(3))
    if mask is not None:
        assert (shares[~mask] == 0).all()
    pooled = pooling(x, mask)
    if name == "max":  # each feature has one holder
        assert torch.equal(pooled[1], x[1, : 6 if mask is None else 4].amax(dim=0))
        counts = [[(x[b, n] == pooled[b]).sum() / 5 for n in range(6)] for b in range(3)]
        torch.testing.assert_close(shares, torch.tensor(counts))
    else:
        torch.testing.assert_close(torch.einsum("bn,bnd->bd", shares, x), pooled)
