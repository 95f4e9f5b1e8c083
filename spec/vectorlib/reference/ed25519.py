"""Ed25519 in affine coordinates (RFC 8032, section 5.1), for signatures that no library writes."""

import hashlib

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493  # L of RFC 8032, section 5.1
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]
NEUTRAL: Point = (0, 1)
BASE: Point = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)
# y = 0x05fc... of order 8, and x with an even number
EIGHT_Y = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826


def added(a: Point, b: Point) -> Point:
    """The sum of two points."""
    product = D * a[0] * b[0] * a[1] * b[1]
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, -1, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P)
    return x % P, y % P


def times(number: int, point: Point) -> Point:
    """A multiple of a point."""
    total = NEUTRAL
    for bit in bin(number)[2:]:
        total = added(total, total)
        if bit == "1":
            total = added(total, point)
    return total


def encoded(point: Point) -> bytes:
    """The 32 bytes of a point."""
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def of_y(y: int) -> Point:
    """The point with a y whose x is even."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    for root in (pow(square, (P + 3) // 8, P), pow(square, (P + 3) // 8, P) * pow(2, (P - 1) // 4, P) % P):
        if root * root % P == square:
            return min(root, P - root, key=lambda x: x % 2), y
    raise ValueError(f"no point has y = {y}")


def secret_scalar(seed: bytes) -> int:
    """The number of a secret key of 32 bytes: its public key is that multiple of BASE."""
    low = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    return low & ((1 << 254) - 8) | 1 << 254


def challenge(r: bytes, public: bytes, message: bytes) -> int:
    """k of RFC 8032, section 5.1.7, modulo the order."""
    return int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % ORDER


def signed(r: bytes, nonce: int, secret: int, public: bytes, message: bytes) -> bytes:
    """A signature whose R is given as bytes, with S = nonce + k secret."""
    return r + ((nonce + challenge(r, public, message) * secret) % ORDER).to_bytes(32, "little")
