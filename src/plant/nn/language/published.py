"""The published general-English AWD-LSTM, read from the files in which users have it, without running any pickled code.

It comes as a `.pth` state dict and a pickled list of words. The first is read by torch with `weights_only`; of the
second only the opcodes that spell a list of strings are understood, and nothing is ever unpickled.
"""

import pickletools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from plant.errors import InputError
from plant.nn.language.awd_lstm import AWDLSTM, Direction, LanguageModel
from plant.text.vocab import SPECIAL, Vocab

WORDS, BIAS = "0.encoder.weight", "1.decoder.bias"
SPELLED = {"xxbos": SPECIAL[0], "xxunk": SPECIAL[1]}  # their beginning of a text is our boundary between documents
STRINGS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
STRUCTURE = {"PROTO", "FRAME", "MARK", "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "STOP"}
PUTS, GETS = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}, {"GET", "BINGET", "LONG_BINGET"}
MAX_BYTES = 1 << 28  # of the word list


def read_published(weights: Path | str, words: Path | str, *, direction: Direction = "forward") -> LanguageModel:
    """A language model from a state dict file and a word list file."""
    tensors, listed = read_state_dict(Path(weights)), read_word_list(Path(words))
    layers = _layers(tensors)
    if WORDS not in tensors or not layers:
        raise InputError(f"{weights}: not an AWD-LSTM in the published layout (no {WORDS!r} or no layers)")
    if len(tensors[WORDS]) != len(listed):
        raise InputError(f"{words} has {len(listed):,} words, but {weights} has vectors for {len(tensors[WORDS]):,}")
    kept = _first_of_each([SPELLED.get(word, word) for word in listed])
    order = [*(kept.get(special, -1) for special in SPECIAL), *(n for word, n in kept.items() if word not in SPECIAL)]
    vocab = Vocab((*SPECIAL, *(word for word in kept if word not in SPECIAL)))
    network = AWDLSTM(
        len(vocab), embedding=tensors[WORDS].shape[1], hidden=len(layers[0]["bias"]) // 4, layers=len(layers)
    )
    model = LanguageModel(vocab, network, direction=direction)
    model.load_state_dict(_renamed(tensors, layers, torch.tensor(order)))
    return model.eval()


def read_state_dict(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a `.pth` file, also where they lie under `model` beside an optimizer's."""
    if not path.is_file():
        raise InputError(f"no file {path} of published weights")
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds, all meaning the same to the user
        raise InputError(
            f"{path} is not a plain state dict of tensors; files that need code to be run are refused"
        ) from error
    tensors = loaded.get("model", loaded) if isinstance(loaded, Mapping) else loaded
    if not isinstance(tensors, Mapping) or not all(isinstance(t, Tensor) for t in tensors.values()):
        raise InputError(f"{path} holds no state dict of tensors")
    return {name: tensor.float() for name, tensor in tensors.items()}


def read_word_list(path: Path) -> list[str]:
    """The strings of a pickled list of strings; any other opcode is refused."""
    if not path.is_file():
        raise InputError(f"no file {path} with the words of published weights")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path} is too large for a list of words")
    try:
        return list(_pickled_strings(path.read_bytes()))
    except (ValueError, LookupError) as error:
        raise InputError(f"{path} is not a pickled list of words and nothing else; it was not unpickled") from error


def _pickled_strings(pickled: bytes) -> Iterator[str]:
    """Walk over opcodes; `memory` is what later opcodes may refer to, None for the list itself."""
    memory: dict[int, str | None] = {}
    last: str | None = None
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in STRINGS | GETS:
            last = argument if opcode.name in STRINGS else memory[argument or 0]
            if last is None:
                raise ValueError("refers to something that is no string")
            yield last
        elif opcode.name in PUTS:
            memory[len(memory) if argument is None else argument] = last
        elif opcode.name in STRUCTURE:
            last = None
        else:
            raise ValueError(f"has opcode {opcode.name}")


def _layers(tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The layers' weights under our names, the two biases added up."""
    layers: list[dict[str, Tensor]] = []
    while (recurrent := tensors.get(f"0.rnns.{len(layers)}.weight_hh_l0_raw")) is not None:
        inside = f"0.rnns.{len(layers)}.module"
        layers.append(
            {
                "recurrent_weight": recurrent,
                "input_weight": tensors[f"{inside}.weight_ih_l0"],
                "bias": tensors[f"{inside}.bias_ih_l0"] + tensors[f"{inside}.bias_hh_l0"],
            }
        )
    return layers


def _renamed(tensors: Mapping[str, Tensor], layers: Sequence[Mapping[str, Tensor]], order: Tensor) -> dict[str, Tensor]:
    words = tensors[WORDS]
    bias = tensors.get(BIAS, torch.zeros(len(words)))
    named = {f"network.layers.{n}.{name}": tensor for n, layer in enumerate(layers) for name, tensor in layer.items()}
    return {"network.words": _in_order(words, order), "bias": _in_order(bias, order), **named}


def _in_order(table: Tensor, order: Tensor) -> Tensor:
    """Rows in our order; the mean where a special token is missing."""
    missing = (order < 0).view(-1, *[1] * (table.ndim - 1))
    return torch.where(missing, table.mean(0), table[order.clamp(min=0)])


def _first_of_each(words: Sequence[str]) -> dict[str, int]:
    kept: dict[str, int] = {}
    for number, word in enumerate(words):
        kept.setdefault(word, number)
    return kept
