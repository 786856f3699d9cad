/* The calls of machine.h: Linux's, and the devices of QEMU (docs/specs in its source: fw_cfg.rst,
 * pvpanic.rst). */
#include "machine.h"

#include "arch.h"
#include "port.h"

enum {
    AT_CURRENT_FOLDER = -100,
    CREATE_CLOSED_BY_EXEC = 01 | 0100 | 01000 | 02000000, /* O_WRONLY, O_CREAT, O_TRUNC, O_CLOEXEC */
    TCSBRK = 0x5409,
    TCGETS = 0x5401,
    TCSETS = 0x5402,
    OUTPUT_PROCESSED = 1, /* OPOST */
    REBOOT_MAGIC = (int)0xfee1dead,
    REBOOT_MAGIC_2 = 672274793,
    REBOOT_POWER_OFF = 0x4321fedc,
    REBOOT_RESTART = 0x01234567,
};

int port_mount(const char *type, const char *where) {
    return (int)CALL5(NR_MOUNT, type, where, type, 0, NULL);
}

int port_load_module(const char *path) {
    int fd = port_open_read(path);
    if (fd < 0)
        return fd;
    int result = (int)CALL3(NR_FINIT_MODULE, fd, "", 0);
    port_close(fd);
    return result;
}

int port_identify(struct port_identity *identity) {
    return (int)CALL1(NR_UNAME, identity);
}

int port_create(const char *path) {
    return (int)CALL4(NR_OPENAT, AT_CURRENT_FOLDER, path, CREATE_CLOSED_BY_EXEC, 0600);
}

void port_drain(int fd) {
    CALL3(NR_IOCTL, fd, TCSBRK, 1);
}

void port_plain_newlines(int fd) {
    uint32_t modes[16] = {0}; /* struct termios: input, output, control and local modes, then less */
    if (CALL3(NR_IOCTL, fd, TCGETS, modes) == 0) {
        modes[1] &= ~(uint32_t)OUTPUT_PROCESSED;
        CALL3(NR_IOCTL, fd, TCSETS, modes);
    }
}

static _Noreturn void end_by_kernel(void) {
    CALL4(NR_REBOOT, REBOOT_MAGIC, REBOOT_MAGIC_2, REBOOT_POWER_OFF, NULL);
    CALL4(NR_REBOOT, REBOOT_MAGIC, REBOOT_MAGIC_2, REBOOT_RESTART, NULL);
    port_exit(1); /* the kernel panics when its first process ends */
}

#ifdef ARCH_HAS_IO_PORTS

enum {
    PORT_DEBUG_CONSOLE = 0xe9,
    PORT_DEBUG_EXIT = 0xf4,
    PORT_WATCHDOG = 0x443,
    PORT_FW_CFG_SELECT = 0x510,
    PORT_FW_CFG_DATA = 0x511,
    WATCHDOG_AT_ONCE = 15, /* the last of its times is 0 s */
    FW_CFG_SIGNATURE = 0,
    FW_CFG_DIRECTORY = 0x19,
    FW_CFG_NAME = 56,
    END_WELL = 0x20, /* QEMU ends with twice this and one */
    END_FAILED = 0x21,
};

static const uint16_t owned[][2] = {
    {PORT_DEBUG_CONSOLE, 1}, {PORT_DEBUG_EXIT, 1}, {PORT_WATCHDOG, 1}, {PORT_FW_CFG_SELECT, 2}};

static int permit(bool on) {
    int result = 0;
    for (size_t i = 0; i < sizeof owned / sizeof *owned && result == 0; i++)
        result = (int)CALL3(NR_IOPERM, owned[i][0], owned[i][1], on);
    return result;
}

int port_own_devices(void) {
    return permit(true);
}

void port_disown_devices(void) {
    permit(false);
}

void port_ask_for_pause(void) {
    arch_out_byte(PORT_WATCHDOG, WATCHDOG_AT_ONCE);
}

/* One file of fw_cfg's directory; its numbers have their most significant byte first. */
struct fw_cfg_file {
    uint32_t size;
    uint16_t selector, reserved;
    char name[FW_CFG_NAME];
};

static bool same(const char *left, const char *right) {
    while (*left && *left == *right)
        left++, right++;
    return *left == *right;
}

long port_read_order(char *buffer, size_t size) {
    char signature[5] = {0};
    uint32_t count;
    struct fw_cfg_file file;

    arch_out_word(PORT_FW_CFG_SELECT, FW_CFG_SIGNATURE);
    arch_in_bytes(PORT_FW_CFG_DATA, signature, 4);
    if (!same(signature, "QEMU"))
        return -PORT_E_NOENT;
    arch_out_word(PORT_FW_CFG_SELECT, FW_CFG_DIRECTORY);
    arch_in_bytes(PORT_FW_CFG_DATA, &count, sizeof count);
    for (count = __builtin_bswap32(count); count; count--) {
        arch_in_bytes(PORT_FW_CFG_DATA, &file, sizeof file);
        if (!same(file.name, "opt/swapstone/order"))
            continue;
        uint32_t bytes = __builtin_bswap32(file.size);
        if (bytes > size)
            return -PORT_E_NOSPC;
        arch_out_word(PORT_FW_CFG_SELECT, __builtin_bswap16(file.selector));
        arch_in_bytes(PORT_FW_CFG_DATA, buffer, bytes);
        return bytes;
    }
    return -PORT_E_NOENT;
}

int port_open_channel(void) {
    return 0;
}

void port_write_channel(int channel, const void *data, size_t size) {
    (void)channel;
    arch_out_bytes(PORT_DEBUG_CONSOLE, data, size);
}

void port_end_machine(bool failed) {
    arch_out_byte(PORT_DEBUG_EXIT, failed ? END_FAILED : END_WELL);
    end_by_kernel();
}

#else

int port_own_devices(void) {
    return 0;
}

void port_disown_devices(void) {}

void port_ask_for_pause(void) {}

/* Without ports the order lies in the image. */
long port_read_order(char *buffer, size_t size) {
    int fd = port_open_read("/order");
    long used = 0, result = 1;

    if (fd < 0)
        return fd;
    while (result > 0 && (size_t)used < size) {
        result = port_read(fd, buffer + used, size - (size_t)used);
        used += result > 0 ? result : 0;
    }
    port_close(fd);
    return result < 0 ? result : result > 0 ? -PORT_E_NOSPC : used;
}

int port_open_channel(void) {
    port_plain_newlines(1);
    return 1;
}

void port_write_channel(int channel, const void *data, size_t size) {
    for (const char *at = data; size;) {
        long result = port_write(channel, at, size);
        if (result <= 0)
            return;
        at += result;
        size -= (size_t)result;
    }
}

void port_end_machine(bool failed) {
    (void)failed;
    port_drain(1);
    end_by_kernel();
}

#endif
