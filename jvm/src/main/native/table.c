/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Open addressing with linear probing, at most half full; it grows by doubling. See table.h. */
#include "table.h"

#include <stdlib.h>

struct cells {
	size_t mask;
	_Atomic(u64 *) cell[];
};

u64 *pcstream_table_find(struct table *table, u64 key)
{
	struct cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
	u64 *entry;

	if (!cells)
		return NULL;
	for (size_t at = signature_mix(SIGNATURE_SEED, key);; at++) {
		entry = atomic_load_explicit(&cells->cell[at & cells->mask], memory_order_acquire);
		if (!entry || *entry == key)
			return entry;
	}
}

static void cells_put(struct cells *cells, u64 *entry)
{
	size_t at = signature_mix(SIGNATURE_SEED, *entry);

	while (atomic_load_explicit(&cells->cell[at & cells->mask], memory_order_relaxed))
		at++;
	atomic_store_explicit(&cells->cell[at & cells->mask], entry, memory_order_release);
}

u64 *pcstream_table_insert(struct table *table, u64 *entry)
{
	struct cells *cells, *larger;
	u64 *found = NULL;

	pthread_mutex_lock(&table->lock);
	cells = atomic_load_explicit(&table->cells, memory_order_relaxed);
	found = pcstream_table_find(table, *entry);
	if (found || table->used >= table->most)
		goto out;
	if (!cells || table->used * 2 > cells->mask) {
		size_t size = cells ? 2 * (cells->mask + 1) : 256;

		larger = calloc(1, sizeof(*larger) + size * sizeof(larger->cell[0]));
		if (!larger)
			goto out;
		larger->mask = size - 1;
		for (size_t i = 0; cells && i <= cells->mask; i++) {
			u64 *old = atomic_load_explicit(&cells->cell[i], memory_order_relaxed);

			if (old)
				cells_put(larger, old);
		}
		/* The old cells stay: somebody may be reading them. Together they are less than the new. */
		atomic_store_explicit(&table->cells, larger, memory_order_release);
		cells = larger;
	}
	cells_put(cells, entry);
	table->used++;
	found = entry;
out:
	pthread_mutex_unlock(&table->lock);
	return found;
}
