/* The smallest program there is: its static size is the C library's floor. Not a workload; it has no report.
 */
int main(void) {
    return 0;
}
