// SPDX-License-Identifier: MIT OR Apache-2.0
/* Gives a trial's process another root file system, in a mount namespace of its own. The steps are called in
 * this order in the process, for a request with a root. Each returns 0 or a negative errno. */
#ifndef AGENT_ROOT_H
#define AGENT_ROOT_H

#include "plan.h"

/* Where the folder `root-files` of a plan appears in the root. */
#define ROOT_FILES "/swapstone"

/* Starts a mount namespace. */
int root_unshare(void);
/* Mounts the root, with a layer for what is written if the request has one. */
int root_mount(const struct request *request);
/* Mounts /dev, /proc and /sys in it. */
int root_mount_devices(void);
/* Mounts the request's files in it, read-only. */
int root_mount_files(const struct request *request);
/* Makes it the root of the process. */
int root_enter(void);

/* The kernel unmounts the root at the end of the last process, which takes time. Keeps the mounts of a
 * process of the trial until `root_drop`. */
void root_keep(int pid);
void root_drop(void);

#endif
