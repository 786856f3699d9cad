// SPDX-License-Identifier: MIT OR Apache-2.0
/* The discrete Fourier transform of 256 complex doubles, 25 times: decimation in time with radix 2, in place
 * (Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965). An
 * operation is a butterfly: a complex product, a sum and a difference. Not from a published benchmark.
 *
 * The parameter is the kind of operands, see float_operands.h. Exact: only the elements 0, 64, 128 and 192 of
 * the input differ from 0. Then each of them is multiplied by 1, i, -1 or -i only, and half of the products
 * have a factor 0. */
#include "float_operands.h"

enum { POINTS = 256, STAGES = 8, REPEATS = 25 };

struct complex {
    double real, imaginary;
};

static struct complex input[POINTS], data[POINTS], factors[POINTS / 2];

/* cos and sin of 2 pi / 256, rounded to double. The powers come from products, so no library function is
 * called, whose last bit could differ. */
static const struct complex unit = {0x1.ffd886084cd0dp-1, -0x1.92155f7a3667ep-6};

static struct complex multiply(struct complex left, struct complex right) {
    struct complex product = {left.real * right.real - left.imaginary * right.imaginary,
                              left.real * right.imaginary + left.imaginary * right.real};
    return product;
}

static unsigned reversed(unsigned index) {
    unsigned found = 0;
    for (int bit = 0; bit < STAGES; bit++)
        found |= (index >> bit & 1) << (STAGES - 1 - bit);
    return found;
}

static void prepare(void) {
    uint32_t random = 1;
    struct complex power = {1, 0};
    for (int i = 0; i < POINTS / 2; i++) {
        factors[i] = power;
        power = multiply(power, unit);
    }
    factors[POINTS / 4].real = 0;
    factors[POINTS / 4].imaginary = -1;
    for (unsigned i = 0; i < POINTS; i++) {
        double real = next_operand(&random), imaginary = next_operand(&random);
        struct complex none = {0, 0}, some = {real, imaginary};
        input[reversed(i)] = parameter->size == EXACT && i % (POINTS / 4) ? none : some;
    }
}

static void transform(void) {
    for (int half = 1; half < POINTS; half *= 2)
        for (int group = 0; group < POINTS; group += 2 * half)
            for (int i = 0; i < half; i++) {
                struct complex *upper = &data[group + i], *lower = upper + half;
                struct complex turned = multiply(*lower, factors[i * (POINTS / 2 / half)]), before = *upper;
                upper->real = before.real + turned.real;
                upper->imaginary = before.imaginary + turned.imaginary;
                lower->real = before.real - turned.real;
                lower->imaginary = before.imaginary - turned.imaginary;
            }
}

static uint64_t pass(void) {
    uint64_t check = FNV1A_OFFSET_BASIS;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (int i = 0; i < POINTS; i++)
            data[i] = input[i];
        transform();
        compiler_barrier();
    }
    for (int i = 0; i < POINTS; i += 16)
        check = fnv1a_number(fnv1a_number(check, double_bits(data[i].real)), double_bits(data[i].imaginary));
    return check;
}

static const struct parameter operands[] = {EXACT_AND_INEXACT("float_fft", POINTS / 2 * STAGES * REPEATS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = operands);
