"""Kernels of sparse planting: what the listed words of a note say for the labels that list them, and the gradients.

Cost goes by pairs of a label and a listed word in the note. What belongs to a document is written by one thread, what
belongs to a label by one thread that takes the documents in order: the bits depend neither on the number of threads
nor, for logits, on the rest of the batch. All take plain arrays: named tuples of them are slow to hand from one
compiled function to the next. `plant.nn.planting.listed_step` calls them; the plain form is
`plant.nn.planting.listed_torch`.

Places, rows, pairs and found labels are those of `plant.nn.planting.listed_notes`. Arrays [source, ...] have the static
source first, then the planted one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from plant.nn.planting.prefetch import fetch_row

Kernel = Callable[..., Any]
_LIKE_NUMPY: Any = {"cache": True, "nogil": True, "error_model": "numpy"}  # divisors are above zero
kernel: Callable[[Kernel], Kernel] = njit(**_LIKE_NUMPY)
adding: Callable[[Kernel], Kernel] = njit(**_LIKE_NUMPY, fastmath={"contract"})
summing: Callable[[Kernel], Kernel] = njit(**_LIKE_NUMPY, fastmath={"contract", "reassoc", "nsz"})

STATIC, PLANTED = 0, 1
NO_RANKER, BILINEAR, TWO_LAYER = 0, 1, 2
_BLOCK = 512  # labels whose gradients stay near while all documents add to them
_NEAR = 1 << 22  # bytes of rows that caches hold anyway: asking for them ahead costs more than it saves


@kernel
def focus_static(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    k, normalised, values, scores, kept, shares,
):  # fmt: skip
    """Shares of the relevance that survives, for found labels `begin` to `end`."""
    for n in range(begin, end):
        first = np.int64(firsts[n])
        while first < lasts[n]:
            last = _segment_end(first, lasts[n], segments, places)
            total = scores.dtype.type(0)
            for pair in range(first, last):
                scores[pair] = values[entries[pair]]
            _keep(first, last, k, rows, positions, places, scores, kept)
            for pair in range(first, last):
                total += kept[pair] * scores[pair]
            for pair in range(first, last):
                shares[pair] = scores[pair] / total if normalised else scores[pair]
            first = last


@kernel
def focus_planted(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    k, known, form, token_rows, token_vectors, shift, label_vectors, output, scores, kept, shares,
):  # fmt: skip
    """A softmax of the ranker's scores that survive, for found labels `begin` to `end`.

    `known` are scores by entry, NaN where nobody asked yet; empty where they are not kept. What a label adds to the
    scores of all words cancels in the softmax and is left out. Of a word alone the score does not matter.
    """
    for n in range(begin, end):
        first = np.int64(firsts[n])
        while first < lasts[n]:
            last = _segment_end(first, lasts[n], segments, places)
            for pair in range(first, last if last - first > 1 else first):
                entry = entries[pair]
                if len(known) and not np.isnan(known[entry]):
                    scores[pair] = known[entry]
                else:
                    row = token_rows[places[pair]]
                    if form == BILINEAR:
                        scores[pair] = shift[row] + _dot(token_vectors, row, label_vectors, labels[n])
                    else:
                        scores[pair] = _two_layer(token_vectors, row, label_vectors, labels[n], output)
                    if len(known):
                        known[entry] = scores[pair]
            _keep(first, last, k, rows, positions, places, scores, kept)
            _softmax(first, last, scores, kept, shares)
            first = last


@kernel
def _segment_end(first, last, segments, places):  # type: ignore[no-untyped-def]
    segment, end = segments[places[first]], first + 1
    while end < last and segments[places[end]] == segment:
        end += 1
    return end


@kernel
def _softmax(first, last, scores, kept, shares):  # type: ignore[no-untyped-def]
    if last - first == 1:
        shares[first] = scores.dtype.type(1) / kept[first]
        return
    highest, total = scores[first], scores.dtype.type(0)
    for pair in range(first + 1, last):
        highest = max(highest, scores[pair])
    for pair in range(first, last):
        raised = np.exp(scores[pair] - highest) if kept[pair] > 0 else scores.dtype.type(0)
        shares[pair] = raised
        total += kept[pair] * raised
    for pair in range(first, last):
        shares[pair] /= total


@kernel
def _keep(first, last, k, rows, positions, places, scores, kept):  # type: ignore[no-untyped-def]
    """How many positions of each pair are among the k best of a segment; of equal scores, those that stand first."""
    total = 0
    for pair in range(first, last):
        kept[pair] = rows[places[pair] + 1] - rows[places[pair]]
        total += kept[pair]
    bound, left = scores.dtype.type(np.inf), k if total > k else 0
    while left > 0:
        best, room = _next_best(first, last, scores, kept, bound)
        if room == 0:  # scores that are no numbers
            return
        if room > left:
            _keep_first(first, last, left, rows, positions, places, scores, kept, best)
        left -= min(room, left)
        bound = best
    for pair in range(first, last if total > k else first):
        if scores[pair] < bound:
            kept[pair] = 0


@kernel
def _next_best(first, last, scores, kept, bound):  # type: ignore[no-untyped-def]
    """The best score below a bound, and how many positions have it."""
    best, room = scores.dtype.type(-np.inf), 0
    for pair in range(first, last):
        if scores[pair] == best:
            room += kept[pair]
        elif best < scores[pair] < bound:
            best, room = scores[pair], kept[pair]
    return best, room


@kernel
def _keep_first(first, last, left, rows, positions, places, scores, kept, score):  # type: ignore[no-untyped-def]
    """Of the pairs of one score keep the `left` positions that stand first."""
    for pair in range(first, last):
        if scores[pair] == score:
            kept[pair] = 0
    for _ in range(left):
        earliest, at = -1, -1
        for pair in range(first, last):
            row = rows[places[pair]] + kept[pair]
            if scores[pair] == score and row < rows[places[pair] + 1] and (earliest < 0 or positions[row] < at):
                earliest, at = pair, positions[row]
        kept[earliest] += 1


@kernel
def spread(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    kept, shares, columns, weights,
):  # fmt: skip
    """Write the shares of found labels `begin` to `end` into `weights` [column of the label, position]."""
    for n in range(begin, end):
        for pair in range(firsts[n], lasts[n]):
            for row in range(rows[places[pair]], rows[places[pair]] + kept[pair]):
                weights[columns[labels[n]], positions[row]] = shares[pair]


@kernel
def spread_asked(  # type: ignore[no-untyped-def]
    asked, segments, rows, positions, labels, firsts, lasts, places, entries,
    kept, shares, scales, start, weights,
):  # fmt: skip
    """Add the scaled shares of both sources to `weights` [asked, position from `start`] for found labels; -1: none."""
    for column in range(len(asked)):
        n = asked[column]
        for pair in range(firsts[n], lasts[n] if n >= 0 else firsts[n]):
            for source in range(2):
                share = scales[source] * shares[source, pair]
                for row in range(rows[places[pair]], rows[places[pair]] + kept[source, pair]):
                    weights[column, positions[row] - start] += share


@kernel
def number_sums(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries, first, last, kept, slots, at
):
    """Give a number to the sum of states up to each row at which a label stops, and write the numbers into `at`.

    `at` is [source, pair], -1 where nothing survives; `slots` is [row], -1 where no sum is needed. Numbers count from
    the first row of the document, whose places are `first` to `last`; the answer is the first number that is left.
    """
    slots[rows[first] : rows[last]] = -1
    for n in range(begin, end):
        for pair in range(firsts[n], lasts[n]):
            for source in range(2):
                at[source, pair] = rows[places[pair]] - 1 + kept[source, pair] if kept[source, pair] > 0 else -1
                if at[source, pair] >= 0:
                    slots[at[source, pair]] = 0
    number = rows[first]
    for row in range(rows[first], rows[last]):
        if slots[row] == 0:
            slots[row] = number
            number += 1
    for n in range(begin, end):
        for pair in range(firsts[n], lasts[n]):
            for source in range(2):
                if at[source, pair] >= 0:
                    at[source, pair] = slots[at[source, pair]]
    return number


@kernel
def add_up(first, last, segments, rows, positions, slots, states, sums):  # type: ignore[no-untyped-def]
    """Sums of the states of each of the places `first` to `last` up to the rows that have a number."""
    running = np.empty((1, sums.shape[1]), sums.dtype)
    for place in range(first, last):
        _copy(running, 0, states, positions[rows[place]])
        for row in range(rows[place], rows[place + 1]):
            if row > rows[place]:
                _add(running, 0, running.dtype.type(1), states, positions[row])
            if slots[row] >= 0:
                _copy(sums, slots[row], running, 0)


@kernel
def add_evidence(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    at, shares, sums, weights, scales, dots, evidence,
):  # fmt: skip
    """Add the evidence of a document for its found labels `begin` to `end` to `evidence` [label]."""
    far = weights.nbytes > _NEAR
    for n in range(begin, end):
        if far:
            _fetch_next(n + 1, end, labels, firsts, lasts, at, sums, weights, sums[:0])
        static, planted = _look(labels[n], firsts[n], lasts[n], at, shares, sums, weights, dots)
        evidence[labels[n]] += scales[STATIC] * static + scales[PLANTED] * planted


@kernel
def learn_loss(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    at, shares, sums, weights, scales, dots, bias, quiet, targets, n_terms, slopes, of_scales, of_sums,
):  # fmt: skip
    """The sum of a document's cross-entropy, and the gradients of it divided by `n_terms`.

    `quiet` is the cross-entropy of a label that nothing speaks for and that is not there.
    """
    total, far = _quiet_loss(labels[begin:end], bias, quiet, targets), weights.nbytes > _NEAR
    for n in range(begin, end):
        if far:
            _fetch_next(n + 1, end, labels, firsts, lasts, at, sums, weights, of_sums)
        static, planted = _look(labels[n], firsts[n], lasts[n], at, shares, sums, weights, dots)
        logit = bias[labels[n]] + scales[STATIC] * static + scales[PLANTED] * planted
        small, target = np.exp(-abs(logit)), targets[labels[n]]
        total += max(logit, 0) + np.log1p(small) - target * logit
        slopes[n] = ((1 if logit > 0 else small) / (1 + small) - target) / n_terms
        of_scales[STATIC] += slopes[n] * static
        of_scales[PLANTED] += slopes[n] * planted
        _push(slopes[n], labels[n], firsts[n], lasts[n], at, shares, scales, weights, of_sums)
    return total


@kernel
def learn_slopes(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    at, shares, sums, weights, scales, dots, given, slopes, of_scales, of_sums,
):  # fmt: skip
    """The gradients of a document's evidence times `given` slopes [label]."""
    for n in range(begin, end):
        slopes[n] = given[labels[n]]
        if slopes[n] != 0:  # who explains one label pays for one label
            static, planted = _look(labels[n], firsts[n], lasts[n], at, shares, sums, weights, dots)
            of_scales[STATIC] += slopes[n] * static
            of_scales[PLANTED] += slopes[n] * planted
            _push(slopes[n], labels[n], firsts[n], lasts[n], at, shares, scales, weights, of_sums)


