"""CPU time of the candidates' learners beside the libraries that they follow, one thread each, made-up data, seed 0.

    OMP_NUM_THREADS=1 python benchmarks/learners.py

CRFsuite (`pip install python-crfsuite`) and LightGBM (`pip install lightgbm`) are compared where they are installed.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from plant.candidates.boosting import fit_trees, log_odds
from plant.candidates.chain import Chain, Sequences, best_paths, fit_chain, log_likelihood
from plant.candidates.machines import fit_machines

L1, L2, ITERATIONS, N_TAGS = 0.05, 0.02, 20, 5


def main() -> None:
    print("| learner | CPU s | theirs / ours | how good |\n|---|---|---|---|")
    compare_chains()
    compare_trees()
    compare_machines()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def row(name: str, seconds: float, ours: float, quality: str) -> None:
    print(f"| {name} | {seconds:.2f} | {seconds / ours:.2f} | {quality} |", flush=True)


def tagged(n_tokens: int = 40_000, size: int = 60, n_features: int = 100_000) -> tuple[Sequences, np.ndarray]:
    """Sentences of 20 tokens, features as skewed as words are, tags of a random chain with 5 % of noise."""
    random = np.random.default_rng(0)
    drawn = np.sort(np.minimum((n_features ** random.random((n_tokens, size))).astype(np.int32), n_features - 1), 1)
    first = np.pad(drawn[:, 1:] != drawn[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    row_starts = np.concatenate([[0], np.cumsum(first.sum(1))])
    sequences = Sequences(drawn[first], row_starts, np.append(np.arange(0, n_tokens, 20), n_tokens))
    shapes, factors = ((n_features, N_TAGS), (N_TAGS, N_TAGS), (N_TAGS,), (N_TAGS,)), (0.7, 1.0, 0.0, 0.0)
    truth = Chain(
        *(factor * random.normal(size=shape).astype(np.float32) for shape, factor in zip(shapes, factors, strict=True))
    )
    noise = random.random(n_tokens) < 0.05
    tags = np.where(noise, random.integers(0, N_TAGS, n_tokens), best_paths(truth, sequences))
    return sequences, tags.astype(np.int8)


def compare_chains() -> None:
    sequences, tags = tagged()
    options = {"n_features": 100_000, "n_tags": N_TAGS, "l1": L1, "l2": L2, "threads": 1}
    fit_chain(sequences, tags, iterations=1, **options)
    ours, chain = timed(lambda: fit_chain(sequences, tags, iterations=ITERATIONS, **options))
    parts = (chain.weights, chain.transitions, chain.starts, chain.ends)
    flat = np.concatenate([part.ravel() for part in parts]).astype(np.float64)
    objective = L1 * np.abs(flat).sum() + L2 * flat @ flat - log_likelihood(chain, sequences, tags)
    row("chain", ours, ours, f"objective {objective:.2f}")
    if find_spec("pycrfsuite"):
        trainer = crfsuite_trainer(sequences, tags)
        with TemporaryDirectory() as folder:
            theirs, _ = timed(lambda: trainer.train(str(Path(folder) / "model")))
        row("CRFsuite, all possible states", theirs, ours, f"objective {trainer.logparser.last_iteration['loss']:.2f}")


def crfsuite_trainer(sequences: Sequences, tags: np.ndarray) -> Any:
    """The same problem; features of the first and the last token stand for starts and ends."""
    import pycrfsuite

    params = {"c1": L1, "c2": L2, "max_iterations": ITERATIONS, "feature.possible_transitions": True}
    trainer = pycrfsuite.Trainer(verbose=False, params={**params, "feature.possible_states": True})
    tokens = np.split(sequences.columns.astype(str), sequences.row_starts[1:-1])
    for start, end in zip(sequences.starts[:-1], sequences.starts[1:], strict=True):
        items = [token.tolist() for token in tokens[start:end]]
        items[0].append("first")
        items[-1].append("last")
        trainer.append(items, tags[start:end].astype(str).tolist())
    return trainer


def judged(n_rows: int = 100_000, n_features: int = 51) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, small whole numbers and yes or no, 5 % missing; an interaction, a wave, a condition."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features)).astype(np.float32)
    X[:, 30:] = np.round(X[:, 30:] * 2)
    X[:, 45:] = X[:, 45:] > 1
    logits = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + (X[:, 3] > 0) * X[:, 31] / 2 + 0.3 * X[:, 4] - 1.5
    y = random.random(n_rows) < 1 / (1 + np.exp(-2 * logits))
    X[random.random(X.shape) < 0.05] = np.nan
    return X, y


def compare_trees() -> None:
    X, y = judged()
    fit, rest = slice(0, 80_000), slice(80_000, None)
    log_odds(fit_trees(X[:500], y[:500], rounds=1), X[:5])
    ours, trees = timed(lambda: fit_trees(X[fit], y[fit]))
    row("trees", ours, ours, f"AUC {roc_auc_score(y[rest], log_odds(trees, X[rest])):.4f}")
    if find_spec("lightgbm"):
        theirs, scores = lightgbm_scores(X[fit], y[fit], X[rest])
        row("LightGBM", theirs, ours, f"AUC {roc_auc_score(y[rest], scores):.4f}")
    theirs, model = timed(lambda: HistGradientBoostingClassifier(
        learning_rate=0.06, max_iter=150, max_leaf_nodes=31, min_samples_leaf=30, l2_regularization=3.0,
        max_features=0.6, early_stopping=False, random_state=0).fit(X[fit], y[fit]))  # fmt: skip
    quality = f"AUC {roc_auc_score(y[rest], model.decision_function(X[rest])):.4f}"
    row("scikit-learn's, all rows, features drawn for each split", theirs, ours, quality)


def lightgbm_scores(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> tuple[float, np.ndarray]:
    import lightgbm

    options = {
        "objective": "binary", "num_leaves": 31, "learning_rate": 0.06, "feature_fraction": 0.6,
        "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 3.0, "min_data_in_leaf": 30, "num_threads": 1,
        "verbose": -1,
    }  # fmt: skip
    seconds, model = timed(lambda: lightgbm.train(options, lightgbm.Dataset(X, y), 150))
    return seconds, model.predict(asked, raw_score=True)


def named(
    n_rows: int = 5000, n_features: int = 40_000, n_classes: int = 400
) -> tuple[csr_array, np.ndarray, np.ndarray]:
    """Rows of about 110 features and length 1, of which a third is drawn to those of their class, and weights."""
    random = np.random.default_rng(0)

    def skewed(most: int, *shape: int) -> np.ndarray:
        return np.minimum((most ** random.random(shape)).astype(np.int32), most - 1)

    columns, labels, typical = (
        skewed(n_features, n_rows, 120),
        skewed(n_classes, n_rows),
        skewed(n_features, n_classes, 40),
    )
    columns[:, :40] = np.where(random.random((n_rows, 40)) < 0.6, typical[labels], columns[:, :40])
    values = np.abs(random.normal(size=columns.shape)).astype(np.float32)
    X = csr_array((values.ravel(), columns.ravel(), np.arange(0, columns.size + 1, 120, dtype=np.int32)))
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(1)), np.diff(X.indptr))
    return X, labels, random.random(n_rows).astype(np.float32) + 0.3


def compare_machines() -> None:
    X, labels, weights = named()
    classes = csr_array((np.ones(len(labels), np.float32), (np.arange(len(labels)), labels)))
    fit_machines(X[:50], classes[:50], row_weights=weights[:50])
    ours, machines = timed(lambda: fit_machines(X, classes, row_weights=weights, threads=1))
    row(f"machines, {classes.shape[1]} classes", ours, ours, "")
    some = np.arange(1, classes.shape[1], 20)
    theirs, models = timed(lambda: [
        LinearSVC(C=2.0, tol=0.01, random_state=0).fit(X, labels == label, sample_weight=weights) for label in some
    ])  # fmt: skip
    difference = max(
        np.abs(model.coef_[0] - machines.weights[label]).max() for model, label in zip(models, some, strict=True)
    )
    seconds = theirs * classes.shape[1] / len(some)
    row(f"LIBLINEAR, from {len(some)} of the classes", seconds, ours, f"weights differ by at most {difference:.4f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
