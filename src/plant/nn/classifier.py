"""A classifier: an encoder, a decoder and a loss, and how a document is read: at once, or in segments that carry on."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.data.corpus import Documents
from plant.data.structure import with_structure
from plant.data.subwords import with_subwords
from plant.errors import RecipeError
from plant.nn.forms import compiled_for
from plant.nn.losses import BCE, smoothed
from plant.nn.parts.protocols import (
    Decoder,
    Encoder,
    FusedDecoder,
    Loss,
    SegmentDecoder,
    SelectiveDecoder,
    SelectiveEncoder,
    StatefulEncoder,
    SubwordEncoder,
    TaughtDecoder,
    headings_read,
    reads_from_end,
)
from plant.tensors import Batch, Chosen, Decoded, Encoded, backward_order, chosen_by, in_order
from plant.text.vocab import UNKNOWN


class Classifier(nn.Module):
    """From tokens to logits and to the loss.

    With `segment` the encoder reads that many tokens at a time and carries its state from one segment to the next. The
    gradient stops between segments, or goes through with `detach` false; with `recompute` the encoder's activations are
    computed again in the backward pass instead of kept. A decoder with segments of the same length then adds up logits
    as it goes: prediction takes the same memory for any length. Tokens from `n_words` on, which only the names of added
    codes know, are unknown words to the encoder.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        criterion: Loss,
        *,
        segment: int = 0,
        detach: bool = True,
        recompute: bool = False,
        n_words: int | None = None,
    ) -> None:
        super().__init__()
        if segment and not isinstance(encoder, StatefulEncoder):
            raise RecipeError("this encoder cannot read in segments; set segment = 0, or use encoder 'awd-lstm'")
        self.encoder, self.decoder, self.criterion = encoder, decoder, criterion
        self.segment, self.detach, self.recompute, self.n_words = segment, detach, recompute, n_words

    def forward(self, batch: Batch) -> Decoded:
        decoder, may_forget = self.decoder, self.segment > 0 and not torch.is_grad_enabled()
        if may_forget and isinstance(decoder, SegmentDecoder) and decoder.segment == self.segment:
            return Decoded(self._running_logits(batch, decoder))
        return decoder(self.encode_looked_at(batch))

    def readable(self, documents: Documents) -> Documents:
        """The documents with what the parts read of them besides words: sub-words, headings, sentences."""
        headings = headings_read(self.encoder, self.decoder)
        if headings and documents.structure is None:
            documents = with_structure(documents, headings=headings)
        if not isinstance(self.encoder, SubwordEncoder) or documents.subwords is not None:
            return documents
        if self.encoder.tokenizer is None:
            raise RecipeError("this encoder was built without a tokenizer: fit it through a coder")
        return with_subwords(documents, self.encoder.tokenizer)

    def with_encoder(self, encoder: Encoder) -> "Classifier":
        """The same decoder and loss over another encoder."""
        return Classifier(
            encoder,
            self.decoder,
            self.criterion,
            segment=self.segment,
            detach=self.detach,
            recompute=self.recompute,
            n_words=self.n_words,
        )

    def encode(self, batch: Batch, chosen: Chosen | None = None) -> Encoded:
        """The features of whole documents, however they are read, or those of chosen positions as if they were all."""
        known = batch if self.n_words is None else known_words(batch, self.n_words)
        if chosen is not None:
            assert isinstance(self.encoder, SelectiveEncoder)  # or nothing would have been chosen
            return Encoded(self.encoder.states_at(known, chosen), chosen.of(batch.tokens), chosen.mask)
        if not self.segment:
            encoded = self.encoder(known)
            on_host = batch.on_host if encoded.mask is batch.mask else None  # some encoders read less than all
            return replace(encoded, tokens=batch.tokens, on_host=on_host, structure=batch.structure)
        return self._read_whole(known, batch)

    def looked_at(self, batch: Batch) -> Chosen | None:
        """The positions that are enough for the decoder's logits; None where all are read.

        Other devices read all: how many positions there are would have to be waited for.
        """
        encoder, decoder = self.encoder, self.decoder
        if not compiled_for(batch.tokens.device):
            return None
        if self.segment or not isinstance(encoder, SelectiveEncoder) or not isinstance(decoder, SelectiveDecoder):
            return None
        wanted = decoder.looks_at(batch.tokens, batch.mask)
        return None if wanted is None else chosen_by(wanted)

    def encode_looked_at(self, batch: Batch) -> Encoded:
        """The features that the decoder needs: its logits are those of whole documents."""
        return self.encode(batch, self.looked_at(batch))

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        """The loss of a batch with targets."""
        return self.loss_of(self.encode_looked_at(batch), batch)

    def loss_of(self, encoded: Encoded, batch: Batch) -> Float[Tensor, ""]:
        """The loss from features that are already there, for training a decoder on stored ones."""
        if isinstance(self.criterion, BCE) and isinstance(self.decoder, FusedDecoder) and batch.targets is not None:
            return self.decoder.loss(encoded, smoothed(batch.targets, self.criterion.smoothing))
        if self.training and isinstance(self.decoder, TaughtDecoder) and batch.targets is not None:
            return self.criterion(self.decoder.taught(encoded, batch.targets), batch)
        return self.criterion(self.decoder(encoded), batch)

    def _read_whole(self, known: Batch, batch: Batch) -> Encoded:
        """The features of all segments, each at its token."""
        states = torch.cat([states for states, _ in self._read(known)], dim=1)
        from_end = reads_from_end(self.encoder)
        in_place = in_order(states, backward_order(batch.mask)) if from_end else states
        return Encoded(
            in_place, batch.tokens, batch.mask, on_host=batch.on_host, from_end=from_end, structure=batch.structure
        )

    def _running_logits(self, batch: Batch, decoder: SegmentDecoder) -> Float[Tensor, "batch label"]:
        logits = decoder.prior.expand(len(batch.tokens), -1)
        known = batch if self.n_words is None else known_words(batch, self.n_words)
        ordered = turned(batch) if reads_from_end(self.encoder) else batch
        for states, span in self._read(known):
            logits = logits + decoder.evidence(self._in_text_order(states, ordered.within(span)))
        return logits

    def _in_text_order(self, states: Float[Tensor, "batch time size"], part: Batch) -> Encoded:
        """The features of a segment as the text has them, since the earlier of equal words survives inattention."""
        if not reads_from_end(self.encoder):
            return Encoded(states, part.tokens, part.mask, on_host=part.on_host)
        back = turned(part)
        return Encoded(in_order(states, backward_order(part.mask)), back.tokens, back.mask, on_host=back.on_host)

    def _read(self, batch: Batch) -> Iterator[tuple[Float[Tensor, "batch time size"], slice]]:
        """The features of one segment after the other, in the order in which the encoder reads, and where each is."""
        carry: Any = None
        tokens = turned(batch).tokens if reads_from_end(self.encoder) else batch.tokens
        for start in range(0, tokens.shape[1], self.segment):
            span = slice(start, start + self.segment)
            states, carry = self._read_on(tokens[:, span], carry)
            yield states, span

    def _read_on(self, tokens: Tensor, carry: Any) -> tuple[Tensor, Any]:
        assert isinstance(self.encoder, StatefulEncoder)  # or there would be no segments
        before = detached(carry) if self.detach else carry
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(self.encoder.read, tokens, before, use_reentrant=False)
        return self.encoder.read(tokens, before)


def known_words(batch: Batch, n_words: int) -> Batch:
    """The batch with tokens from `n_words` on as unknown words."""
    return replace(batch, tokens=torch.where(batch.tokens < n_words, batch.tokens, UNKNOWN))


def turned(batch: Batch) -> Batch:
    """The tokens of each document from the last to the first, then the padding; turned twice it is the same again."""
    host = batch.on_host
    on_host = None if host is None else replace(host, tokens=host.tokens.gather(1, backward_order(host.mask)))
    return Batch(batch.tokens.gather(1, backward_order(batch.mask)), batch.mask, on_host=on_host)


def detached(carry: Any) -> Any:
    """A state, a tensor or nested tuples of them, without its past; what else is carried (drawn weights) stays.

    Training stops at segment borders: without this, the graph of a document would be as long as the document.
    """
    if isinstance(carry, tuple):
        return tuple(detached(part) for part in carry)
    return carry.detach() if isinstance(carry, Tensor) else carry
