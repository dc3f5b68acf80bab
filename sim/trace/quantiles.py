"""Published length distributions, as knots of their inverse cumulative curve.

ShareGPT and Alpaca: read off the histograms of Figure 11 of Kwon et al., SOSP 2023 (arXiv 2309.06180). The
knots' means are 164.9 / 340.5 and 20.6 / 61.5 tokens, 1 to 7 % above the 161.31 / 337.99 and 19.31 / 58.45
that the figure prints.

Azure: quantiles of AzureLLMInferenceTrace_conv.csv and _code.csv, 2023 (Azure/AzurePublicDataset,
CC-BY-4.0), rounded to whole tokens; a test computes them again. Means are within 4 % of the files'.
"""

from sim.trace.lengths import Knots, Quantiles


def _knots(probabilities: tuple[float, ...], tokens: tuple[int, ...]) -> Knots:
    return tuple(zip(probabilities, tokens, strict=True))


_PAPER = (0, 0.05, 0.10, 0.25, 0.40, 0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.97, 0.99, 0.995, 1)

SHAREGPT = Quantiles(
    prompt=_knots(_PAPER, (1, 4, 7, 15, 27, 36, 56, 94, 133, 203, 325, 508, 864, 1090, 1465, 1641, 2028)),
    output=_knots(
        _PAPER, (1, 21, 45, 128, 216, 271, 330, 404, 458, 525, 619, 754, 900, 1040, 1279, 1444, 2009)
    ),
)
ALPACA = Quantiles(
    prompt=_knots(_PAPER, (6, 10, 11, 13, 15, 16, 18, 20, 22, 24, 26, 31, 40, 48, 74, 92, 508)),
    output=_knots(_PAPER, (1, 4, 6, 15, 27, 43, 60, 78, 87, 97, 109, 125, 159, 192, 269, 320, 1470)),
)

AZURE_PROBABILITIES = (
    0, 0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99,
    0.995, 0.999, 1,
)  # fmt: skip

AZURE_CONV = Quantiles(
    prompt=_knots(AZURE_PROBABILITIES, (
        2, 29, 181, 207, 387, 396, 403, 703, 1020, 1071, 1130, 1189, 1315, 1876, 2734, 4083, 4090, 4098, 4142,
        4831, 6179, 14050,
    )),
    output=_knots(AZURE_PROBABILITIES, (
        7, 16, 41, 54, 77, 85, 91, 103, 129, 177, 384, 395, 400, 411, 424, 451, 509, 540, 601, 643, 954, 1000,
    )),
)  # fmt: skip
AZURE_CODE = Quantiles(
    prompt=_knots(AZURE_PROBABILITIES, (
        3, 17, 75, 147, 386, 578, 770, 1075, 1469, 1909, 2433, 2744, 3192, 3920, 5188, 7303, 7435, 7436, 7436,
        7436, 7437, 7437,
    )),
    output=_knots(AZURE_PROBABILITIES, (
        6, 6, 6, 7, 8, 9, 9, 11, 13, 16, 20, 24, 29, 39, 55, 90, 128, 171, 251, 359, 825, 1899,
    )),
)  # fmt: skip

LENGTHS = {"sharegpt": SHAREGPT, "alpaca": ALPACA, "azure-conv": AZURE_CONV, "azure-code": AZURE_CODE}
