"""The colour of each class of slots, in every figure: Okabe and Ito's palette, safe for the colour-blind."""

# what is wasted is warm, what is free is pale
COLOURS = {
    "live": "#0072B2",
    "reserved": "#56B4E9",
    "internal": "#D55E00",
    "rounding": "#E69F00",
    "cached": "#009E73",
    "external": "#CC79A7",
    "free": "#E8E8E8",
}
