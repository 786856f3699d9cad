// SPDX-License-Identifier: MIT OR Apache-2.0
#include "kill.h"

#include "../port/port.h"

void kill_with_group(int pid, int group) {
    if (group > 1 && group != port_getpgrp())
        port_killpg(group, PORT_SIG_KILL);
    if (pid > 1 && pid != port_getpid())
        port_kill(pid, PORT_SIG_KILL);
}
