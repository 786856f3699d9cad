// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls for the first process of a virtual machine: Linux calls that the agent does not need, and QEMU's
 * devices.
 *
 * A call that can fail returns a negative errno, as in port.h.
 */
#ifndef PORT_VIRTUAL_MACHINE_H
#define PORT_VIRTUAL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Mounts a file system without a device. */
int port_mount(const char *type, const char *where);
/* Changes the options of a mounted file system. */
int port_remount(const char *where, const char *options);
int port_load_module(const char *path);
/* Starts the loopback device, which the kernel then gives its addresses. */
int port_start_loopback(void);
/* Reads the last messages of the kernel's log (syslog(2)), at most `size` bytes. Returns their number. */
long port_read_kernel_log(char *buffer, size_t size);
/* Opens /dev/kmsg, from which port_read then reads one message at a time of those that are logged from now
 * on, without waiting for more. */
int port_open_kernel_log(void);
/* struct utsname of uname(2): six zero-terminated texts. The indices of those that are used are named. */
enum {
    PORT_SYSTEM,
    PORT_RELEASE = 2,
    PORT_VERSION,
    PORT_MACHINE,
    PORT_UTSNAME_FIELDS = 6,
    PORT_UTSNAME_BYTES = 65
};
struct port_utsname {
    char texts[PORT_UTSNAME_FIELDS][PORT_UTSNAME_BYTES];
};
int port_uname(struct port_utsname *identity);
/* Adds a seed to the kernel's random number generator and credits all its bits (RNDADDENTROPY). */
enum { PORT_SEED_BYTES = 32 };
int port_seed_random(const char seed[PORT_SEED_BYTES]);
/* The kernel's random numbers follow from its seeds at once, not later (RNDRESEEDCRNG). */
int port_reseed_random(void);

/* Opens a file for writing; creates it or truncates it. */
int port_create_file(const char *path);
/* Replaces a file of the new name. */
int port_rename(const char *from, const char *to);
int port_chmod(const char *path, int mode);
int port_truncate(const char *path, size_t size);
/* Creates a file of zeros and maps it, shared. NULL on failure. */
void *port_map_new_file(const char *path, size_t size);
/* Finds the physical addresses of mapped pages of 4096 bytes. Fails if one was not written yet, or if the
 * kernel does not tell (CONFIG_PROC_PAGE_MONITOR). */
int port_find_pages(const void *memory, size_t pages, uint64_t *addresses);
/* Waits until a terminal has transmitted all output (tcdrain(3)). */
void port_tcdrain(int fd);

/* Gets access to QEMU's devices, for this process and its children. The other calls below need it first. It
 * needs /dev and /sys. */
int port_acquire_devices(void);
/* Gives up that access, in a child. */
void port_release_devices(void);
/* Makes the watchdog expire. QEMU then pauses the machine some time later, so that it can be saved. Nothing
 * happens if QEMU has no watchdog or does not pause on it. */
void port_request_pause(void);
/* Reads the order: the file opt/swapstone/order of fw_cfg, or on riscv64 a part of the channel. Returns its
 * size, or -ENOSPC if the buffer is too small. */
long port_read_order(char *buffer, size_t size);
/* Begins to read the file opt/swapstone/files of fw_cfg, which the host sends. Returns -ENOENT if there is
 * none. */
int port_begin_files(void);
/* Reads its next 4096 bytes into a page of physical memory. What follows its end is zeros. */
int port_receive_page(uint64_t address);
/* The size of the channel, as in parts/vm/machine/emulator.py. On riscv64 its last 4 MiB hold the order. */
enum { PORT_CHANNEL_BYTES = 64 << 20 };
/* Writes to the channel, which carries the results to the host. Returns -ENOSPC if the channel is full. */
long port_write_channel(const void *data, size_t size);
/* Ends the machine at once. With isa-debug-exit (x86), QEMU's exit status reports `failed`. */
_Noreturn void port_stop_machine(bool failed);

#endif
