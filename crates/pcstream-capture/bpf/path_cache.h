/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Each task's cache of call paths: a path is known again by the return addresses that its stack slots hold.
 *
 * Invariant: a hit is what a full capture would find along call-frame rules. Where a frame lies depends on the frames before it, and on
 * the frame pointers that lead from one to another; so these are compared, too. A stack slot alone may hold the return address of an
 * earlier call: below it there may be an array of variable length.
 *
 *   look_up_path  the context of a task whose path is cached
 *   insert_path   puts what a full capture saw into the cache
 */
#ifndef PCSTREAM_PATH_CACHE_H
#define PCSTREAM_PATH_CACHE_H

#include "maps.h"

/* Where a task entered the kernel, in which of the programs that it ran, as a hash; never 0. What it looks like there tells most call
 * paths apart. */
static __always_inline u64 path_cache_key(struct workspace *ws)
{
	u64 program = bpf_get_current_task_btf()->self_exec_id;

	return signature_mix(signature_mix(signature_mix(program, ws->ip), ws->sp), (u32)ws->context.entry) ?: 1;
}

/* Keeps what the full capture in `ws` saw. */
__noinline int insert_path(struct task_cache *cache, struct workspace *ws, u64 key, u64 context)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	struct cached_path *path;
	u32 i;

	if (!cache || !ws || !mm)
		return 0;
	if (cache->mm != (u64)mm || cache->exec_vm != mm->exec_vm) {
		for (i = 0; i < CACHED_PATHS; i++)
			cache->path[i].key = 0;
		cache->mm = (u64)mm;
		cache->exec_vm = mm->exec_vm;
	}
	/* At random: in turn, a cycle of one path more than the cache holds would never be found. */
	path = &cache->path[bpf_get_prandom_u32() & (CACHED_PATHS - 1)];
	path->key = context && ws->found ? key : 0;
	path->context = context;
	path->slots = ws->found;
	path->by_bp = ws->by_bp;
	path->bp = ws->bp - ws->sp;
	path->end = ws->found ? ws->slot[(ws->found - 1) & (MAX_DEPTH - 1)].offset + 8 : 0;
	__builtin_memcpy(path->slot, ws->slot, sizeof(path->slot));
	return 1;
}

/* Whether the stack slots that held a path's return addresses and frame pointers hold the same ones now. They are read together as far as
 * there is room: to read costs much more than to read more. */
__noinline int same_slots(struct workspace *ws, struct cached_path *path)
{
	u64 from = 0, bytes = 0;
	u32 i;

	if (!ws || !path || (path->by_bp && path->bp != ws->bp - ws->sp))
		return 0;
	for (i = 0; i < MAX_DEPTH; i++) {
		u64 offset = path->slot[i].offset, bp_end = path->slot[i].bp_end;

		if (i >= path->slots)
			break;
		if (offset + 8 - from > bytes) {
			from = bp_end ? bp_end - 8 : offset;
			bytes = path->end - from;
			if (bytes > sizeof(ws->words))
				bytes = sizeof(ws->words);
			if (bpf_probe_read_user(ws->words, bytes, (void *)(ws->sp + from)))
				return 0;
		}
		/* Compilers keep a frame pointer in its frame, near the return address. Elsewhere the words are not those that were read. */
		if (offset + 8 - from > bytes || (offset - from) & 7 || (bp_end && bp_end - 8 - from > bytes - 8))
			return 0;
		if (ws->words[(offset - from) / 8 & (STACK_WORDS - 1)] != path->slot[i].value)
			return 0;
		if (bp_end && ws->words[(bp_end - 8 - from) / 8 & (STACK_WORDS - 1)] - ws->sp != path->slot[i].bp)
			return 0;
	}
	return 1;
}

/* The context of the current task if its path is cached, else 0; after begin_capture. */
static __always_inline u64 look_up_path(struct workspace *ws, struct task_cache *cache, struct task_struct *task, u64 key)
{
	u32 i;

	if (no_cache || cache->mm != (u64)task->mm || cache->exec_vm != task->mm->exec_vm)
		return 0;
	for (i = 0; i < CACHED_PATHS; i++) {
		struct cached_path *path = &cache->path[i];

		if (path->key == key && same_slots(ws, path)) {
			count(PATH_CACHE_HITS);
			return path->context;
		}
	}
	return 0;
}

#endif
