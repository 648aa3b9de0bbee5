"""A fitted coder as an ONNX model, where its parts allow: token numbers in, probabilities out.

What was written is run once and compared with the coder itself; a model that differs by more than `TOLERANCE` is
refused, so that no part can be exported wrongly without a word. Words, codes and thresholds lie in its metadata.
"""

import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.errors import InputError
from plant.store.artifact import atomic_file
from plant.systems.coder import FittedCoder
from plant.systems.tfidf import TfidfSystem
from plant.text.vocab import PADDING, UNKNOWN

TOLERANCE = 1e-4
OPSET = 18
MOST_WEIGHTS = 400_000_000  # ONNX files end at 2 GB
LENGTHS = (1, 7, 40, 13)  # words of the documents that the model is tried on


def export_onnx(fitted: FittedCoder, path: Path | str) -> float:
    """Write the model after comparing it with the coder; gives the greatest difference that was found."""
    onnx = _needed()
    model = _traced(fitted) if _is_classifier(fitted) else _written(fitted)
    for key, value in _metadata(fitted).items():
        model.metadata_props.append(onnx.StringStringEntryProto(key=key, value=value))
    content = model.SerializeToString()
    difference = _difference(content, fitted)
    if not difference <= TOLERANCE:
        raise InputError(
            f"the parts of this coder cannot be exported: an ONNX model of it differs by {difference:.2g} from it"
        )
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)
    return difference


def _metadata(fitted: FittedCoder) -> dict[str, str]:
    return {
        "codes": json.dumps(fitted.codes, ensure_ascii=False),
        "thresholds": json.dumps([float(threshold) for threshold in fitted.thresholds]),
        "vocabulary": json.dumps(fitted.vocab.tokens, ensure_ascii=False),
        "keep_numbers": json.dumps(fitted.recipe.prepare.keep_numbers),
        "max_tokens": json.dumps(fitted.recipe.prepare.max_tokens),
    }


def _difference(content: bytes, fitted: FittedCoder) -> float:
    """The greatest difference between the model and the coder, over made-up documents of several lengths."""
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException

    random = np.random.default_rng(0)
    rows = [random.integers(UNKNOWN, max(len(fitted.vocab), UNKNOWN + 1), length) for length in LENGTHS]
    padded = np.full((len(rows), max(LENGTHS)), PADDING, np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    try:  # a trace that took a size for a constant runs on no other
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        (found,) = session.run(["probabilities"], {"tokens": padded})
    except (Fail, InvalidArgument, InvalidGraph, RuntimeException):
        raise InputError("the parts of this coder cannot be exported: an ONNX model of it does not run") from None
    return float(np.abs(found - fitted.probabilities(_documents(rows))).max())


def _documents(rows: list[NDArray[np.int64]]) -> Documents:
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    nothing, none = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int32)
    places = np.concatenate([np.arange(len(row)) for row in rows]).astype(np.int32)
    return Documents(
        ids=tuple(map(str, range(len(rows)))),
        tokens=np.concatenate(rows).astype(np.int32),
        token_starts=starts,
        labels=none,
        label_starts=nothing,
        char_starts=places,
        char_ends=places + 1,
        evidence_labels=none,
        evidence_spans=np.empty((0, 2), np.int32),
        evidence_starts=nothing,
        text=np.empty(0, np.uint8),
        text_starts=nothing,
    )


