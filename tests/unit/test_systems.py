"""Systems keep themselves: what is packed is unpacked, and what a system does not know does not reach it."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents
from plant.errors import ArtifactError
from plant.evaluate.choosing.blend import Blend
from plant.systems.blend import MembersSystem
from plant.systems.prior import PriorSystem
from plant.systems.system import FittedSystem, Growth, Known, PackedSystem, flattened, unflattened
from plant.systems.table import unpack_system
from plant.systems.widened import WidenedSystem, widened
from plant.text.vocab import SPECIAL, UNKNOWN, Vocab
from tests.made_up import ReadingAlone, documents_of

KNOWN = Known(Vocab((*SPECIAL, "a", "b", "c")), ("X", "Y", "Z"), CodeBook("other", ("X", "Y", "Z"), {}))
GROWTH = Growth(KNOWN, n_words=4, n_codes=2, counts=np.array([3, 1, 0]), n_documents=10)


def prior(*shares: float) -> PriorSystem:
    return PriorSystem(np.array(shares, np.float32))


@dataclass
class Listening(ReadingAlone):
    """Remembers the tokens that it was given."""

    heard: list[int] = field(default_factory=list)

    def read(self, documents: Documents, *, evidence: bool = False) -> object:
        self.heard.extend(documents.tokens.tolist())
        return prior(0.5, 0.1).read(documents)


def again(system: FittedSystem) -> FittedSystem:
    """A system that was packed, written as JSON and arrays, and put together again."""
    tree, arrays = flattened(system.pack())
    return unpack_system(unflattened(json.loads(json.dumps(tree)), arrays), KNOWN)


BLEND = Blend(np.array([0.3, 0.6], np.float32), 0.123456789, -0.1)
SYSTEMS = {
    "prior": prior(0.5, 0.2, 0.1),
    "widened": widened(prior(0.5, 0.2), GROWTH),
    "mean": MembersSystem((prior(0.5, 0.2, 0.1), prior(0.1, 0.1, 0.9))),
    "blend": MembersSystem((prior(0.5, 0.2, 0.1), widened(prior(0.1, 0.9), GROWTH)), np.zeros(3, np.float32), BLEND),
    "members of members": MembersSystem((MembersSystem((prior(0.5, 0.2, 0.1),)), prior(0.1, 0.1, 0.9))),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_packed_is_unpacked_to_the_bit(name: str) -> None:
    notes = documents_of([[2, 3], [4]], labels=[[0], []])
    np.testing.assert_array_equal(again(SYSTEMS[name]).read(notes).scores, SYSTEMS[name].read(notes).scores)


def test_a_tag_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ArtifactError, match="unknown system 'magic'"):
        unpack_system(PackedSystem("magic"), KNOWN)


def test_words_and_codes_that_a_system_does_not_know_do_not_reach_it() -> None:
    inside = Listening()
    reading = widened(inside, GROWTH).read(documents_of([[2, 3, 4]], labels=[[]]))
    assert inside.heard == [2, 3, UNKNOWN]
    np.testing.assert_allclose(reading.scores, [[0.5, 0.1, 0.05]])
    assert reading.known == 2
    assert not reading.weigh(0, [2], explainer="").any()


def test_codes_can_be_added_more_than_once() -> None:
    twice = prior(0.5, 0.2).with_codes(GROWTH).with_codes(GROWTH)
    assert isinstance(twice, WidenedSystem)
    assert (twice.n_labels, twice.further) == (2, 2)


def test_a_blend_gives_new_codes_the_log_odds_of_a_code_without_notes() -> None:
    blend = MembersSystem((prior(0.5, 0.2), prior(0.5, 0.2)), np.zeros(2, np.float32), BLEND).with_codes(GROWTH)
    assert blend.log_odds is not None
    np.testing.assert_allclose(blend.log_odds, [0, 0, np.log(0.05 / 0.95)], rtol=1e-5)