@kernel
def _fetch_next(n, end, labels, firsts, lasts, at, sums, weights, of_sums):  # type: ignore[no-untyped-def]
    """Ask for what the next label reads and adds to: its rows are far from those at hand."""
    if n < end:
        fetch_row(weights, labels[n])
        _fetch_sums(firsts[n], lasts[n], at, sums)
        if len(of_sums):
            _fetch_sums(firsts[n], lasts[n], at, of_sums)


@kernel
def _fetch_sums(first, last, at, sums):  # type: ignore[no-untyped-def]
    for pair in range(first, last):
        if at[PLANTED, pair] >= 0:
            fetch_row(sums, at[PLANTED, pair])


@kernel
def _look(label, first, last, at, shares, sums, weights, dots):  # type: ignore[no-untyped-def]
    """The evidence of each source for a label; products of its planted positions stay in `dots` [pair]."""
    static = planted = dots.dtype.type(0)
    for pair in range(first, last):
        of_static, of_planted = at[STATIC, pair], at[PLANTED, pair]
        dots[pair] = _dot(sums, of_planted, weights, label) if of_planted >= 0 else dots.dtype.type(0)
        planted += shares[PLANTED, pair] * dots[pair]
        if of_static == of_planted:
            static += shares[STATIC, pair] * dots[pair]
        elif of_static >= 0:
            static += shares[STATIC, pair] * _dot(sums, of_static, weights, label)
    return static, planted