def _written(fitted: FittedCoder) -> Any:
    """The model of a linear coder, operator by operator; other systems have none."""
    from onnx import TensorProto, checker, helper

    system = fitted.system
    if not isinstance(system, TfidfSystem):
        raise InputError(
            f"a coder of system {fitted.recipe.system!r} has no ONNX form: only tfidf and networks of tokens"
        )
    if len(fitted.codes) * len(system.ngrams) > MOST_WEIGHTS:
        raise InputError("this coder has too many weights for one ONNX file: prune it with tfidf.prune")
    lengths, pool = _pool(system)
    firsts = [int(np.searchsorted(lengths, length)) for length in range(1, system.ngrams.longest + 1)]
    flat = [token for row in pool for token in row]
    sizes = np.cumsum([0, *map(len, pool)])
    constants = {
        "idf": system.ngrams.idf,
        "weights": system.linear.weights.toarray().T.astype(np.float32) / np.float32(fitted.temperature),
        "intercepts": (system.linear.intercepts / fitted.temperature).astype(np.float32),
        "zero": np.zeros(1, np.float32),
        "one": np.ones(1, np.float32),
        "axis": np.array([1], np.int64),
    }
    node = helper.make_node
    nodes = [
        node("TfIdfVectorizer", ["tokens"], ["counts"], mode="TF", min_gram_length=1, max_skip_count=0,
             max_gram_length=system.ngrams.longest, ngram_counts=[int(sizes[first]) for first in firsts],
             ngram_indexes=list(range(len(pool))), pool_int64s=flat),
        node("Max", ["counts", "one"], ["some"]),
        node("Log", ["some"], ["logs"]),
        node("Add", ["logs", "one"], ["damped"]),
        node("Greater", ["counts", "zero"], ["there"]),
        node("Where", ["there", "damped", "zero"], ["kept"]),
        node("Mul", ["kept", "idf"], ["weighed"]),
        node("ReduceL2", ["weighed", "axis"], ["length"], keepdims=1),
        node("Greater", ["length", "zero"], ["long"]),
        node("Where", ["long", "length", "one"], ["divisor"]),
        node("Div", ["weighed", "divisor"], ["features"]),
        node("MatMul", ["features", "weights"], ["products"]),
        node("Add", ["products", "intercepts"], ["logits"]),
        node("Sigmoid", ["logits"], ["probabilities"]),
    ]  # fmt: skip
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["document", "word"])
    found = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["document", len(fitted.codes)])
    initial = [_tensor(name, array) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "plant", [tokens], [found], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    checker.check_model(model)
    return model


def _pool(system: TfidfSystem) -> tuple[list[int], list[list[int]]]:
    """The length and the tokens of each n-gram; keys rise with length, since no n-gram begins with padding."""
    pool = []
    for key in system.ngrams.keys.tolist():
        tokens: list[int] = []
        while key:
            key, token = divmod(key, system.ngrams.vocab_size)
            tokens.insert(0, token)
        pool.append(tokens)
    return [len(tokens) for tokens in pool], pool


def _tensor(name: str, array: NDArray[Any]) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(array), name)


def _is_classifier(fitted: FittedCoder) -> bool:
    return fitted.recipe.system == "classifier"


def _traced(fitted: FittedCoder) -> Any:
    """The model of a network, as torch traces it in its plain forms."""
    import onnx
    import torch

    from plant.nn.host import VARIABLE
    from plant.systems.array_classifier import whole_system
    from plant.systems.classifier import ClassifierSystem
    from plant.tensors import Batch

    system = whole_system(fitted.system)
    if not isinstance(system, ClassifierSystem):
        raise InputError("codes were added to this coder by name, which no ONNX form has: export the coder before that")

    classifier = system.classifier

    class Traced(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classifier = classifier.eval()

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            logits = self.classifier(Batch(tokens, tokens != PADDING)).logits
            return torch.sigmoid(logits / fitted.temperature)

    example = torch.randint(UNKNOWN, max(len(fitted.vocab), 3), (2, 50))
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "torch"  # what any device runs: compiled kernels leave no trace
    try:
        with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")  # of tracing, whose result is compared instead
            written = Path(folder) / "model.onnx"
            torch.onnx.export(
                Traced(), (example,), written, input_names=["tokens"], output_names=["probabilities"], dynamo=False,
                opset_version=OPSET,
                dynamic_axes={"tokens": {0: "document", 1: "word"}, "probabilities": {0: "document"}},
            )  # fmt: skip
            return onnx.load(str(written))
    except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise InputError(
            f"the parts of this coder cannot be exported: {type(error).__name__} while tracing encoder "
            f"{fitted.recipe.encoder.name!r} and decoder {fitted.recipe.decoder.name!r}"
        ) from error
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _needed() -> Any:
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise InputError("export needs ONNX and its runtime: pip install 'plant-xmtc[onnx]'") from error
    return onnx
