"""Classification metrics: accuracy, loss, calibration error, confusion matrix."""

import numpy as np

BINS = 15  # of the calibration error


def classification_scores(probabilities, labels, class_names) -> dict:
    """Top-1 and top-5 accuracy, loss, calibration error and the accuracy of each class.

    Of probabilities (N, C) and labels (N,), for the names of the C classes. Accuracies are in
    percent, the loss in nats. The calibration error (arXiv:1706.04599) is the mean difference, 0 to
    1, between confidence and accuracy over bins of similar confidence.
    """
    probabilities, labels = np.asarray(probabilities, "float64"), np.asarray(labels)
    if probabilities.shape != (len(labels), len(class_names)) or not len(labels):
        raise ValueError(
            f"probabilities must be (N, C) with N={len(labels)} labels above zero and "
            f"C={len(class_names)} class names; got {probabilities.shape}"
        )
    true = probabilities[np.arange(len(labels)), labels]
    rank = (probabilities > true[:, None]).sum(axis=1)  # number of more likely classes
    counts = confusion_matrix(probabilities.argmax(axis=1), labels, len(class_names))
    totals = counts.sum(axis=1)
    return {
        "accuracy": 100 * float(np.trace(counts) / len(labels)),
        "top_5": 100 * float((rank < 5).mean()),
        "loss": float(-np.log(np.maximum(true, 1e-12)).mean()),
        "calibration_error": calibration_error(probabilities, labels),
        "images": len(labels),
        "by_class": {
            name: 100 * float(counts[i, i] / totals[i])
            for i, name in enumerate(class_names)
            if totals[i]
        },
    }


def confusion_matrix(predictions, labels, num_classes: int) -> np.ndarray:
    """(C, C): how often class i was predicted as class j."""
    counts = np.zeros((num_classes, num_classes), "int64")
    np.add.at(counts, (np.asarray(labels), np.asarray(predictions)), 1)
    return counts


def calibration_error(probabilities, labels) -> float:
    """Expected calibration error, 0 to 1, of probabilities (N, C) and labels (N,)."""
    confidence, is_correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [
        abs(confidence[bins == b].mean() - is_correct[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    return float(np.sum(gaps))