@kernel
def _push(slope, label, first, last, at, shares, scales, weights, of_sums):  # type: ignore[no-untyped-def]
    """Add the gradients of the sums that a label looked at; `of_sums` is empty where nobody asks for them."""
    for pair in range(first, last if len(of_sums) else first):
        static, planted = slope * scales[STATIC] * shares[STATIC, pair], slope * scales[PLANTED] * shares[PLANTED, pair]
        if at[STATIC, pair] == at[PLANTED, pair]:
            planted += static
        elif at[STATIC, pair] >= 0:
            _add(of_sums, at[STATIC, pair], static, weights, label)
        if at[PLANTED, pair] >= 0:
            _add(of_sums, at[PLANTED, pair], planted, weights, label)


@kernel
def _quiet_loss(labels, bias, quiet, targets):  # type: ignore[no-untyped-def]
    """The cross-entropy of all labels but these."""
    total, n = 0.0, 0
    for label in range(len(bias)):
        if n < len(labels) and labels[n] == label:
            n += 1
        else:
            total += quiet[label] - targets[label] * bias[label]
    return total


@kernel
def take_apart(first, last, segments, rows, positions, factor, slots, of_sums, of_states):  # type: ignore[no-untyped-def]
    """From gradients of the sums of places `first` to `last` to those of states: a state is in all later sums too."""
    running = np.empty((1, of_sums.shape[1]), of_sums.dtype)
    for place in range(first, last):
        running[0] = 0
        for row in range(rows[place + 1] - 1, rows[place] - 1, -1):
            if slots[row] >= 0:
                _add(running, 0, running.dtype.type(factor), of_sums, slots[row])
            _copy(of_states, positions[row], running, 0)


