"""How good translations and captions are: sacreBLEU with its signature, chrF, tokenised BLEU."""

import math
from collections.abc import Sequence
from typing import Any

import sacrebleu
import sacremoses

# of no language: with it Multi30k's German test set has the 12,103 tokens that papers count
MOSES = sacremoses.MosesTokenizer(lang="any")
NORMALISE = sacremoses.MosesPunctNormalizer(lang="any")


def translation_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Corpus scores of one translation and one reference for each sentence.

    "bleu" is sacreBLEU's default (13a, cased) and can be compared by its "signature";
    "bleu_tokenised" is lower-cased, on tokens of Moses, as papers on Multi30k report it.
    """
    check_counts(hypotheses, references)
    metric, tokenised = sacrebleu.BLEU(), sacrebleu.BLEU(tokenize="none", force=True)
    bleu = metric.corpus_score(hypotheses, [references])
    hypothesis_tokens, reference_tokens = map(tokenise, hypotheses), map(tokenise, references)
    return {
        "bleu": bleu.score,
        "signature": str(metric.get_signature()),
        "bleu_tokenised": tokenised.corpus_score(
            list(hypothesis_tokens), [list(reference_tokens)]
        ).score,
        "chrf": sacrebleu.CHRF().corpus_score(hypotheses, [references]).score,
        "length_ratio": bleu.sys_len / max(bleu.ref_len, 1),
    }


def caption_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Corpus scores of one caption each against all references of its picture.

    "bleu_1" … "bleu_4" are on lower-case words, as papers on captions report them; "chrf" is not.
    """
    check_counts(hypotheses, references)
    for place, own in enumerate(references):
        if not own:
            raise ValueError(f"each picture needs a reference or more; picture {place} has none")
    said, known = [words(text) for text in hypotheses], [[*map(words, own)] for own in references]
    most = max(map(len, references))

    def columns(texts):  # sacreBLEU wants the first of all, the second of all …; None for no more
        return [[own[i] if i < len(own) else None for own in texts] for i in range(most)]

    scores = {}
    for order in range(1, 5):
        metric = sacrebleu.BLEU(max_ngram_order=order, tokenize="none", force=True)
        scores[f"bleu_{order}"] = metric.corpus_score(said, columns(known)).score
    scores["chrf"] = sacrebleu.CHRF().corpus_score(hypotheses, columns(references)).score
    return scores


def check_counts(hypotheses: Sequence, references: Sequence) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(
            f"each sentence needs its reference; got {len(hypotheses)} and {len(references)}"
        )
    if not references:
        raise ValueError("there is nothing to score: got no sentences")


def words(text: str) -> str:
    """Lower-case tokens without punctuation."""
    return " ".join(token for token in tokenise(text).split() if any(map(str.isalnum, token)))


def tokenise(text: str) -> str:
    """Lower-case tokens, punctuation apart, with spaces between them."""
    return MOSES.tokenize(NORMALISE.normalize(text), return_str=True, escape=False).lower()


def perplexity(log_prob: float, num_tokens: float) -> float:
    """e to the mean negative log-probability of a token."""
    return math.exp(min(-log_prob / max(num_tokens, 1), 700))
