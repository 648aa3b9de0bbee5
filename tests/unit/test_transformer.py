"""The transformer encoder: its sub-words, its windows, its folders."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.collate import collate
from plant.data.encode import encode_texts
from plant.data.subwords import with_subwords
from plant.errors import InputError, RecipeError
from plant.nn.encoders.transformer import TransformerEncoder
from plant.nn.language.transformer import Transformer, network_of, new_config, read_folder
from plant.nn.language.windows import WindowPlan, innermost, lay_out
from plant.recipe.schema import Prepare
from plant.text.subwords import SubwordTokenizer, train_wordpiece
from plant.text.vocab import Vocab
from tests.made_up import notes_of

TEXTS = ("Ductal carcinoma, grade 3 (T2N0); carcinoma of the breast.", "", "Fever!", "breast pain " * 12)
VOCAB = Vocab(("<pad>", "<unk>", "carcinoma", "breast"))


def tokenizer() -> SubwordTokenizer:
    return train_wordpiece(TEXTS, size=120)


def transformer(seed: int = 0) -> Transformer:
    cutter = tokenizer()
    config = new_config(len(cutter), hidden=16, layers=2, heads=2, positions=64)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Transformer(config, cutter, network_of(config, {}).state_dict())


def batch_of(texts: tuple[str, ...], cutter: SubwordTokenizer):
    documents = with_subwords(encode_texts(texts, VOCAB, Prepare()), cutter)
    return collate(documents, range(len(texts)))


def save_tokenizer(folder: Path, cutter: SubwordTokenizer) -> None:
    """A tokenizer with BERT's special tokens as Hugging Face writes it."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(cutter.text),
        cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", mask_token="[MASK]", unk_token="[UNK]",
    )  # fmt: skip
    fast.save_pretrained(folder)


def save_bert(folder: Path) -> Transformer:
    """A tiny BERT as Hugging Face writes it."""
    from transformers import BertConfig, BertForMaskedLM

    cutter = tokenizer()
    config = BertConfig(
        **{k: v for k, v in new_config(len(cutter), hidden=16, layers=2, heads=2).items() if k != "model_type"}
    )
    torch.manual_seed(3)
    BertForMaskedLM(config).save_pretrained(folder)
    save_tokenizer(folder, cutter)
    return read_folder(folder)


