"""8-bit codes as numbers and back, and bfloat16, by their bits.

Not every GPU converts float8 itself (NVIDIA before sm_89 has no e4m3, AMD's gfx942 means another format by
it), and Triton's interpreter rounds and wraps differently from torch. Integer arithmetic is the same on all.

    e4m3  sign, 4 bits of exponent that count from 7, 3 of mantissa; 0x7F is NaN, there is no infinity
    e5m2  sign, 5 bits of exponent that count from 15, 2 of mantissa: the upper half of a float16
"""

# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

ROUND = tl.constexpr(12582912.0)  # 1.5 * 2**23: a float32 this large has no fraction


@triton.jit
def nearest(x):
    """float32 |x| < 2**22 to the nearest whole number, ties to even: the addition rounds."""
    return (x + ROUND) - ROUND


@triton.jit
def held(x, largest: tl.constexpr):
    """x within +-largest; NaN stays NaN."""
    return tl.clamp(x, -largest, largest, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def encode_int8(x):
    """float32 to int8, -127 to 127: -128 marks a slot that was never written."""
    return nearest(held(x, 127.0)).to(tl.int32).to(tl.int8)


@triton.jit
def encode_float8(x, MANTISSA: tl.constexpr, BIAS: tl.constexpr, LARGEST: tl.constexpr, NAN: tl.constexpr):
    """float32 to float8 codes (uint8), to the nearest, ties to even, held within +-LARGEST."""
    bits = held(x, LARGEST).to(tl.uint32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    DROP: tl.constexpr = 23 - MANTISSA
    # adding just under half of the last place kept, and its own last bit, carries where rounding goes up
    rounded = (magnitude + ((1 << (DROP - 1)) - 1) + ((magnitude >> DROP) & 1)) >> DROP
    normal = rounded - ((127 - BIAS) << MANTISSA)
    # below the smallest normal number, codes count steps of 2**(1 - BIAS - MANTISSA)
    STEPS: tl.constexpr = 2.0 ** (BIAS + MANTISSA - 1)
    SMALLEST: tl.constexpr = (127 + 1 - BIAS) << 23
    is_small = magnitude < SMALLEST
    small = tl.where(is_small, magnitude, 0).to(tl.float32, bitcast=True) * STEPS
    code = tl.where(is_small, nearest(small).to(tl.uint32), normal)
    code = tl.where(magnitude > 0x7F800000, NAN, code)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def encode_code(x, ENCODE: tl.constexpr):
    """float32 to the 8-bit codes of that name."""
    if ENCODE == "int8":
        code = encode_int8(x)
    elif ENCODE == "e4m3":
        code = encode_float8(x, 3, 7, 448.0, 0x7F)
    else:
        code = encode_float8(x, 2, 15, 57344.0, 0x7F)
    return code


@triton.jit
def encode_bfloat16(x):
    """float32 to the bits of the nearest bfloat16 (int16), ties to even."""
    bits = x.to(tl.uint32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return tl.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC0, rounded).to(tl.int16)


@triton.jit
def decode_e4m3(codes):
    """uint8 to float16, exactly: as the bits of a float16, a code reads 256 times too small."""
    wide = codes.to(tl.uint16)
    bits = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
    number = bits.to(tl.float16, bitcast=True) * 256.0
    return tl.where((wide & 0x7F) == 0x7F, float("nan"), number).to(tl.float16)


@triton.jit
def decode_int8(codes):
    """int8 to float16, exactly and without the slow conversion: 0x6400 + n is the float16 1024 + n."""
    bits = ((codes.to(tl.int16) & 0xFF) ^ 0x80) | 0x6400
    return (bits.to(tl.float16, bitcast=True) - 1152.0).to(tl.float16)


@triton.jit
def to_factor(stored, DECODE: tl.constexpr, DOT: tl.constexpr):
    """What a cache holds, as factors of a product. DECODE says what the hardware cannot do well itself."""
    if DECODE == "e4m3":
        number = decode_e4m3(stored)
    elif DECODE == "int8":
        number = decode_int8(stored)
    else:
        number = stored
    return number.to(DOT)
