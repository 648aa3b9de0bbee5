"""What parts may ask for by name, and how it is kept with a fitted coder."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.nn.language.awd_lstm import AWDLSTM, LanguageModel
from plant.nn.language.transformer import Transformer
from plant.nn.matching.names import Names, unpack_names
from plant.nn.planting.ranker import RANKERS, Ranker
from plant.nn.planting.ranker_store import ranker_from
from plant.relevance.relevance import Relevance
from plant.text.subwords import SubwordTokenizer
from plant.text.vocab import Vocab

Arrays = Mapping[str, NDArray[Any]]
Facts = Mapping[str, Any]
SIZES = ("embedding", "hidden", "layers")  # of a language model


@dataclass(frozen=True)
class Given:
    """What parts may ask for by name: the fitted vocabulary and codes, and what earlier stages made."""

    vocab: Vocab
    codes: tuple[str, ...]
    codebook: CodeBook
    frequencies: NDArray[np.float32]  # the share of fitted notes that have each label
    relevance: Relevance | None = None
    ranker: Ranker | None = None
    language_model: LanguageModel | None = None
    word_vectors: NDArray[np.float32] | None = None
    names: Names | None = None
    transformer: Transformer | None = None
    hyperbolic: NDArray[np.float32] | None = None  # a point of the code tree for each label
    label_pairs: NDArray[np.int64] | None = None  # two labels, and how many fitted notes have both


class Kept(NamedTuple):
    """What is kept of something: arrays, and facts that JSON can hold."""

    arrays: Arrays
    facts: Facts


@dataclass(frozen=True)
class Form:
    """How one of the things is taken apart, and put together again beside a coder's vocabulary and codes."""

    apart: Callable[[Any], Kept]
    together: Callable[[Kept, Given], Any]


def pack_given(given: Given, *, asked: frozenset[str], whole: frozenset[str]) -> Kept:
    """What parts `asked` for: all of what is kept `whole`, and of the rest its facts and the shapes of its arrays.

    Vocabulary, codes and code book are the coder's own. Frequencies stay whatever is asked: codes are added to them.
    """
    asked, whole = asked | {"frequencies"}, whole | {"frequencies"}
    things = {name: getattr(given, name) for name in FORMS if name in asked}
    packed = {name: FORMS[name].apart(thing) for name, thing in things.items() if thing is not None}
    kept = {f"{name}.{key}": array for name in packed if name in whole for key, array in packed[name].arrays.items()}
    return Kept(kept, {name: _described(part, whole=name in whole) for name, part in packed.items()})


def unpack_given(kept: Kept, given: Given) -> Given:
    """What `pack_given` took apart, beside what is already given; of what was kept as a shape, all values are zero."""
    return replace(given, **{name: FORMS[name].together(_part(kept, name), given) for name in kept.facts})


def _described(part: Kept, *, whole: bool) -> Facts:
    shapes = {key: [array.dtype.name, list(array.shape)] for key, array in part.arrays.items()}
    return {"facts": part.facts, "shapes": {} if whole else shapes}


def _part(kept: Kept, name: str) -> Kept:
    described, prefix = kept.facts[name], f"{name}."
    arrays = {key.removeprefix(prefix): array for key, array in kept.arrays.items() if key.startswith(prefix)}
    zeros = {key: np.zeros(shape, dtype) for key, (dtype, shape) in described["shapes"].items()}
    return Kept(arrays | zeros, described["facts"])


def _array_apart(array: NDArray[Any]) -> Kept:
    return Kept({"values": array}, {})


def _array(kept: Kept, given: Given) -> NDArray[Any]:
    return _writeable(kept.arrays["values"])


def _names_apart(names: Names) -> Kept:
    return Kept(names.pack(), {})


def _names(kept: Kept, given: Given) -> Names:
    return unpack_names(kept.arrays)


def _relevance_apart(relevance: Relevance) -> Kept:
    arrays = {name: getattr(relevance, name) for name in ("tokens", "scores", "label_counts", "token_counts")}
    return Kept(arrays, {"n_documents": relevance.n_documents, "form": relevance.form})


def _relevance(kept: Kept, given: Given) -> Relevance:
    codes = given.codes[: len(kept.arrays["label_counts"])]  # not those that were added later
    values: dict[str, Any] = {**kept.arrays, **kept.facts}
    return Relevance(codes=codes, **values)


def _ranker_apart(ranker: Ranker) -> Kept:
    forms = {kind: form for form, kind in RANKERS.builders.items()}
    return Kept(_plain(ranker.state_dict()), {"form": forms[type(ranker)]})


def _ranker(kept: Kept, given: Given) -> Ranker:
    return ranker_from(_tensors(kept.arrays), kept.facts["form"])


def _language_model_apart(model: LanguageModel) -> Kept:
    network = model.network
    sizes = dict(zip(SIZES, (network.size, network.sizes[0], len(network.sizes)), strict=True))
    return Kept(_plain(model.state_dict()), {"direction": model.direction, **sizes})


def _language_model(kept: Kept, given: Given) -> LanguageModel:
    facts, weights = kept.facts, _tensors(kept.arrays)
    vocab = Vocab(given.vocab.tokens[: len(weights["bias"])])  # without words that were added later
    with torch.device("meta"):  # no room, and no random numbers, for weights that are there already
        network = AWDLSTM(len(vocab), **{name: facts[name] for name in SIZES})
        model = LanguageModel(vocab, network, direction=facts["direction"])
    model.load_state_dict(weights, assign=True)
    return model.eval()


def _transformer_apart(transformer: Transformer) -> Kept:
    weights = {f"weights.{name}": array for name, array in _plain(transformer.weights).items()}
    pooler = {f"pooler.{name}": array for name, array in _plain(transformer.pooler).items()}
    return Kept(weights | pooler, {"config": dict(transformer.config), "tokenizer": asdict(transformer.tokenizer)})


def _transformer(kept: Kept, given: Given) -> Transformer:
    tensors = _tensors(kept.arrays)
    weights, pooler = (
        {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        for prefix in ("weights.", "pooler.")
    )
    return Transformer(kept.facts["config"], SubwordTokenizer(**kept.facts["tokenizer"]), weights, pooler)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _tensors(arrays: Arrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(_writeable(array)) for name, array in arrays.items()}


def _writeable(array: NDArray[Any]) -> NDArray[Any]:
    """The array, copied where it is a map of a file; zeros that nobody has touched take no memory and stay as such."""
    return array if array.flags.writeable else np.array(array)


FORMS: Mapping[str, Form] = {
    "frequencies": Form(_array_apart, _array),
    "relevance": Form(_relevance_apart, _relevance),
    "ranker": Form(_ranker_apart, _ranker),
    "language_model": Form(_language_model_apart, _language_model),
    "word_vectors": Form(_array_apart, _array),
    "names": Form(_names_apart, _names),
    "transformer": Form(_transformer_apart, _transformer),
    "hyperbolic": Form(_array_apart, _array),
    "label_pairs": Form(_array_apart, _array),
}