def save_xlmr(folder: Path) -> Transformer:
    """A tiny XLM-R with a unigram tokenizer of its own, as Hugging Face writes it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend.train_from_iterator(
        [*TEXTS, *(note.text for note in notes_of(30))],
        trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token="<s>", sep_token="</s>", pad_token="<pad>", mask_token="<mask>",
        unk_token="<unk>",
    )  # fmt: skip
    fast.save_pretrained(folder)
    config = XLMRobertaConfig(
        vocab_size=len(fast), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=40, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1,
    )  # fmt: skip
    torch.manual_seed(4)
    XLMRobertaModel(config).save_pretrained(folder)
    return read_folder(folder)


def test_a_tokenizer_learned_twice_is_the_same() -> None:
    assert tokenizer() == tokenizer()


def test_subwords_come_from_the_text_and_go_with_the_word_that_they_follow() -> None:
    cutter = tokenizer()
    documents = with_subwords(encode_texts(TEXTS, VOCAB, Prepare()), cutter)
    cut = documents.subwords
    assert cut is not None
    backend = cutter._backend
    words = [TEXTS[0][s:e] for s, e in zip(documents.char_starts[:8], documents.char_ends[:8], strict=True)]
    assert words == ["Ductal", "carcinoma", "grade", "T2N0", "carcinoma", "of", "the", "breast"]
    joined = [""] * 8
    for number, word in zip(cut.numbers[: cut.starts[1]], cut.words[: cut.starts[1]], strict=True):
        joined[word] += backend.id_to_token(int(number)).replace("##", "")
    assert joined == ["ductal", "carcinoma,", "grade3(", "t2n0);", "carcinoma", "of", "the", "breast"]
    assert cut.starts[1] == cut.starts[2]  # a text without words has no sub-words


def test_text_beyond_a_limit_on_words_is_not_read() -> None:
    documents = with_subwords(encode_texts(TEXTS[:1], VOCAB, Prepare(max_tokens=2)), tokenizer())
    assert documents.subwords is not None
    assert set(documents.subwords.words.tolist()) == {0, 1}


def test_a_corpus_without_texts_is_refused() -> None:
    from dataclasses import replace

    documents = replace(encode_texts(TEXTS, VOCAB, Prepare()), text=np.empty(0, np.uint8))
    with pytest.raises(InputError, match="keep_text = true"):
        with_subwords(documents, tokenizer())


@given(n=st.integers(0, 60), length=st.integers(1, 12), overlap=st.integers(0, 11), most=st.integers(0, 4))
def test_windows_cover_everything_and_each_subword_is_taken_where_it_stands_most_inward(
    n: int, length: int, overlap: int, most: int
) -> None:
    plan = WindowPlan(length, min(overlap, length - 1), most)
    layout = lay_out([n], plan)
    windows = [range(s, s + size) for s, size in zip(layout.starts.tolist(), layout.lengths.tolist(), strict=True)]
    covered = sorted({place for window in windows for place in window})
    assert covered == list(range(plan.covered(n)))
    assert most or plan.covered(n) == n
    assert all(len(window) == length for window in windows[:-1])
    best = innermost(n, plan).tolist()
    for place, chosen in enumerate(best):
        having = [number for number, window in enumerate(windows) if place in window]
        off_centre = [abs(place - (windows[number].start + (length - 1) / 2)) for number in having]
        assert chosen == having[off_centre.index(min(off_centre))]


@pytest.mark.parametrize("pool", ["mean", "first"])
def test_states_are_those_of_a_plain_loop_over_windows(pool: str) -> None:
    made = transformer()
    encoder = TransformerEncoder(transformer=made, window=7, overlap=3, pool=pool).eval()  # type: ignore[arg-type]
    batch = batch_of(TEXTS, made.tokenizer)
    states = encoder(batch).states
    assert batch.subwords is not None
    for row in range(len(TEXTS)):
        numbers = batch.subwords.numbers[row][batch.subwords.words[row] >= 0].tolist()
        words = batch.subwords.words[row][batch.subwords.words[row] >= 0].tolist()
        found: dict[int, list[torch.Tensor]] = {}
        best = innermost(len(numbers), encoder.plan).tolist()
        for place, (word, window) in enumerate(zip(words, best, strict=True)):
            piece = numbers[window * 4 : window * 4 + 7]
            inputs = torch.tensor([[made.tokenizer.first, *piece, made.tokenizer.last]])
            read = encoder.network(input_ids=inputs).last_hidden_state[0]
            found.setdefault(word, []).append(read[1 + place - window * 4])
        for word, pieces in found.items():
            expected = torch.stack(pieces).mean(0) if pool == "mean" else pieces[0]
            assert_close(states[row, word], expected, atol=1e-5, rtol=1e-4)


def test_words_beyond_the_most_windows_are_masked() -> None:
    made = transformer()
    encoder = TransformerEncoder(transformer=made, window=7, overlap=3, max_windows=2).eval()
    encoded = encoder(batch_of(TEXTS, made.tokenizer))
    whole = TransformerEncoder(transformer=made, window=7, overlap=3).eval()(batch_of(TEXTS, made.tokenizer))
    assert encoded.mask[3].sum() < whole.mask[3].sum() == 24
    assert encoded.mask[2].sum() == 1


def test_recomputing_changes_no_gradient_and_frozen_weights_get_none() -> None:
    made = transformer()
    batch = batch_of(TEXTS, made.tokenizer)
    gradients = []
    for options in ({}, {"recompute": True}, {"frozen": True}):
        encoder = TransformerEncoder(transformer=made, window=7, overlap=3, **options)  # type: ignore[arg-type]
        for dropout in (part for part in encoder.modules() if isinstance(part, torch.nn.Dropout)):
            dropout.p = 0.0
        encoded = encoder.train()(batch)
        if encoded.states.requires_grad:
            encoded.states[encoded.mask].square().sum().backward()
        gradients.append([weight.grad for weight in encoder.parameters()])
    for plain, again in zip(gradients[0], gradients[1], strict=True):
        assert_close(plain, again)
    assert all(gradient is None for gradient in gradients[2])
    assert not encoder.network.training


@pytest.mark.parametrize("save", [save_bert, save_xlmr])
def test_a_folder_is_read_as_the_library_reads_it(save, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    made = save(tmp_path / "checkpoint")
    network = AutoModel.from_pretrained(tmp_path / "checkpoint").eval()
    theirs = AutoTokenizer.from_pretrained(tmp_path / "checkpoint")
    encoder = TransformerEncoder(transformer=made, window=30, overlap=0, pool="first").eval()
    text = "Ductal carcinoma of the breast"
    states = encoder(batch_of((text, TEXTS[3]), made.tokenizer)).states[0]
    cut = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    read = network(torch.tensor([[theirs.cls_token_id, *cut["input_ids"], theirs.sep_token_id]])).last_hidden_state[0]
    starts = [text.index(word) for word in text.split()]
    spans = cut["offset_mapping"]
    firsts = [1 + next(place for place, (begin, end) in enumerate(spans) if begin <= s < end) for s in starts]
    assert_close(states[:5], read[firsts], atol=1e-5, rtol=1e-4)


def test_a_coder_with_a_checkpoint_outlives_the_checkpoint(tmp_path: Path) -> None:
    save_xlmr(tmp_path / "checkpoint")
    made = notes_of(40, n_codes=3)
    texts, codes = [note.text for note in made], [note.codes for note in made]
    options = (f"encoder.folder={tmp_path / 'checkpoint'}", "fit.epochs=1", "encoder.window=20",
               "masked.epochs=1", "masked.window=30",
               "decoder.key_size=8", "prepare.min_count=1")  # fmt: skip
    coder = Coder("plm-icd", *options).fit(texts, codes, choose=0.3)
    coder.save(tmp_path / "coder")
    shutil.rmtree(tmp_path / "checkpoint")
    loaded = Coder.load(tmp_path / "coder")
    np.testing.assert_array_equal(loaded.predict_proba(texts[:5]), coder.predict_proba(texts[:5]))
    assert not list((tmp_path / "coder").rglob("*.bin")) + list((tmp_path / "coder").rglob("*.py"))


def test_folders_that_are_no_checkpoints_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no folder"):
        read_folder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no config.json"):
        read_folder(tmp_path / "empty")
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read as a checkpoint") as caught:
        read_folder(tmp_path / "empty")
    assert "\n" not in str(caught.value)


def test_weights_that_are_no_safetensors_and_code_in_the_folder_are_refused(tmp_path: Path) -> None:
    save_bert(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "model.safetensors").unlink()
    torch.save({}, tmp_path / "checkpoint" / "pytorch_model.bin")
    with pytest.raises(InputError, match="safetensors"):
        read_folder(tmp_path / "checkpoint")
    config = json.loads((tmp_path / "checkpoint" / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (tmp_path / "checkpoint" / "config.json").write_text(json.dumps(config))
    (tmp_path / "checkpoint" / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match="cannot be read"):
        read_folder(tmp_path / "checkpoint")
    assert not (tmp_path / "ran").exists()


def test_windows_longer_than_the_transformer_are_refused() -> None:
    with pytest.raises(RecipeError, match="reads 1 to 62 sub-words"):
        TransformerEncoder(transformer=transformer(), window=63, overlap=0)
    with pytest.raises(RecipeError, match="cannot overlap"):
        TransformerEncoder(transformer=transformer(), window=5, overlap=5)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    texts, codes = [note.text for note in notes_of(20)], [note.codes for note in notes_of(20)]
    with pytest.raises(InputError, match=r"pip install 'plant-xmtc\[transformers\]'"):
        Coder("bert-small", "prepare.min_count=1").fit(texts, codes, choose=0.3)
    Coder("fasttext-small", "fit.epochs=1", "prepare.min_count=1").fit(texts, codes, choose=0.3)


def test_hidden_words_are_explained_by_occlusion() -> None:
    made = notes_of(40, n_codes=3)
    texts, codes = [note.text for note in made], [note.codes for note in made]
    options = ("encoder.hidden=16", "encoder.layers=1", "encoder.pieces=150", "masked.epochs=0", "prepare.min_count=1")
    coder = Coder("bert-small", *options, "fit.epochs=2").fit(texts, codes, choose=0.3)
    weights = coder.explain(texts[0], coder.classes_[0], explainer="occlusion")
    assert any(weight for _, _, weight in weights)
    with pytest.raises(InputError, match="attention or occlusion"):
        coder.explain(texts[0], coder.classes_[0], explainer="gradient")


def test_interaction_joins_a_transformer() -> None:
    made = notes_of(40, n_codes=3)
    texts, codes = [note.text for note in made], [note.codes for note in made]
    book = CodeBook("other", (), {f"C{n}": f"signc{n}x" for n in range(3)})
    options = ("encoder.hidden=16", "encoder.layers=1", "encoder.pieces=150", "masked.epochs=0", "prepare.min_count=1",
               'decoder.interaction={join="max"}', "fit.epochs=2")  # fmt: skip
    coder = Coder("bert-small", *options).fit(texts, codes, choose=0.3, codebook=book)
    new = CodeBook("other", ("D1",), {"D1": "worda wordb"})
    before = coder.predict_proba(texts[:4])
    after = coder.add_codes(new).predict_proba(texts[:4])
    np.testing.assert_array_equal(after[:, :-1], before)


def test_subwords_beyond_the_most_windows_are_counted_in_the_facts() -> None:
    made = notes_of(40, n_codes=3)
    texts, codes = [note.text for note in made], [note.codes for note in made]
    options = ("encoder.hidden=16", "encoder.layers=1", "encoder.pieces=150", "masked.epochs=0", "prepare.min_count=1",
               "fit.epochs=1", "encoder.window=10", "encoder.overlap=2")  # fmt: skip
    whole = Coder("bert-small", *options).fit(texts, codes, choose=0.3)
    cut = Coder("bert-small", *options, "encoder.max_windows=1").fit(texts, codes, choose=0.3)
    assert "subwords_unread" not in whole.fitted.facts
    encoder = whole.fitted.system.classifier.encoder  # type: ignore[attr-defined]
    lengths = [len(found.numbers) for found in encoder.tokenizer.cut(texts)]
    assert cut.fitted.facts["subwords_unread"] == sum(max(0, length - 10) for length in lengths)
