"""A transformer as its configuration, its tokenizer and its weights: from a checkpoint folder, or new."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from plant.errors import InputError, RecipeError
from plant.text.subwords import MISSING, SubwordTokenizer

POSITIONS = 512
COUNTING_FROM_TWO = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "longformer")
POOLER = "pooler."  # weights that turn the first state into a summary: the decoder's business, not the encoder's


@dataclass(frozen=True)
class Transformer:
    """What a checkpoint folder holds; `weights` are those of the encoder, by their names in its network."""

    config: Mapping[str, Any]
    tokenizer: SubwordTokenizer
    weights: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    pooler: Mapping[str, Tensor] = field(default_factory=dict, repr=False)


def read_folder(folder: Path | str) -> Transformer:
    """A Hugging Face checkpoint on disk; nothing is fetched, no code of the folder is run."""
    library, folder = transformers_library(), Path(folder)
    if not (folder / "config.json").is_file():
        what = "holds no config.json: it is no Hugging Face checkpoint" if folder.is_dir() else "is no folder"
        raise InputError(f"encoder.folder {str(folder)!r} {what}; give the folder of a downloaded checkpoint")
    with _readable(folder):
        network = library.AutoModel.from_pretrained(str(folder), **_OFFLINE, use_safetensors=True)
        fast = library.AutoTokenizer.from_pretrained(str(folder), **_OFFLINE)
    weights = {name: tensor.detach().float().clone() for name, tensor in network.state_dict().items()}
    return Transformer(
        config=plain_config(network.config),
        tokenizer=_tokenizer(fast, folder),
        weights={name: tensor for name, tensor in weights.items() if not name.startswith(POOLER)},
        pooler={name.removeprefix(POOLER): tensor for name, tensor in weights.items() if name.startswith(POOLER)},
    )


def read_head(folder: Path | str) -> dict[str, Tensor]:
    """The weights of a checkpoint's head for hidden words; none where it lacks any of them."""
    with _readable(Path(folder)):
        network, found = transformers_library().AutoModelForMaskedLM.from_pretrained(
            str(folder), **_OFFLINE, use_safetensors=True, output_loading_info=True
        )
    body = f"{network.base_model_prefix}."
    if any(not name.startswith(body) for name in found["missing_keys"]):
        return {}  # the library drew the rest by a random state that is not the recipe's
    return {name: t.detach().float() for name, t in network.state_dict().items() if not name.startswith(body)}


def new_config(
    n_subwords: int, *, hidden: int, layers: int, heads: int, padding: int = 0, positions: int = POSITIONS
) -> dict[str, Any]:
    """The configuration of a BERT of some size."""
    if hidden % heads:
        raise InputError(f"encoder.hidden = {hidden} cannot be shared by encoder.heads = {heads}: take a multiple")
    config = transformers_library().BertConfig(
        vocab_size=n_subwords,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=positions,
        pad_token_id=padding,
        attention_probs_dropout_prob=0.0,  # with it, CPUs have no fused attention: half the speed
    )
    return plain_config(config)


def network_of(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """The network of a configuration without its pooler; new weights come from torch's random state."""
    network = transformers_library().AutoModel.from_config(config_of(config), trust_remote_code=False)
    if getattr(network, "pooler", None) is not None:
        network.pooler = None
    if weights:
        network.load_state_dict(weights)
    return network


def check_window(window: int, config: Mapping[str, Any], *, option: str) -> None:
    """Refuse windows that the network has no positions for; RoBERTa's family counts from two on."""
    offset = 2 if config["model_type"] in COUNTING_FROM_TWO else 0
    most = config.get("max_position_embeddings", window + 2) - offset - 2
    if not 1 <= window <= most:
        raise RecipeError(f"{option} is {window}, but this transformer reads 1 to {most} sub-words at a time")


def config_of(config: Mapping[str, Any]) -> Any:
    """The library's object of a plain configuration."""
    return transformers_library().AutoConfig.for_model(**config)


def plain_config(config: Any) -> dict[str, Any]:
    """The configuration as JSON would give it back, without where it came from or any code that it names."""
    table = json.loads(json.dumps(config.to_dict(), default=str))
    return {key: value for key, value in table.items() if key not in ("_name_or_path", "auto_map")}


def transformers_library() -> ModuleType:
    """The `transformers` library, quiet and offline."""
    try:
        import transformers
    except ImportError as error:
        raise InputError(MISSING) from error
    quiet: Any = transformers.logging
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    return transformers


_OFFLINE = {"local_files_only": True, "trust_remote_code": False}


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """The library's many ways to say that a folder is no checkpoint, as one."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise InputError(
            f"encoder.folder {str(folder)!r} cannot be read as a checkpoint with safetensors weights and a tokenizer: "
            f"{reason}"
        ) from error


def _tokenizer(fast: Any, folder: Path) -> SubwordTokenizer:
    backend = getattr(fast, "backend_tokenizer", None)
    first, last = fast.cls_token_id, fast.sep_token_id
    if backend is None or first is None or last is None or fast.pad_token_id is None:
        raise InputError(f"the tokenizer of {str(folder)!r} has no fast form with first, last and padding sub-words")
    return SubwordTokenizer(
        backend.to_str(), first=first, last=last, padding=fast.pad_token_id, mask=fast.mask_token_id
    )
