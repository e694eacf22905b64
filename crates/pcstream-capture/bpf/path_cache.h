/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Each task's cache of call paths: a path is known again by the return addresses that its stack slots hold.
 *
 *   look_up_path  the context of a task whose path is cached; works with interrupts off
 *   insert_path   puts what a full capture saw into the cache
 */
#ifndef PCSTREAM_PATH_CACHE_H
#define PCSTREAM_PATH_CACHE_H

#include "maps.h"

static __always_inline u64 write_syscalls(struct task_struct *task)
{
	if (bpf_core_field_exists(task->ioac.syscw))
		return task->ioac.syscw;
	return 0;
}

/* System calls that end in the accounting of `syscw`, so that an unchanged count means the same
 * call: write, pwrite64, writev, pwritev, pwritev2 (x86-64). */
static __always_inline bool counted_syscall(s32 entry)
{
	return entry == 1 || entry == 18 || entry == 20 || entry == 296 || entry == 328;
}

/* Where a task entered the kernel, as a hash; never 0. What it looks like there tells most call paths apart. */
static __always_inline u64 place_of(struct workspace *ws, s32 entry)
{
	return signature_mix(signature_mix(signature_mix(SIGNATURE_SEED, ws->ip), ws->sp), (u32)entry) ?: 1;
}

/* Copies the slots of a path, and cuts the stack into pieces that are read at once. */
static __always_inline void copy_slots(struct cached_path *path, struct workspace *ws)
{
	struct stack_slot *piece = NULL;
	u32 i, first = 0;

	path->slots = ws->found > MAX_DEPTH ? MAX_DEPTH : ws->found;
	for (i = 0; i < MAX_DEPTH; i++) {
		struct stack_slot *slot = &path->slot[i];

		if (i >= path->slots)
			break;
		slot->value = ws->slot[i].value;
		slot->offset = ws->slot[i].offset;
		slot->piece_bytes = 0;
		if (!piece || slot->offset + 8 - first > sizeof(ws->words)) {
			first = slot->offset;
			piece = slot;
		}
		slot->at = (slot->offset - first) / 8;
		piece->piece_bytes = slot->offset + 8 - first;
	}
}

/* Keeps what the full capture in `ws` saw. */
__noinline int insert_path(struct task_cache *cache, struct workspace *ws, u64 place, u64 context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	u32 at, i;

	if (!cache || !ws || !mm)
		return 0;
	if (cache->mm != (u64)mm || cache->exec_vm != mm->exec_vm) {
		for (i = 0; i < CACHED_PATHS; i++)
			cache->place[i] = 0;
		cache->mm = (u64)mm;
		cache->exec_vm = mm->exec_vm;
	}
	/* At random: in turn, a cycle of one path more than the cache holds would never be found. */
	cache->draw = cache->draw * 1664525 + 1013904223;
	at = cache->draw >> 24 & (CACHED_PATHS - 1);
	cache->last = at;
	cache->syscw = write_syscalls(task);
	cache->place[at] = context ? place : 0;
	cache->path[at].context = context;
	copy_slots(&cache->path[at], ws);
	return 1;
}

/* Whether the stack slots that held a path's return addresses hold the same ones now. */
__noinline int same_slots(struct workspace *ws, struct cached_path *path)
{
	u32 i;

	if (!ws || !path)
		return 0;
	for (i = 0; i < MAX_DEPTH; i++) {
		struct stack_slot *slot = &path->slot[i];
		u32 bytes = slot->piece_bytes;

		if (i >= path->slots)
			break;
		if (bytes && (bytes > sizeof(ws->words) ||
			      bpf_probe_read_user(ws->words, bytes, (void *)(ws->sp + slot->offset))))
			return 0;
		if (ws->words[slot->at & (STACK_WORDS - 1)] != slot->value)
			return 0;
	}
	return 1;
}

/* The context of the current task if its path is cached, else 0; after begin_capture. Works with interrupts off. */
static __always_inline u64 look_up_path(struct workspace *ws, struct task_cache *cache, struct task_struct *task, u64 place, s32 entry)
{
	u64 syscw = write_syscalls(task);
	u32 i, at;

	if (no_cache || cache->mm != (u64)task->mm || cache->exec_vm != task->mm->exec_vm)
		return 0;
	at = cache->last & (CACHED_PATHS - 1);
	if (syscw && cache->syscw == syscw && counted_syscall(entry) && cache->place[at] == place) {
		count(SAME_SYSCALL, 1);
		return cache->path[at].context;
	}
	/* The last one first: a task mostly goes on as before. */
	for (i = 0; i < CACHED_PATHS; i++) {
		at = (cache->last + i) & (CACHED_PATHS - 1);
		if (cache->place[at] != place || !cache->path[at].slots || !same_slots(ws, &cache->path[at]))
			continue;
		count(SAME_SLOTS, 1);
		cache->syscw = syscw;
		cache->last = at;
		return cache->path[at].context;
	}
	return 0;
}

#endif
