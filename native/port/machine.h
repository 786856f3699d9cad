/* What a program asks that owns its whole machine: an emulated one, with devices that an emulator gives it.
 *
 * Every call that can fail returns a negative errno, as in port.h.
 */
#ifndef PORT_MACHINE_H
#define PORT_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* Kernel. */
int port_mount(const char *type, const char *where);
int port_load_module(const char *path);
/* Who the kernel is: names of the system, its release, its version and the machine, each zero-terminated. */
enum { PORT_SYSTEM, PORT_RELEASE = 2, PORT_VERSION, PORT_MACHINE, PORT_IDENTITIES = 6, PORT_IDENTITY = 65 };
struct port_identity {
    char texts[PORT_IDENTITIES][PORT_IDENTITY];
};
int port_identify(struct port_identity *identity);

/* A new file for writing; one that was there is emptied. */
int port_create(const char *path);
/* Waits until a terminal has sent what was written to it. */
void port_drain(int fd);

/* Emulator. `port_own_devices` must come first, and after /dev and /sys; `port_disown_devices` gives them up
 * for this process and those that it starts. */
int port_own_devices(void);
void port_disown_devices(void);
/* Asks the emulator to stop the machine, so that it can be saved: that happens soon, not at once. Nothing
 * happens where the emulator has no such device, or isn't told to stop. */
void port_ask_for_pause(void);
/* Reads what the emulator's operator orders: the size, or a negative errno. An order that is longer than the
 * buffer is -ENOSPC. */
long port_read_order(char *buffer, size_t size);
/* Where results go; a full channel is -ENOSPC. */
long port_write_channel(const void *data, size_t size);
/* Ends the machine at once; `failed` is seen by the emulator's operator where the emulator can say so. */
_Noreturn void port_end_machine(bool failed);

#endif
