// SPDX-License-Identifier: MIT OR Apache-2.0
#include "instruction.h"

#include <string.h>

enum architecture architecture_of(const char *target) {
    return strcmp(target, "x86_64") == 0    ? X86_64
           : strcmp(target, "aarch64") == 0 ? ARM64
                                            : OTHER_ARCHITECTURE;
}

static uint32_t word_of(const unsigned char *code) {
    return code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 | (uint32_t)code[3] << 24;
}

/* ==== x86_64 ==== */

/* An opcode with its prefixes. */
struct opcode {
    bool extended; /* it follows 0x0f */
    bool wide;     /* REX.W */
    unsigned char prefix, value, modrm;
    const unsigned char *operand; /* what follows the opcode */
};

static bool is_legacy_prefix(unsigned char byte) {
    return byte && strchr("\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65", byte) != NULL;
}

/* Splits an instruction. Returns whether it is complete. VEX prefixes of two and three bytes are accepted
 * (volume 2, 2.3.5); EVEX is not: QEMU has no AVX-512. */
static bool split(const unsigned char *code, size_t size, struct opcode *found) {
    static const unsigned char vex_prefixes[] = {0, 0x66, 0xf3, 0xf2};
    const unsigned char *end = code + size;
    *found = (struct opcode){0};
    for (; code < end && is_legacy_prefix(*code); code++)
        if (*code == 0x66 || *code == 0xf2 || *code == 0xf3)
            found->prefix = found->prefix > 0x66 ? found->prefix : *code; /* F2 and F3 come before 66 */
    if (code < end && (*code & 0xf0) == 0x40)
        found->wide = (*code++ & 8) != 0;
    if (code < end && (*code == 0xc4 || *code == 0xc5)) {
        bool three = *code == 0xc4;
        if (end - code < (three ? 4 : 3))
            return false;
        found->extended = !three || (code[1] & 0x1f) == 1;
        code += three ? 2 : 1;
        found->prefix = vex_prefixes[*code++ & 3];
        if (!found->extended)
            return false; /* none of the other maps has what is looked for */
    } else if (code < end && *code == 0x0f) {
        found->extended = true;
        code++;
    }
    if (code >= end)
        return false;
    found->value = *code++;
    found->operand = code;
    found->modrm = code < end ? *code : 0;
    return true;
}

/* x87's divisions and its square root (volume 2, appendix B.17 and FDIV, FDIVR, FIDIV, FSQRT). */
static bool divides_x87(const struct opcode *one) {
    unsigned operation = one->modrm >> 3 & 7;
    bool divides = operation == 6 || operation == 7, in_memory = one->modrm < 0xc0;
    return divides && (one->value == 0xd8 || one->value == 0xdc || one->value == 0xde ||
                       (one->value == 0xda && in_memory));
}

static enum divide divide_x86(const unsigned char *code, size_t size) {
    struct opcode one;
    if (!split(code, size, &one))
        return DIVIDES;
    if (one.extended) {
        bool is_double = one.prefix == 0x66 || one.prefix == 0xf2;
        if (one.value == 0x5e)
            return is_double ? DIVIDE_DOUBLE : DIVIDE_SINGLE;
        if (one.value == 0x51)
            return is_double ? ROOT_DOUBLE : ROOT_SINGLE;
        return DIVIDES;
    }
    unsigned operation = one.modrm >> 3 & 7;
    if ((one.value == 0xf6 || one.value == 0xf7) && operation >= 6)
        return one.wide && one.value == 0xf7 ? DIVIDE_64 : DIVIDE_32;
    if (one.value == 0xd9 && one.modrm == 0xfa)
        return ROOT_DOUBLE;
    return divides_x87(&one) ? DIVIDE_DOUBLE : DIVIDES;
}

static bool conditional_x86(const unsigned char *code, size_t size, uint64_t address, uint64_t *target) {
    struct opcode one;
    if (!split(code, size, &one))
        return false;
    bool near = one.extended && (one.value & 0xf0) == 0x80;
    bool is_short = !one.extended && ((one.value & 0xf0) == 0x70 || (one.value >= 0xe0 && one.value <= 0xe3));
    if (!near && !is_short)
        return false;
    if (code + size - one.operand < (near ? 4 : 1))
        return false;
    int32_t offset = near ? (int32_t)word_of(one.operand) : (signed char)one.operand[0];
    *target = address + size + (uint64_t)(int64_t)offset;
    return true;
}

/* CALL near, relative and indirect (volume 2, CALL). */
bool is_call(const unsigned char *code, size_t size) {
    struct opcode one;
    if (!split(code, size, &one) || one.extended)
        return false;
    return one.value == 0xe8 || (one.value == 0xff && (one.modrm >> 3 & 7) == 2);
}

/* RET near (volume 2, RET). */
bool is_return(const unsigned char *code, size_t size) {
    struct opcode one;
    return split(code, size, &one) && !one.extended && (one.value == 0xc3 || one.value == 0xc2);
}

/* ==== arm64 ==== */