@kernel
def teach_scores(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    scale, kept, shares, slopes, dots,
):  # fmt: skip
    """Turn `dots` into the gradients of the ranker's scores, for found labels `begin` to `end`."""
    for n in range(begin, end):
        first = np.int64(firsts[n])
        while first < lasts[n]:
            last = _segment_end(first, lasts[n], segments, places)
            total = dots.dtype.type(0)
            for pair in range(first, last if slopes[n] != 0 else first):
                total += shares[PLANTED, pair] * dots[pair]
            for pair in range(first, last):
                if last - first == 1 or slopes[n] == 0:
                    dots[pair] = 0  # the weight of a word alone is the same whatever its score
                else:
                    step = slopes[n] * scale * shares[PLANTED, pair]
                    dots[pair] = step * (dots[pair] - kept[PLANTED, pair] * total)
            first = last


@kernel
def teach_tokens(  # type: ignore[no-untyped-def]
    begin, end, segments, rows, positions, labels, firsts, lasts, places, entries,
    by_score, form, token_rows, token_vectors, shift, label_vectors, output, of_places, of_shift, of_output,
):  # fmt: skip
    """Add what a document's found labels `begin` to `end` ask of its words [place] and of the output layer [size]."""
    for n in range(begin, end):
        for pair in range(firsts[n], lasts[n]):
            step, place = by_score[pair], places[pair]
            if step != 0 and form == BILINEAR:
                of_shift[place] += step
                _add(of_places, place, step, label_vectors, labels[n])
            elif step != 0:
                row = token_rows[place]
                _add_half(of_places, place, step, token_vectors, row, label_vectors, labels[n], output)
                _add_output(of_output, step, token_vectors, row, label_vectors, labels[n])


@kernel
def teach_weights(  # type: ignore[no-untyped-def]
    first, last, cursor, ends, factor, segments, rows, positions, labels, firsts, lasts, places, entries,
    at, shares, slopes, scales, sums, of_weights,
):  # fmt: skip
    """Write the gradients of the weights of labels `first` to `last`, times a factor; most rows may be zero.

    `cursor` and `ends` are, per document, the found label that is the first of these and that behind the last of all.
    """
    far = of_weights.nbytes > _NEAR
    for begin in range(first, last, _BLOCK):
        end = min(begin + _BLOCK, last)
        of_weights[begin:end] = 0
        for document in range(len(cursor)):
            n, stop = cursor[document], ends[document]
            while n < stop and labels[n] < end:
                slope = of_weights.dtype.type(factor * slopes[n])
                if far and n + 1 < stop:
                    _fetch_sums(firsts[n + 1], lasts[n + 1], at, sums)
                for pair in range(firsts[n], lasts[n] if slope != 0 else firsts[n]):
                    static = slope * scales[STATIC] * shares[STATIC, pair]
                    planted = slope * scales[PLANTED] * shares[PLANTED, pair]
                    if at[STATIC, pair] == at[PLANTED, pair]:
                        planted += static
                    elif at[STATIC, pair] >= 0:
                        _add(of_weights, labels[n], static, sums, at[STATIC, pair])
                    if at[PLANTED, pair] >= 0:
                        _add(of_weights, labels[n], planted, sums, at[PLANTED, pair])
                n += 1
            cursor[document] = n


