"""Metrics of translations and captions: BLEU with its signature, chrF; perplexity."""

import functools
import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import sacrebleu


def translation_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Corpus scores of translations, each with one reference.

    "bleu" is sacreBLEU's default (13a, cased), described by "signature"; "bleu_tokenized" is
    lower-cased, on Moses tokens, as in papers on Multi30k; "exact_match" is the percentage of
    translations that equal their reference.
    """
    check_counts(hypotheses, references)
    metric, tokenized = sacrebleu.BLEU(), sacrebleu.BLEU(tokenize="none", force=True)
    bleu = metric.corpus_score(hypotheses, [references])
    hypothesis_tokens, reference_tokens = map(tokenize, hypotheses), map(tokenize, references)
    return {
        "bleu": bleu.score,
        "signature": str(metric.get_signature()),
        "bleu_tokenized": tokenized.corpus_score(
            list(hypothesis_tokens), [list(reference_tokens)]
        ).score,
        "chrf": sacrebleu.CHRF().corpus_score(hypotheses, [references]).score,
        "exact_match": 100 * sum(map(str.__eq__, hypotheses, references)) / len(references),
        "length_ratio": bleu.sys_len / max(bleu.ref_len, 1),
    }


def caption_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Corpus scores of captions, each with all references of its image.

    "bleu_1" … "bleu_4" are on lower-case words, as in papers on captions; "chrf" is not.
    """
    check_counts(hypotheses, references)
    for index, texts in enumerate(references):
        if not texts:
            raise ValueError(f"each image needs at least one reference; image {index} has none")
    hypothesis_words = [words(text) for text in hypotheses]
    reference_words = [list(map(words, texts)) for texts in references]

    def columns(rows):  # sacreBLEU wants the first reference of all, the second of all, …, or None
        return [list(column) for column in zip_longest(*rows)]

    scores = {}
    for order in range(1, 5):
        metric = sacrebleu.BLEU(max_ngram_order=order, tokenize="none", force=True)
        bleu = metric.corpus_score(hypothesis_words, columns(reference_words))
        scores[f"bleu_{order}"] = bleu.score
    scores["chrf"] = sacrebleu.CHRF().corpus_score(hypotheses, columns(references)).score
    return scores


def check_counts(hypotheses: Sequence, references: Sequence) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(
            f"each sentence needs its reference; got {len(hypotheses)} and {len(references)}"
        )
    if not references:
        raise ValueError("at least one sentence must be scored; got no sentences")


def words(text: str) -> str:
    """Lower-case Moses tokens without punctuation, joined by spaces."""
    return " ".join(token for token in tokenize(text).split() if any(map(str.isalnum, token)))


def tokenize(text: str) -> str:
    """Lower-case Moses tokens, punctuation separated, joined by spaces."""
    normalizer, tokenizer = moses()
    return tokenizer.tokenize(normalizer.normalize(text), return_str=True, escape=False).lower()


@functools.cache
def moses():
    """Moses' normalizer of punctuation and its tokenizer; the import takes half a second."""
    import sacremoses

    # no language: gives the 12,103 tokens that papers report for Multi30k's German test set
    return sacremoses.MosesPunctNormalizer(lang="any"), sacremoses.MosesTokenizer(lang="any")


def perplexity(log_prob: float, num_tokens: float) -> float:
    """exp of the mean negative log-probability of a token."""
    return math.exp(min(-log_prob / max(num_tokens, 1), 700))
