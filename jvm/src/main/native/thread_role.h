/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* What a thread is for, by its name; see thread_role.c. */
#ifndef PCSTREAM_THREAD_ROLE_H
#define PCSTREAM_THREAD_ROLE_H

#define PCSTREAM_ROLE_BYTES 64 /* with the 0 at the end */

/*
 * The role that a thread's name (modified UTF-8) tells: printable ASCII, equal for the threads of a pool and in every run,
 * at most PCSTREAM_ROLE_BYTES - 1 bytes. Returns its length; 0: the name says nothing.
 */
unsigned int pcstream_thread_role(const char *name, char role[PCSTREAM_ROLE_BYTES]);

#endif