@kernel
def teach_labels(  # type: ignore[no-untyped-def]
    first, last, cursor, ends, factor, segments, rows, positions, labels, firsts, lasts, places, entries,
    by_score, form, token_rows, token_vectors, shift, label_vectors, output, of_labels,
):  # fmt: skip
    """Write the gradients of the ranker's rows of labels `first` to `last`, times a factor."""
    for begin in range(first, last, _BLOCK):
        end = min(begin + _BLOCK, last)
        of_labels[begin:end] = 0
        for document in range(len(cursor)):
            n, stop = cursor[document], ends[document]
            while n < stop and labels[n] < end:
                for pair in range(firsts[n], lasts[n]):
                    step, row = of_labels.dtype.type(factor * by_score[pair]), token_rows[places[pair]]
                    if step != 0 and form == BILINEAR:
                        _add(of_labels, labels[n], step, token_vectors, row)
                    elif step != 0:
                        _add_half(of_labels, labels[n], step, token_vectors, row, label_vectors, labels[n], output)
                n += 1
            cursor[document] = n


@kernel
def teach_bias(first, last, cursor, ends, factor, labels, slopes, absent, targets, of_bias):  # type: ignore[no-untyped-def]
    """Write the gradients of the bias of labels `first` to `last`; `absent` is the sigmoid of the bias."""
    of_bias[first:last] = 0
    scale = factor / (targets.shape[0] * targets.shape[1])
    for document in range(len(cursor)):
        n, stop = cursor[document], ends[document]
        for label in range(first, last):
            if n < stop and labels[n] == label:
                of_bias[label] += factor * slopes[n]
                n += 1
            else:
                of_bias[label] += scale * (absent[label] - targets[document, label])


@kernel
def teach_vocabulary(first, last, factor, tokens, of_places, of_shifts, of_tokens, of_shift):  # type: ignore[no-untyped-def]
    """Write the gradients of tokens `first` to `last`, times a factor, from those of their places."""
    of_tokens[first:last] = 0
    of_shift[first:last] = 0
    for place in range(len(tokens)):
        token = tokens[place]
        if first <= token < last:
            of_shift[token] += factor * of_shifts[place]
            for column in range(of_tokens.shape[1]):
                of_tokens[token, column] += factor * of_places[place, column]


@kernel
def _copy(into, row, other, other_row):  # type: ignore[no-untyped-def]
    for column in range(into.shape[1]):
        into[row, column] = other[other_row, column]


@summing
def _dot(left, row, right, other):  # type: ignore[no-untyped-def]
    total = left.dtype.type(0)
    for column in range(left.shape[1]):
        total += left[row, column] * right[other, column]
    return total


@adding
def _add(into, row, step, other, other_row):  # type: ignore[no-untyped-def]
    for column in range(into.shape[1]):
        into[row, column] += step * other[other_row, column]


@summing
def _two_layer(tokens, row, labels, label, output):  # type: ignore[no-untyped-def]
    zero = output.dtype.type(0)
    total = zero
    for unit in range(len(output)):
        total += output[unit] * max(labels[label, unit] + tokens[row, unit], zero)
    return total


@adding
def _add_half(into, into_row, step, tokens, row, labels, label, output):  # type: ignore[no-untyped-def]
    """Add the gradient of either half of the first layer."""
    zero = output.dtype.type(0)
    for unit in range(len(output)):
        into[into_row, unit] += (step if labels[label, unit] + tokens[row, unit] > zero else zero) * output[unit]


@adding
def _add_output(into, step, tokens, row, labels, label):  # type: ignore[no-untyped-def]
    zero = into.dtype.type(0)
    for unit in range(len(into)):
        into[unit] += step * max(labels[label, unit] + tokens[row, unit], zero)
