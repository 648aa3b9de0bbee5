"""The published checkpoint: read as it lies on users' disks, predicting what its tensors predict, running no code."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from plant.errors import InputError
from plant.nn.language.published import read_published, read_word_list
from plant.text.vocab import PADDING, SPECIAL


def published_files(folder: Path, words: list[str], *, protocol: int = 2) -> tuple[Path, Path, dict[str, Tensor]]:
    """Files of the published layout, with small tensors."""
    random = torch.Generator().manual_seed(0)
    sizes = [(6, 8), (8, 6)]
    tensors = {"0.encoder.weight": torch.randn(len(words), 6, generator=random)}
    tensors["1.decoder.bias"] = torch.randn(len(words), generator=random)
    tensors["0.encoder_dp.emb.weight"] = tensors["1.decoder.weight"] = tensors["0.encoder.weight"]
    for n, (inputs, size) in enumerate(sizes):
        tensors[f"0.rnns.{n}.weight_hh_l0_raw"] = torch.randn(4 * size, size, generator=random)
        tensors[f"0.rnns.{n}.module.weight_ih_l0"] = torch.randn(4 * size, inputs, generator=random)
        for bias in ("bias_ih_l0", "bias_hh_l0"):
            tensors[f"0.rnns.{n}.module.{bias}"] = torch.randn(4 * size, generator=random)
    torch.save(tensors, folder / "weights.pth")
    (folder / "words.pkl").write_bytes(pickle.dumps(words, protocol=protocol))
    return folder / "weights.pth", folder / "words.pkl", tensors


@pytest.mark.parametrize("protocol", range(6))
def test_a_published_checkpoint_predicts_what_its_own_tensors_predict(tmp_path: Path, protocol: int) -> None:
    words = ["xxunk", "xxpad", "xxbos", "heart", "coraz\u00f3n", "failure"]
    weights, listed, tensors = published_files(tmp_path, words, protocol=protocol)
    model = read_published(weights, listed)
    assert model.vocab.tokens == (*SPECIAL, "xxpad", "heart", "coraz\u00f3n", "failure")
    states = tensors["0.encoder.weight"][[2, 3, 5]].unsqueeze(0)
    for n, size in enumerate((8, 6)):
        layer = torch.nn.LSTM(states.shape[2], size, batch_first=True)
        inside = f"0.rnns.{n}.module."
        layer.load_state_dict(
            {name: tensors[inside + name] for name in ("weight_ih_l0", "bias_ih_l0", "bias_hh_l0")}
            | {"weight_hh_l0": tensors[f"0.rnns.{n}.weight_hh_l0_raw"]}
        )
        states = layer(states)[0]
    expected = states @ tensors["0.encoder.weight"].T + tensors["1.decoder.bias"]
    heart_failure = model.vocab.encode(["heart", "failure"]).tolist()
    logits, _ = model(torch.tensor([[PADDING, *heart_failure]]))
    assert_close(logits[..., heart_failure], expected[..., [3, 5]])
    assert_close(logits[..., [PADDING, 1]], expected[..., [2, 0]])


def test_a_repeated_word_of_the_list_is_followed_through_the_pickle_s_memory(tmp_path: Path) -> None:
    word = "".join(["he", "art"])
    (tmp_path / "words.pkl").write_bytes(pickle.dumps([word, "a", word]))
    assert read_word_list(tmp_path / "words.pkl") == ["heart", "a", "heart"]


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return print, ("code was run",)


def test_a_word_list_with_code_is_refused_and_the_code_is_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.pkl").write_bytes(pickle.dumps(["a", _Harmful()]))
    with pytest.raises(InputError, match="not unpickled"):
        read_word_list(tmp_path / "words.pkl")
    assert capsys.readouterr().out == ""


def test_weights_with_code_are_refused_and_the_code_is_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, words, _ = published_files(tmp_path, ["xxunk", "heart"])
    torch.save({"0.encoder.weight": _Harmful()}, tmp_path / "bad.pth")
    with pytest.raises(InputError, match="refused"):
        read_published(tmp_path / "bad.pth", words)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("damage", [b"", b"\x80\x04", b"not a pickle"])
def test_a_damaged_word_list_is_a_clear_error(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "words.pkl").write_bytes(damage)
    with pytest.raises(InputError, match="not a pickled list"):
        read_word_list(tmp_path / "words.pkl")


def test_words_and_vectors_of_different_number_are_refused(tmp_path: Path) -> None:
    weights, words, _ = published_files(tmp_path, ["xxunk", "heart"])
    words.write_bytes(pickle.dumps(["xxunk"]))
    with pytest.raises(InputError, match=r"1 words, but .* vectors for 2"):
        read_published(weights, words)
