"""Papers and published parameter counts of each model, for the list of models."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Published:
    """Facts about one model.

    Args:
        papers: numbers on arXiv, or a title.
        options: arguments with which the variants have the published counts.
        counts: parameters of the variants; those that are missing are not published. Where a paper
            has sizes only, the tests derive the count from them.
        variant_options: further arguments of single variants.
    """

    papers: str
    options: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)
    variant_options: dict[str, dict[str, Any]] = field(default_factory=dict)

    def options_of(self, variant: str) -> dict[str, Any]:
        return self.options | self.variant_options.get(variant, {})


CLASSES: dict[str, Any] = {"num_classes": 1000}
PUBLISHED = {
    "attention_cnn": Published("1711.07971, 1805.08318, 1906.05909", {"num_classes": 10}),
    "bert": Published(
        "1810.04805, 1908.08962",
        {"vocab_size": 30_522},
        {
            "tiny": 4_385_920,
            "mini": 11_170_560,
            "small": 28_763_648,
            "medium": 41_373_184,
            "base": 109_482_240,
            "large": 335_141_888,
        },
    ),
    "bytenet": Published(
        "1610.10099", {"vocab_size": 300}, {"wmt": 273_384_300, "wikipedia": 159_244_588}
    ),
    "conv_seq2seq": Published(
        "1705.03122",
        {"vocab_size": 40_000},
        {"wmt_en_ro": 137_040_960, "wmt_en_de": 209_445_952, "wmt_en_fr": 257_965_120},
    ),
    "dalle": Published("2102.12092", {"vocab_size": 16_384}, {"paper": 12_195_294_848}),
    "gpt": Published(
        "GPT-2, 2019",
        {"vocab_size": 50_257},
        {"small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200},
    ),
    "memory_network": Published("1503.08895", {"vocab_size": 177}),
    "mlp_mixer": Published(
        "2105.01601",
        CLASSES,
        {
            "s16": 18_528_264,
            "s32": 19_104_624,
            "b16": 59_880_472,
            "b32": 60_293_428,
            "l16": 208_196_168,
            "l32": 206_939_264,
            "h14": 432_350_952,
        },
    ),
    "pixel_transformer": Published("1802.05751", {"num_classes": 10}),
    "rnn_seq2seq": Published(
        "1409.3215, 1406.1078, 1409.0473, 1508.04025",
        {"vocab_size": 5893, "source_vocab_size": 7853},
        {"sutskever": 13_890_309, "cho": 14_219_781, "bahdanau": 20_518_405},
    ),
    "show_attend_tell": Published("1502.03044, 1411.4555", {"vocab_size": 4000}),
    "swin": Published(
        "2103.14030", CLASSES, {"t": 28_288_354, "s": 49_606_258, "b": 87_768_224, "l": 196_532_476}
    ),
    "transformer": Published(
        "1706.03762", {"vocab_size": 32_000}, {"base": 60_522_496, "big": 209_125_376}
    ),
    "vit": Published(
        "2010.11929, 2012.12877, 2104.05704",
        CLASSES,
        {
            "ti16": 5_717_416,
            "s16": 22_050_664,
            "s32": 22_878_952,
            "b16": 86_567_656,
            "b32": 88_224_232,
            "l16": 304_326_632,
            "h14": 632_045_800,
            "deit_ti16_distilled": 5_910_800,
            "deit_s16_distilled": 22_436_432,
            "deit_b16_distilled": 87_338_192,
            "cct_2_3x2": 283_723,
            "cct_7_3x1": 3_760_139,
        },
        {name: {"num_classes": 10} for name in ("cct_2_3x2", "cct_7_3x1")},
    ),
}
