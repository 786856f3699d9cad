/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The placebo of preloaded objects: it replaces no function. */
#include "intercept.h"
