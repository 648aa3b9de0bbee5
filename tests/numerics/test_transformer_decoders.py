"""The heads of transformers against plain loops over the equations."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.errors import RecipeError
from plant.nn.decoders.cross_attention import CrossAttention
from plant.nn.decoders.label_descriptions import LabelDescriptions
from plant.nn.decoders.window_pool import WindowPool
from plant.nn.encoders.cnn import CNN
from plant.nn.encoders.transformer import TransformerEncoder
from plant.tensors import Batch, Subwords
from tests.made_up import notes_of

N_LABELS, WINDOW = 5, 6
LENGTHS, TITLES = (15, 3, 0, 7), (4, 2, 9, 1, 3)


def batch(lengths: tuple[int, ...], *, seed: int = 0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    width = max(lengths)
    inside = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
    numbers = torch.randint(5, 40, (len(lengths), width), generator=random)
    words = torch.where(inside, torch.arange(width) // 2, -1)
    mask = torch.arange(width) < (torch.tensor(lengths).unsqueeze(1) + 1) // 2
    return Batch(torch.where(mask, 2, 0), mask, subwords=Subwords(numbers, words))


def encoder(**options: object) -> TransformerEncoder:
    torch.manual_seed(1)
    return TransformerEncoder(pieces=40, hidden=8, layers=1, heads=2, window=WINDOW, overlap=2, **options).eval()  # type: ignore[arg-type]


def labels(of: TransformerEncoder, **options: object) -> LabelDescriptions:
    torch.manual_seed(2)
    return LabelDescriptions(8, N_LABELS, encoder=of, titles=batch(TITLES, seed=3), chunk=2, **options)  # type: ignore[arg-type]


def numbers_of(documents: Batch, row: int) -> list[int]:
    assert documents.subwords is not None
    return documents.subwords.numbers[row][documents.subwords.words[row] >= 0].tolist()


def windows_of(documents: Batch, row: int) -> list[list[int]]:
    numbers, step = numbers_of(documents, row), WINDOW - 2
    starts = [0] + [s for s in range(step, len(numbers), step) if s + 2 < len(numbers)]
    return [numbers[s : s + WINDOW] for s in starts] if numbers else []


def read(of: TransformerEncoder, numbers: list[int], width: int = 0) -> Tensor:
    """All states of one window, by the network alone; with `width`, padded as the authors pad."""
    inputs = [2, *numbers, 3]
    padding = [0] * (width - len(inputs))
    mask = torch.tensor([[1] * len(inputs) + [0] * len(padding)])
    return of.network(input_ids=torch.tensor([inputs + padding]), attention_mask=mask).last_hidden_state[0]


def test_compat_is_the_published_equations() -> None:
    of, m = encoder(full_windows=True), 7
    decoder = labels(of, compat=True, positions=m, label_bias=False, refresh=1).eval()
    documents, titles = batch(LENGTHS), batch(TITLES, seed=3)
    over_window, over_title = decoder.compare.over_window, decoder.compare.over_description
    logits = decoder(of(documents)).logits
    for row, length in enumerate(LENGTHS):
        if not length:
            assert_close(logits[row], decoder.bias.expand(N_LABELS))
            continue
        best = []
        for window in windows_of(documents, row):
            D = read(of, window, WINDOW + 2)
            E = torch.stack([read(of, numbers_of(titles, label)[: m - 2], m) for label in range(N_LABELS)])
            S = torch.einsum("td,lmd->lmt", D, E)
            best.append(over_title(over_window(S).squeeze(-1)).squeeze(-1))
        assert_close(logits[row], torch.stack(best).amax(0), atol=1e-5, rtol=1e-5)
    assert decoder.descriptions.lost == 4


@pytest.mark.parametrize("joining", ["max", "mean"])
@pytest.mark.parametrize("squeezed", [False, True])
def test_the_default_form_is_two_softmaxes(joining: str, squeezed: bool) -> None:
    of = encoder()
    decoder = labels(of, windows=joining, squeezed=squeezed).eval()
    torch.nn.init.normal_(decoder.compare.salience.weight)
    documents, titles = batch(LENGTHS), batch(TITLES, seed=3)
    logits = decoder(of(documents)).logits
    for row in range(len(LENGTHS)):
        rows = []
        for window in windows_of(documents, row):
            D = read(of, window)[1:-1]
            for label in range(N_LABELS):
                title = numbers_of(titles, label)
                E = torch.cat([read(of, title[s : s + WINDOW])[1:-1] for s in range(0, len(title), WINDOW)])
                b = decoder.compare.salience(E).squeeze(-1).softmax(0)
                E, b = ((b.unsqueeze(1) * E).sum(0, keepdim=True), torch.ones(1)) if squeezed else (E, b)
                S = D @ E.T / 8**0.5
                rows.append((b * (S.softmax(0) * S).sum(0)).sum())
        if rows:
            values = torch.stack(rows).view(-1, N_LABELS)
            assert_close(logits[row], values.amax(0) if joining == "max" else values.mean(0), atol=1e-5, rtol=1e-4)


def test_cross_attention_is_its_equations() -> None:
    torch.manual_seed(0)
    of, decoder = encoder(), CrossAttention(8, N_LABELS, chunk=2)
    encoded = of(batch(LENGTHS))
    logits = decoder(encoded).logits
    for row in (0, 1, 3):
        H = encoded.states[row][encoded.mask[row]]
        A = (decoder.queries @ decoder.key(H).T / 8**0.5).softmax(-1)
        assert_close(logits[row], decoder.output(decoder.norm(A @ decoder.value(H))).squeeze(-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("joining", ["max", "mean"])
def test_window_pool_is_a_linear_layer_over_pooled_first_positions(joining: str) -> None:
    of, documents = encoder(), batch(LENGTHS)
    decoder = WindowPool(8, N_LABELS, windows=joining).eval()  # type: ignore[arg-type]
    logits = decoder(of(documents)).logits
    for row, length in enumerate(LENGTHS):
        first = [decoder.output(decoder.pooler(read(of, window)[0]).tanh()) for window in windows_of(documents, row)]
        expected = getattr(torch.stack(first), f"a{joining}" if joining == "max" else joining)(0) if length else None
        assert_close(logits[row], decoder.output.bias if expected is None else expected, atol=1e-5, rtol=1e-5)


def test_descriptions_learn_when_read_at_every_step_and_are_kept_otherwise() -> None:
    of = encoder().train()
    for refresh, calls in ((1, None), (3, 2)):
        decoder = labels(of, refresh=refresh).train()
        reads, original = [], decoder.descriptions._all
        decoder.descriptions._all = lambda original=original, reads=reads: reads.append(1) or original()  # type: ignore[method-assign]
        for _ in range(4):
            decoder.descriptions.prepare()
        assert len(reads) == (calls or 0)
        assert decoder.descriptions.part(range(0, 2)).states.requires_grad == (refresh == 1)


def test_kept_descriptions_are_saved_with_the_weights_and_forgotten_with_them() -> None:
    of, documents = encoder(), batch(LENGTHS)
    decoder, other = labels(of, refresh=3), labels(of, refresh=3)
    decoder.train()(of(documents))
    other.load_state_dict(decoder.state_dict())
    assert_close(other.descriptions.cache, decoder.descriptions.cache)
    assert int(other.descriptions.age) == 1
    before = decoder.eval()(of(documents)).logits
    with torch.no_grad():
        of.network.embeddings.word_embeddings.weight.mul_(1.5)
    decoder.load_state_dict(decoder.state_dict())
    assert not torch.allclose(decoder(of(documents)).logits, before)


def test_the_published_form_needs_full_windows() -> None:
    with pytest.raises(RecipeError, match="full_windows = true"):
        labels(encoder(), compat=True)
    with pytest.raises(RecipeError, match="full_windows = true"):
        labels(CNN(40, embedding=4, filters=8), compat=True)  # type: ignore[arg-type]


def test_codes_added_by_their_descriptions_leave_the_others_as_they_were() -> None:
    made = notes_of(40, n_codes=3)
    texts, codes = [note.text for note in made], [note.codes for note in made]
    book = CodeBook("other", (), {f"C{n}": f"signc{n}x worda" for n in range(3)})
    options = ("encoder.hidden=16", "encoder.layers=1", "encoder.pieces=150", "masked.epochs=0", "fit.epochs=1",
               "prepare.min_count=1")  # fmt: skip
    coder = Coder("label-descriptions-small", *options).fit(texts, codes, choose=0.3, codebook=book)
    before = coder.predict_proba(texts[:4])
    coder.add_codes(CodeBook("other", ("D1", "D2"), {"D1": "wordb wordc", "D2": "wordd"}))
    after = coder.predict_proba(texts[:4])
    np.testing.assert_allclose(after[:, :3], before, rtol=1e-5)
    assert after.shape == (4, 5)
    assert len(coder.predict(texts[:1], top=5)[0].ranked) == 5
