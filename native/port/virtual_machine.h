/* What a program asks that owns its whole machine: an emulated one, with devices that an emulator gives it.
 *
 * Every call that can fail returns a negative errno, as in port.h.
 */
#ifndef PORT_VIRTUAL_MACHINE_H
#define PORT_VIRTUAL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* Kernel. */
int port_mount(const char *type, const char *where);
int port_load_module(const char *path);
/* Who the kernel is: names of the system, its release, its version and the machine, each zero-terminated. */
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

/* A new file for writing; one that was there is emptied. */
int port_create_file(const char *path);
/* Waits until a terminal has sent what was written to it. */
void port_tcdrain(int fd);

/* Emulator. `port_acquire_devices` must come first, and after /dev and /sys; `port_release_devices` gives
 * them up for this process and those that it starts. */
int port_acquire_devices(void);
void port_release_devices(void);
/* Asks the emulator to stop the machine, so that it can be saved: that happens soon, not at once. Nothing
 * happens where the emulator has no such device, or isn't told to stop. */
void port_request_pause(void);
/* Reads what the emulator's operator orders: the size, or a negative errno. An order that is longer than the
 * buffer is -ENOSPC. */
long port_read_order(char *buffer, size_t size);
/* Where results go; a full channel is -ENOSPC. */
long port_write_channel(const void *data, size_t size);
/* Ends the machine at once; `failed` is seen by the emulator's operator where the emulator can say so. */
_Noreturn void port_stop_machine(bool failed);

#endif
