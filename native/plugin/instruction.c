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
    unsigned map;  /* 1 if it follows 0x0f, 2 for 0x0f38, 3 for 0x0f3a; else 0 */
    bool extended; /* whether that is 1 */
    bool wide;     /* REX.W */
    unsigned char prefix, value, modrm;
    const unsigned char *operand; /* what follows the opcode */
};

static bool is_legacy_prefix(unsigned char byte) {
    return byte && strchr("\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65", byte) != NULL;
}

/* Splits an instruction. Returns whether its opcode is complete. VEX prefixes of two and three bytes are
 * accepted (volume 2, 2.3.5); EVEX is not: QEMU has no AVX-512. */
static bool split_any(const unsigned char *code, size_t size, struct opcode *found) {
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
        found->map = three ? code[1] & 0x1f : 1;
        code += three ? 2 : 1;
        found->prefix = vex_prefixes[*code++ & 3];
    } else if (code < end && *code == 0x0f) {
        found->map = ++code < end && (*code & 0xfd) == 0x38 ? 2 + (*code >> 1 & 1) : 1;
        code += found->map > 1;
    }
    if (code >= end)
        return false;
    found->extended = found->map == 1;
    found->value = *code++;
    found->operand = code;
    found->modrm = code < end ? *code : 0;
    return true;
}

/* The same, for opcodes of the first two maps alone: none of the others has what is looked for. */
static bool split(const unsigned char *code, size_t size, struct opcode *found) {
    return split_any(code, size, found) && found->map < 2;
}

/* What follows an opcode (volume 2, appendix A.3): a bit for each, of 16 opcodes a number. */
enum operand { MODRM, IMMEDIATE_8, IMMEDIATE_32, OPERANDS };

static bool has(const struct opcode *one, enum operand operand) {
    static const uint16_t of[2][OPERANDS][16] = {
        {{0x0f0f, 0x0f0f, 0x0f0f, 0x0f0f, 0, 0, 0x0a08, 0, 0xffff, 0, 0, 0, 0x00c3, 0xff0f, 0, 0xc0c0},
         {0x1010, 0x1010, 0x1010, 0x1010, 0, 0, 0x0c00, 0xffff, 0x000d, 0, 0x0100, 0x00ff, 0x2143, 0, 0x08ff,
          0},
         {0x2020, 0x2020, 0x2020, 0x2020, 0, 0, 0x0300, 0, 0x0002, 0, 0x020f, 0xff00, 0x0080, 0, 0x0300, 0}},
        {{0xa00f, 0xffff, 0xffff, 0, 0xffff, 0xffff, 0xffff, 0xff7f, 0, 0xffff, 0xf838, 0xffff, 0x00ff,
          0xffff, 0xffff, 0xffff},
         {0x8000, 0, 0, 0, 0, 0, 0, 0x000f, 0, 0, 0x1010, 0x0400, 0x0074, 0, 0, 0},
         {0, 0, 0, 0, 0, 0, 0, 0, 0xffff, 0, 0, 0, 0, 0, 0, 0}},
    };
    if (one->map > 1)
        return operand == MODRM || (operand == IMMEDIATE_8 && one->map == 3);
    bool tests = !one->map && (one->value & 0xfe) == 0xf6 && (one->modrm & 0x38) < 0x10; /* TEST has one */
    return of[one->map][operand][one->value >> 4] >> (one->value & 15) & 1 ||
           (tests && operand == (one->value & 1 ? IMMEDIATE_32 : IMMEDIATE_8));
}

/* Returns the size of the immediate operand. */
static size_t immediate_bytes(const struct opcode *one) {
    bool moves = !one->map && ((one->value & 0xf8) == 0xb8 ? one->wide : (one->value & 0xfc) == 0xa0);
    bool narrow = one->prefix == 0x66 && !one->wide && !one->map && (one->value & 0xfe) != 0xe8;
    size_t size = has(one, IMMEDIATE_32) ? moves ? 8 : narrow ? 2 : 4 : has(one, IMMEDIATE_8);
    if (!one->map && (one->value & 0xf7) == 0xc2) /* RET with a number */
        size = 2;
    return size + (!one->map && one->value == 0xc8 ? 2 : 0); /* ENTER */
}

/* Volume 2, 2.1.5: ModRM and SIB bytes. */
bool is_complete(const unsigned char *code, size_t size) {
    struct opcode one;
    if (!split_any(code, size, &one) || one.map > 3)
        return false;
    size_t left = (size_t)(code + size - one.operand), needed = immediate_bytes(&one);
    if (has(&one, MODRM)) {
        unsigned mode = one.modrm >> 6, base = one.modrm & 7;
        bool scaled = mode != 3 && base == 4;
        if (left < 1u + scaled)
            return false;
        if (scaled)
            base = one.operand[1] & 7;
        needed += 1u + scaled + (mode == 1 ? 1 : mode == 2 || (mode == 0 && base == 5) ? 4 : 0);
    }
    return left >= needed;
}

/* REP with MOVS, CMPS, STOS, LODS or SCAS (volume 2, REP). */
bool repeats(const unsigned char *code, size_t size) {
    struct opcode one;
    return split(code, size, &one) && !one.map && one.prefix > 0x66 &&
           ((one.value & 0xfc) == 0xa4 || (one.value >= 0xaa && one.value <= 0xaf));
}

/* Of the first two maps, a bit for each opcode: no exception if its operands are registers. The others in use
 * are rare, or access memory. */
static bool may_fault_x86(const unsigned char *code, size_t size) {
    static const uint16_t without[2][16] = {
        {0x3f3f, 0x3f3f, 0x3f3f, 0x3f3f, 0, 0, 0x0a08, 0xffff, 0x2ffb, 0x03ff, 0x0300, 0xffff, 0x0003, 0x000f,
         0x0a0f, 0xf3e0},
        {0, 0xc100, 0, 0, 0xffff, 0, 0, 0, 0xffff, 0xffff, 0xb838, 0xfcc8, 0xff00, 0, 0, 0},
    };
    struct opcode one;
    if (!split(code, size, &one) || !(without[one.map][one.value >> 4] >> (one.value & 15) & 1))
        return true;
    unsigned operation = one.modrm >> 3 & 7, opcode = one.map << 8 | one.value;
    if ((opcode & ~1u) == 0xf6 || opcode == 0xff) /* DIV, IDIV; CALL, PUSH, far JMP */
        return one.modrm < 0xc0 || (opcode == 0xff ? operation > 1 && operation != 4 : operation > 5);
    return has(&one, MODRM) && one.modrm < 0xc0 && opcode != 0x8d &&
           opcode >> 4 != 0x11; /* LEA; hints, NOP */
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

bool may_fault(enum architecture architecture, const unsigned char *code, size_t size) {
    if (architecture == X86_64)
        return may_fault_x86(code, size);
    return architecture != ARM64 || size != 4 ||
           ((word_of(code) & 0x1c000000) != 0x10000000 /* data processing with immediate operands */ &&
            (word_of(code) & 0x0e000000) != 0x0a000000 /* and with registers */);
}
