"""A trained classifier of parts: an encoder, a decoder and a loss."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from plant.data.collate import collate
from plant.data.corpus import Documents
from plant.errors import InputError
from plant.explain.table import LOOKS, explainer_named, usual_explainer
from plant.nn.classifier import Classifier
from plant.nn.parts.build import asked_for, build_classifier, kept_whole
from plant.nn.parts.given import Given, Kept, pack_given, unpack_given
from plant.nn.parts.protocols import (
    ArrayForm,
    ArrayPart,
    Looked,
    LookingDecoder,
    QuantizableEncoder,
    SubwordEncoder,
    reads_titles,
)
from plant.recipe.reading import recipe_from, recipe_table
from plant.recipe.schema import Recipe
from plant.systems.array_classifier import array_system
from plant.systems.system import FORMS, FittedSystem, Growth, Known, PackedSystem, under
from plant.systems.widened import widened
from plant.tensors import Batch, Chosen, Decoded, Encoded

TAG = "classifier"


@dataclass(frozen=True)
class Read:
    """A batch and what the decoder needed of it; `chosen` are the positions where that is not all of them."""

    batch: Batch
    encoded: Encoded
    chosen: Chosen | None
    looked: Looked | None = None  # where the decoder looked, if it kept that


@dataclass(frozen=True)
class ClassifierReading:
    """What a classifier made of a batch; `read` is kept for explanations only."""

    scores: NDArray[np.float32]
    classifier: Classifier
    read: Read | None

    @property
    def known(self) -> int:
        return self.scores.shape[1]

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        assert self.read is not None  # or it was read without evidence
        name = explainer or usual_explainer(self.classifier.decoder)
        asked = torch.tensor(list(labels), device=self.read.encoded.tokens.device)
        if name == "attention" and self.read.looked is not None:
            return self._spread(self.read.looked(row, asked), self.read, row)
        one = (self.read.encoded if name in LOOKS else self._whole).document(row)
        weights = explainer_named(name, self.classifier)(self.classifier, one, asked).detach()[0]
        return self._spread(weights, self.read, row) if name in LOOKS else weights.float().cpu().numpy()

    @cached_property
    @torch.no_grad()
    def _whole(self) -> Encoded:
        """The features of whole documents, for those who look at more than the decoder does."""
        assert self.read is not None
        return self.read.encoded if self.read.chosen is None else self.classifier.encode(self.read.batch)

    def _spread(self, weights: Float[Tensor, "asked time"], read: Read, row: int) -> NDArray[np.float32]:
        """Weights of the positions that were read, as those of the whole document."""
        found: NDArray[np.float32] = weights.float().cpu().numpy()
        if read.chosen is None:
            return found
        spread = np.zeros((len(found), int(read.batch.mask[row].sum())), np.float32)
        spread[:, read.chosen.places[row, : found.shape[1]].cpu().numpy()] = found
        return spread


@dataclass(frozen=True)
class ClassifierSystem:
    """A classifier, the recipe it was built by, and what its parts were given."""

    recipe: Recipe
    classifier: Classifier
    given: Given
    device: str = "cpu"

    @property
    def matches_names(self) -> bool:
        return self.given.names is not None

    @property
    def takes_codes(self) -> bool:
        return self.matches_names or reads_titles(self.classifier.decoder)

    @torch.no_grad()
    def read(self, documents: Documents, *, evidence: bool = False) -> ClassifierReading:
        self.classifier.eval()
        batch = collate(self.classifier.readable(documents), range(len(documents))).to(self.device)
        decoded, read = self._read(batch) if evidence else (self.classifier(batch), None)
        return ClassifierReading(decoded.logits.sigmoid().cpu().numpy(), self.classifier, read)

    def _read(self, batch: Batch) -> tuple[Decoded, Read]:
        """The logits, and all that explanations need."""
        chosen, decoder = self.classifier.looked_at(batch), self.classifier.decoder
        encoded = self.classifier.encode(batch, chosen)
        if not isinstance(decoder, LookingDecoder):
            return decoder(encoded), Read(batch, encoded, chosen)
        decoded, looked = decoder.look(encoded)
        return decoded, Read(batch, encoded, chosen, looked)

    def unread(self, documents: Documents) -> int:
        encoder = self.classifier.encoder
        if not isinstance(encoder, SubwordEncoder) or not encoder.plan.most:
            return 0
        cut = self.classifier.readable(documents).subwords
        lengths = [] if cut is None else np.diff(cut.starts).tolist()
        return sum(length - encoder.plan.covered(length) for length in lengths)

    def quantized(self) -> "ClassifierSystem":
        encoder = self.classifier.encoder
        if not isinstance(encoder, QuantizableEncoder):
            raise InputError("only coders with an awd-lstm encoder have a form in eight bits")
        return replace(self, classifier=self.classifier.with_encoder(encoder.quantized()).eval())

    def with_codes(self, growth: Growth) -> FittedSystem:
        if not self.takes_codes:
            return widened(self, growth)
        from plant.systems.growing import grown_classifier  # prediction need not wait for it

        classifier, given = grown_classifier(self.recipe, self.classifier, self.given, growth)
        return ready(replace(self, classifier=classifier, given=given))

    def pack(self) -> PackedSystem:
        weights = {f"weights.{name}": t.cpu().numpy() for name, t in self.classifier.state_dict().items()}
        given = pack_given(self.given, asked=asked_for(self.recipe), whole=kept_whole(self.recipe))
        arrays = weights | {f"given.{name}": array for name, array in given.arrays.items()}
        forms = self._array_forms()
        for part, form in forms.items():
            arrays |= {f"constants.{part}.{name}": array for name, array in form.constants.items()}
        options = {"recipe": recipe_table(self.recipe), "given": given.facts}
        return PackedSystem(TAG, options | ({FORMS: {p: f.facts for p, f in forms.items()}} if forms else {}), arrays)

    def _array_forms(self) -> dict[str, ArrayForm]:
        """By which forms its parts read without torch, if both have one."""
        parts = {"encoder": self.classifier.encoder, "decoder": self.classifier.decoder}
        every = {name: part.array_form() for name, part in parts.items() if isinstance(part, ArrayPart)}
        forms = {name: form for name, form in every.items() if form is not None}
        return forms if len(forms) == len(parts) and not self.classifier.segment else {}


def ready(system: ClassifierSystem) -> FittedSystem:
    """A trained classifier as it will be when it is opened again: the bits of its scores must not depend on that."""
    if system.device != "cpu":
        return system
    sizes = {"words": len(system.given.vocab), "labels": len(system.given.codes)}
    return array_system(system.pack(), lambda: system, **sizes) or system


def unpack_classifier(packed: PackedSystem, known: Known) -> ClassifierSystem:
    """The system that `pack` took apart."""
    recipe = recipe_from(packed.options["recipe"], where="the recipe of a coder")
    own = Given(known.vocab, known.codes, known.codebook, np.zeros(len(known.codes), np.float32))
    given = unpack_given(Kept(under(packed.arrays, "given."), packed.options["given"]), own)
    classifier = build_classifier(recipe, given)
    weights = under(packed.arrays, "weights.")
    classifier.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
    return ClassifierSystem(recipe, classifier.eval(), given)