static enum divide divide_arm64(uint32_t word) {
    static const struct {
        uint32_t mask, value;
        enum divide small, large;
        unsigned size_bit; /* is set where it is the large one */
    } encodings[] = {
        {0x7fe0f800, 0x1ac00800, DIVIDE_32, DIVIDE_64, 31},         /* UDIV and SDIV */
        {0xffa0fc00, 0x1e201800, DIVIDE_SINGLE, DIVIDE_DOUBLE, 22}, /* FDIV, scalar */
        {0xffe0fc00, 0x1ee01800, DIVIDE_SINGLE, DIVIDE_SINGLE, 0},  /* half */
        {0xbfa0fc00, 0x2e20fc00, DIVIDE_SINGLE, DIVIDE_DOUBLE, 22}, /* FDIV, vector */
        {0xbfe0fc00, 0x2e403c00, DIVIDE_SINGLE, DIVIDE_SINGLE, 0},  /* half */
        {0xffbffc00, 0x1e21c000, ROOT_SINGLE, ROOT_DOUBLE, 22},     /* FSQRT, scalar */
        {0xfffffc00, 0x1ee1c000, ROOT_SINGLE, ROOT_SINGLE, 0},      /* half */
        {0xbfbffc00, 0x2ea1f800, ROOT_SINGLE, ROOT_DOUBLE, 22},     /* FSQRT, vector */
        {0xbffffc00, 0x2ef9f800, ROOT_SINGLE, ROOT_SINGLE, 0},      /* half */
    };
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if ((word & encodings[i].mask) == encodings[i].value)
            return word >> encodings[i].size_bit & 1 ? encodings[i].large : encodings[i].small;
    return DIVIDES;
}

/* Returns `bits` bits of a word from bit `from` on, with their sign. */
static int64_t signed_field(uint32_t word, unsigned from, unsigned bits) {
    return (int32_t)(word << (32 - from - bits)) >> (32 - bits);
}

static bool conditional_arm64(uint32_t word, uint64_t address, uint64_t *target) {
    bool on_condition = (word & 0xff000000) == 0x54000000;          /* B.cond and BC.cond */
    bool on_bit = (word & 0x7e000000) == 0x36000000;                /* TBZ and TBNZ */
    bool on_zero = (word & 0x7e000000) == 0x34000000;               /* CBZ and CBNZ */
    if (!(on_condition && (word & 15) < 14) && !on_bit && !on_zero) /* conditions 14 and 15 are always */
        return false;
    *target = address + (uint64_t)(signed_field(word, 5, on_bit ? 14 : 19) * 4);
    return true;
}

/* Branches to an address in a register (C4.1, unconditional branch (register)): BLR, BLRAA, BLRAAZ, BLRAB and
 * BLRABZ call; RET, RETAA and RETAB return, and so does BR with X30. */
enum flow flow_of(const unsigned char *code, size_t size) {
    static const struct {
        uint32_t mask, value;
        enum flow flow;
    } encodings[] = {
        {0xfc000000, 0x94000000, FLOW_CALL},             /* BL */
        {0xfffffc1f, 0xd63f0000, FLOW_CALL},             /* BLR */
        {0xfffff81f, 0xd63f081f, FLOW_CALL},             /* BLRAAZ, BLRABZ */
        {0xfffff800, 0xd73f0800, FLOW_CALL},             /* BLRAA, BLRAB */
        {0xfffffc1f, 0xd65f0000, FLOW_RETURN},           /* RET */
        {0xfffffbff, 0xd65f0bff, FLOW_RETURN},           /* RETAA, RETAB */
        {0xffffffff, 0xd61f03c0, FLOW_RETURN},           /* BR X30 */
        {0xffffffff, 0xd69f03e0, FLOW_EXCEPTION_RETURN}, /* ERET */
        {0xfffffbff, 0xd69f0bff, FLOW_EXCEPTION_RETURN}, /* ERETAA, ERETAB */
    };
    uint32_t word = size == 4 ? word_of(code) : 0;
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if ((word & encodings[i].mask) == encodings[i].value)
            return encodings[i].flow;
    return FLOW_OTHER;
}

/* Of 64 bits (C4.1, load/store register pair, and load/store register with an immediate). */
bool moves_link(const unsigned char *code, size_t size, bool *on_stack) {
    uint32_t word = size == 4 ? word_of(code) : 0;
    bool pair = (word & 0xfe000000) == 0xa8000000;
    bool one = (word & 0xff800000) == 0xf9000000 /* unsigned offset */ ||
               (word & 0xffa00000) == 0xf8000000 /* unscaled, before and after */;
    *on_stack = (word >> 5 & 31) == 31;
    return ((pair || one) && (word & 31) == 30) || (pair && (word >> 10 & 31) == 30);
}

/* ==== Both ==== */

enum divide divide_of(enum architecture architecture, const unsigned char *code, size_t size) {
    if (architecture == X86_64)
        return divide_x86(code, size);
    return architecture == ARM64 && size == 4 ? divide_arm64(word_of(code)) : DIVIDES;
}

bool is_conditional(enum architecture architecture, const unsigned char *code, size_t size, uint64_t address,
                    uint64_t *target) {
    if (architecture == X86_64)
        return conditional_x86(code, size, address, target);
    return architecture == ARM64 && size == 4 && conditional_arm64(word_of(code), address, target);
}

bool writes_unseen(enum architecture architecture, const unsigned char *code, size_t size) {
    return architecture == ARM64 && size == 4 && (word_of(code) & 0xffffffe0) == 0xd50b7420;
}
