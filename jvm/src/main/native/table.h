/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Tables of entries that begin with a key of 64 bits, which is not 0. They are read without locks; only
 * an entry that is new takes a mutex. Entries are never freed, old cells neither: readers may be in them.
 */
#ifndef PCSTREAM_TABLE_H
#define PCSTREAM_TABLE_H

#include "java_signature.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

struct cells;

struct table {
	_Atomic(struct cells *) cells;
	pthread_mutex_t lock; /* of insertion */
	size_t used, most;
};

/* The entry of a key, or NULL. */
u64 *pcstream_table_find(struct table *table, u64 key);

/* Takes the entry in; returns it, or the one that was there, or NULL if there is no room. */
u64 *pcstream_table_insert(struct table *table, u64 *entry);

#endif
