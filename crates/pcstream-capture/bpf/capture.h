/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * A full capture: the call path of the current task, by the best walk that its stack allows.
 *
 * Needs interrupts on: mappings are read and stacks are sent.
 */
#ifndef PCSTREAM_CAPTURE_H
#define PCSTREAM_CAPTURE_H

#include "path_cache.h"
#include "stacks.h"

static __always_inline struct pt_regs *user_regs(struct task_struct *task)
{
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

#define TS_COMPAT 2 /* the system call has the number of 32-bit programs */

/* Which way the task came into the kernel. */
static __always_inline s32 entry_of(struct task_struct *task, struct pt_regs *regs)
{
	s32 entry = regs->orig_ax;

	return entry >= 0 && task->thread_info.status & TS_COMPAT ? entry | (s32)ENTRY_32BIT : entry;
}

/* Return addresses without rules. Returns how they were found. */
static __always_inline int guess_path(struct workspace *ws)
{
	u32 mode = unwind ? unwind : ws->ranges.unwind;
	bool believed = mode != UNWIND_SCAN && walk_frame_pointers(ws);

	/* A process counts as built with frame pointers, or not, by its first chain. */
	if (mode == UNWIND_NONE) {
		mode = believed ? UNWIND_FP : UNWIND_SCAN;
		ws->ranges.unwind = mode;
		ws->ranges_changed = 1;
	}
	/* A stack that begins in code without frame pointers breaks the chain at once. */
	if (mode == UNWIND_SCAN || (ws->found < 2 && !unwind)) {
		mode = UNWIND_SCAN;
		scan_stack(ws);
	}
	return mode;
}

/* The context of the current task's call path, after begin_capture. Never 0 unless a table or the ring buffer is full: without a
 * stack the context is the executable and the entry. The return addresses are in `ws` for the path cache. */
__noinline u64 capture(struct workspace *ws)
{
	int end = WALK_NO_RULE;
	u32 mode = UNWIND_NONE;
	bool known;
	u64 key;

	if (!ws)
		return 0;
	count(FULL_CAPTURES);
	ws->found = 0;
	known = known_ranges(ws);
	if (!known && !read_ranges(ws))
		return emit_context(ws, executable_of(ws, bpf_get_current_task_btf()->mm), UNWIND_NONE);
	if (!unwind || unwind == UNWIND_EXACT) {
		end = walk_rules(ws);
		if (end == WALK_MISS) {
			/* User space unwinds through the mappings that it is sent, and exec_vm does not tell whether they are those of now. Where
			 * they cannot be read at this moment, those known before are better than none. */
			if (known && !per_address() && !read_ranges(ws) && !known_ranges(ws))
				return emit_context(ws, executable_of(ws, bpf_get_current_task_btf()->mm), UNWIND_NONE);
			key = ask(ws);
			if (key) {
				ws->found = 0;
				store_ranges(ws);
				return key;
			}
		}
		/* Code without rules: two exact frames are better than a guess. */
		if (end == WALK_DEPTH || end == WALK_OUTERMOST || ws->found >= 2 || unwind)
			mode = end == WALK_OUTERMOST ? UNWIND_EXACT : UNWIND_CUT;
	}
	if (mode == UNWIND_NONE)
		mode = guess_path(ws);
	else if (end != WALK_DEPTH && end != WALK_OUTERMOST)
		count(CUT_PATHS);
	store_ranges(ws);
	key = context_of_path(ws, mode);
	/* Not for the path cache: the next time there may be more to see. A walk breaks where a page of the stack is absent: the kernel moves
	 * it at this moment, or has swapped it out. */
	if (end == WALK_MISS || end == WALK_BROKEN)
		ws->found = 0;
	return key;
}

/* Begins to look at the current task. */
static __always_inline void begin_capture(struct workspace *ws, struct task_struct *task, struct pt_regs *regs, s32 entry)
{
	ws->ip = regs->ip;
	ws->sp = regs->sp;
	ws->bp = regs->bp;
	ws->context.pid = task->tgid;
	ws->context.entry = entry;
	ws->unsent = 0;
}

/* The context of the current task's call path, after begin_capture: of the cached one, or by a full capture. `cache` is NULL if there is
 * no memory for one. */
static __always_inline u64 context_of_call_path(struct workspace *ws, struct task_cache *cache, struct task_struct *task)
{
	u64 context = 0, key = path_cache_key(ws);

	if (cache)
		context = look_up_path(ws, cache, task, key);
	if (!context) {
		context = capture(ws);
		if (cache)
			insert_path(cache, ws, key, context);
	}
	if (check_every)
		check_path(ws, context);
	return context;
}

#endif
