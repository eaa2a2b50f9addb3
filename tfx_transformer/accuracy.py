"""How good a classifier is."""

import numpy as np

BINS = 15  # of the calibration error


def classification_scores(probabilities, labels, class_names) -> dict:
    """Top-1 and top-5 accuracy, loss, calibration error and the accuracy of each class.

    Accuracies are in percent, as BLEU is; the loss in nats. The calibration error
    (arXiv:1706.04599) is the mean difference between how sure the model was and how often it was
    right, over bins of like sureness, from 0 to 1.

    Args:
        probabilities: (N, C).
        labels: (N,), whole numbers below C.
        class_names: C of them.
    """
    probabilities, labels = np.asarray(probabilities, "float64"), np.asarray(labels)
    if probabilities.shape != (len(labels), len(class_names)) or not len(labels):
        raise ValueError(
            f"probabilities must be (N, C) with N={len(labels)} labels above zero and "
            f"C={len(class_names)} class names; got {probabilities.shape}"
        )
    own = probabilities[np.arange(len(labels)), labels]
    rank = (probabilities > own[:, None]).sum(axis=1)  # classes that are likelier than the true one
    counts = confusion(probabilities.argmax(axis=1), labels, len(class_names))
    totals = counts.sum(axis=1)
    return {
        "accuracy": 100 * float(np.trace(counts) / len(labels)),
        "top_5": 100 * float((rank < 5).mean()),
        "loss": float(-np.log(np.maximum(own, 1e-12)).mean()),
        "calibration_error": calibration_error(probabilities, labels),
        "images": len(labels),
        "by_class": {
            name: 100 * float(counts[i, i] / totals[i])
            for i, name in enumerate(class_names)
            if totals[i]
        },
    }


def confusion(predictions, labels, num_classes: int) -> np.ndarray:
    """(C, C): how often class i was taken for class j."""
    counts = np.zeros((num_classes, num_classes), "int64")
    np.add.at(counts, (np.asarray(labels), np.asarray(predictions)), 1)
    return counts


def calibration_error(probabilities, labels) -> float:
    sureness, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((sureness * BINS).astype(int), BINS - 1)
    gaps = [
        abs(sureness[bins == b].mean() - is_right[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    return float(np.sum(gaps))
