// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Runs the plugin's model of a processor without an emulator, for tests.
 *
 *     processor_driver L1I_BYTES L1I_WAYS L1D_BYTES L1D_WAYS L2_BYTES L2_WAYS
 *
 * Reads lines, and prints a line for each:
 *
 *     f LINE                       fetch: 0 for L1, 1 for L2, 2 for neither
 *     a LINE                       access data: the same
 *     b ADDRESS TAKEN              branch: whether it is mispredicted
 *     i TARGET ADDRESS BYTES       instruction of QEMU's target, its bytes in hexadecimal: kind of divide,
 * target of a conditional branch or -, whether it writes memory unseen
 *     w BYTES                      instruction of x86_64: whether it is complete, and whether REP repeats it
 */
#include "instruction.h"
#include "processor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns bytes, exactly as long as the code, so a sanitizer finds what reads beyond it. */
static unsigned char *bytes_of(const char *digits, size_t *size) {
    unsigned char *code = malloc(16);
    *size = 0;
    for (unsigned byte; *size < 16 && sscanf(digits, "%2x", &byte) == 1; digits += 2)
        code[(*size)++] = (unsigned char)byte;
    return realloc(code, *size ? *size : 1);
}

static void print_whole(const char *digits) {
    size_t size;
    unsigned char *code = bytes_of(digits, &size);
    printf("%d %d\n", is_complete(code, size), repeats(code, size));
    free(code);
}

static void print_instruction(const char *target, uint64_t address, const char *digits) {
    size_t size;
    unsigned char *code = bytes_of(digits, &size);
    enum architecture architecture = architecture_of(target);
    uint64_t to = 0;
    bool branches = is_conditional(architecture, code, size, address, &to);
    printf("%d ", divide_of(architecture, code, size));
    if (branches)
        printf("%#" PRIx64, to);
    else
        printf("-");
    printf(" %d\n", writes_unseen(architecture, code, size));
    free(code);
}

int main(int count, char **arguments) {
    static struct processor processor;
    unsigned sizes[6];
    for (int i = 0; i < 6; i++)
        sizes[i] = i + 1 < count ? (unsigned)strtoul(arguments[i + 1], NULL, 0) : 0;
    if (!processor_init(&processor, (struct geometry){sizes[0], sizes[1]},
                        (struct geometry){sizes[2], sizes[3]}, (struct geometry){sizes[4], sizes[5]})) {
        puts("impossible");
        return 1;
    }
    char line[256], target[16], digits[64];
    uint64_t number;
    unsigned taken;
    while (fgets(line, sizeof line, stdin))
        if (sscanf(line, "f %" SCNu64, &number) == 1)
            printf("%d\n", processor_access(&processor, &processor.l1i, number));
        else if (sscanf(line, "a %" SCNu64, &number) == 1)
            printf("%d\n", processor_access(&processor, &processor.l1d, number));
        else if (sscanf(line, "b %" SCNu64 " %u", &number, &taken) == 2)
            printf("%d\n", processor_mispredicts(&processor, number, taken != 0));
        else if (sscanf(line, "i %15s %" SCNu64 " %63s", target, &number, digits) == 3)
            print_instruction(target, number, digits);
        else if (sscanf(line, "w %63s", digits) == 1)
            print_whole(digits);
        else
            return 2;
    return 0;
}
