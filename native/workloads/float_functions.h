// SPDX-License-Identifier: MIT OR Apache-2.0
/* The four functions of two floats of the published page's program on soft, softfp and hard. */
#ifndef SWAPSTONE_FLOAT_FUNCTIONS_H
#define SWAPSTONE_FLOAT_FUNCTIONS_H

/* The functions must be called, whatever the compiler knows about them. */
#if defined(__has_attribute)
#if __has_attribute(noipa)
#define CALLED __attribute__((noipa))
#endif
#endif
#ifndef CALLED
#define CALLED __attribute__((noinline))
#endif

CALLED static float sum(float left, float right) {
    return left + right;
}

CALLED static float difference(float left, float right) {
    return left - right;
}

CALLED static float product(float left, float right) {
    return left * right;
}

CALLED static float quotient(float left, float right) {
    return left / right;
}

#endif
