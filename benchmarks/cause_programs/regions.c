/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* OpenMP regions in which one thread has nearly all the work: what the other does meanwhile is the variable OMP_WAIT_POLICY. */
#include <stdint.h>

static volatile uint64_t sums[2 * 64];

int main(void) {
    for (int region = 0; region < 60; region++)
#pragma omp parallel for schedule(static) num_threads(2)
        for (int part = 0; part < 2; part++) {
            uint64_t state = 88172645463325252u;

            for (int i = 0; i < (part ? 100000 : 5000000); i++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
            }
            sums[part * 64] += state;
        }
    return 0;
}
