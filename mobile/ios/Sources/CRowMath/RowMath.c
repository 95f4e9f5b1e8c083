#include "CRowMath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#pragma STDC FP_CONTRACT OFF  // the same bits on every processor

// A debug build inlines nothing that need not be.
#define INLINE static inline __attribute__((always_inline))

// Numbers of a vector, of a step of four of them, and of a block.
enum { lanes = 4, step = 4 * lanes, block = 2048 };

typedef float Lanes __attribute__((vector_size(4 * lanes)));
typedef int32_t Bits __attribute__((vector_size(4 * lanes)));

static const float farthest = 87;  // exp of less than -87 is no normal number

INLINE Lanes load(const float *numbers) {
    Lanes value;
    memcpy(&value, numbers, sizeof value);
    return value;
}

INLINE Lanes all(float number) { return (Lanes){} + number; }

// exp of numbers from -87 to 0, by the polynomial of Cephes' expf; its error is below one unit of the last place.
INLINE Lanes exponential(Lanes x) {
    const float rounding = 12582912;  // 1.5 x 2^23: a number that it is added to is rounded to an integer
    const int32_t rounding_bits = 0x4b400000, bias = 127;
    // x = n ln 2 + r, and exp(x) = 2^n exp(r); the first part of ln 2 has few bits, so that its product with n is exact.
    Lanes rounded = x * 1.44269504088896341f + rounding;
    Lanes n = rounded - rounding;
    Lanes r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    Lanes high = ((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f;
    Lanes low = ((high * r + 1.6666665459e-1f) * r + 5.0000001201e-1f) * (r * r);
    // The bits of `rounded` are n more than those of `rounding`. A conversion would be undefined for a NaN.
    Bits exponent = (Bits)rounded - (rounding_bits - bias);
    return ((low + r) + 1) * (Lanes)(exponent << 23);
}

// The larger numbers of two; the second one beside a NaN. The compiler makes one instruction of it where there is one.
INLINE Lanes larger(Lanes numbers, Lanes limit) {
    Bits above = numbers > limit;
    return (Lanes)(((Bits)numbers & above) | ((Bits)limit & ~above));
}

INLINE Lanes weight(Lanes logits, float largest, float divisor, int divides, float smallest) {
    Lanes x = logits - largest;
    if (divides) x /= divisor;
    return larger(exponential(larger(x, all(-farthest))) - smallest, (Lanes){});
}

static double added(const Lanes sums[4]) {
    double sum = 0;
    for (int lane = 0; lane < step; lane++) sum += sums[lane / lanes][lane % lanes];
    return sum;
}

INLINE double weigh(const float *from, size_t count, float largest, float divisor, int divides, float *to) {
    const float smallest = exponential(all(-farthest))[0];
    Lanes sums[4] = {};
    size_t at = 0;
    for (; at + step <= count; at += step) {
#pragma clang loop unroll(full)  // -O2 leaves it, and the sums in memory
        for (int part = 0; part < 4; part++) {
            Lanes found = weight(load(from + at + part * lanes), largest, divisor, divides, smallest);
            memcpy(to + at + part * lanes, &found, sizeof found);
            sums[part] += found;
        }
    }
    double sum = added(sums);
    for (; at < count; at++) sum += to[at] = weight(all(from[at]), largest, divisor, divides, smallest)[0];
    return sum;
}

double row_weigh(const float *from, size_t count, float largest, float divisor, float *to) {
    // To divide by 1 changes nothing and takes long; -O2 moves the condition out of the loop only like this.
    return divisor == 1 ? weigh(from, count, largest, 1, 0, to) : weigh(from, count, largest, divisor, 1, to);
}

double row_sum(const float *numbers, size_t count) {
    Lanes sums[4] = {};
    size_t at = 0;
    for (; at + step <= count; at += step) {
        for (int part = 0; part < 4; part++) sums[part] += load(numbers + at + part * lanes);
    }
    double sum = added(sums);
    for (; at < count; at++) sum += numbers[at];
    return sum;
}

double row_masked_sum(const float *numbers, const float *mask, size_t count) {
    Lanes sums[4] = {};
    size_t at = 0;
    for (; at + step <= count; at += step) {
        for (int part = 0; part < 4; part++) {
            sums[part] += load(numbers + at + part * lanes) * load(mask + at + part * lanes);
        }
    }
    double sum = added(sums);
    for (; at < count; at++) sum += numbers[at] * mask[at];
    return sum;
}

// Whether a number is not at most a limit, as a NaN is.
static int is_any_larger(const float *numbers, size_t count, float limit) {
    const Lanes limits = all(limit);
    Bits within[4] = {~(Bits){}, ~(Bits){}, ~(Bits){}, ~(Bits){}};
    size_t at = 0;
    for (; at + step <= count; at += step) {
        for (int part = 0; part < 4; part++) within[part] &= load(numbers + at + part * lanes) <= limits;
    }
    Bits all_within = (within[0] & within[1]) & (within[2] & within[3]);
    for (int lane = 0; lane < lanes; lane++) {
        if (!all_within[lane]) return 1;
    }
    for (; at < count; at++) {
        if (!(numbers[at] <= limit)) return 1;
    }
    return 0;
}

size_t row_argmax(const float *row, size_t size) {
    size_t best = 0;
    float largest = row[0];
    for (size_t base = 0; base < size && !isnan(largest); base += block) {
        size_t end = size - base < block ? size : base + block;
        // A block whose numbers are all at most the largest so far needs no second look.
        if (!is_any_larger(row + base, end - base, largest)) continue;
        for (size_t at = base; at < end; at++) {
            if (row[at] <= largest) continue;
            best = at;
            largest = row[at];
            if (isnan(largest)) break;
        }
    }
    return best;
}
