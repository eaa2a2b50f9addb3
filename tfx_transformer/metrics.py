"""How good translations are: sacreBLEU with its signature, chrF, and lower-cased tokenised BLEU."""

import math
from collections.abc import Sequence

import sacrebleu


def translation_scores(
    hypotheses: Sequence[str], references: Sequence[str]
) -> dict[str, float | str]:
    """Corpus scores of one translation and one reference for each sentence.

    "bleu" is sacreBLEU's default (13a, cased) and can be compared by its "signature"; "bleu_lower"
    is lower-cased, for comparison with papers that report it on tokenised lower-case text.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"each translation needs its reference; got {len(hypotheses)} and {len(references)}"
        )
    if not references:
        raise ValueError("there is nothing to score: got no sentences")
    metric, lower = sacrebleu.BLEU(), sacrebleu.BLEU(lowercase=True)
    bleu = metric.corpus_score(hypotheses, [references])
    return {
        "bleu": bleu.score,
        "signature": str(metric.get_signature()),
        "bleu_lower": lower.corpus_score(hypotheses, [references]).score,
        "chrf": sacrebleu.CHRF().corpus_score(hypotheses, [references]).score,
        "length_ratio": bleu.sys_len / max(bleu.ref_len, 1),
    }


def perplexity(log_prob: float, num_tokens: float) -> float:
    """e to the mean negative log-probability of a token."""
    return math.exp(min(-log_prob / max(num_tokens, 1), 700))
