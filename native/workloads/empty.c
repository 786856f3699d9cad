// SPDX-License-Identifier: MIT OR Apache-2.0
/* The smallest program. Its static size is what the C library adds to each program. It is not a workload and
 * prints no report. */
int main(void) {
    return 0;
}
