"""Virtual machines that QEMU runs, as a target: docs/virtual-machines.md."""
