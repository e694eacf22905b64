/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Contexts: keys of call paths, sent to user space when they are new; and the processes that have them.
 */
#ifndef PCSTREAM_CONTEXTS_H
#define PCSTREAM_CONTEXTS_H

#include "mappings.h"

static __always_inline bool emit_process(u32 pid, u64 executable, bool ended)
{
	struct process_record r = {
		.type = RECORD_PROCESS,
		.pid = pid,
		.time_ns = bpf_ktime_get_ns(),
		.executable = executable,
		.ended = ended,
	};

	return send(&r, sizeof(r), false);
}

/* Takes note of the current process, which makes pages dirty. */
static __always_inline void note_process(u32 pid, u64 executable)
{
	u64 *known = bpf_map_lookup_elem(&processes, &pid);

	if ((!known || *known != executable) && emit_process(pid, executable, false))
		bpf_map_update_elem(&processes, &pid, &executable, BPF_ANY);
}

/* Enters into the context in `ws` what its path was found to be. Returns its key, never 0. */
static __always_inline u64 describe_context(struct workspace *ws, u64 executable, u32 mode)
{
	struct context_record *r = &ws->context;
	u64 key = signature_mix(SIGNATURE_SEED, executable);
	u32 i, frames = mode == UNWIND_NONE ? 0 : ws->found + 1;

	if (frames > MAX_FRAMES)
		frames = MAX_FRAMES;
	r->executable = executable;
	r->unwind = mode;
	r->frames = frames;
	key = signature_mix(key, (u32)r->entry);
	key = signature_mix(key, frames);
	for (i = 0; i < MAX_FRAMES; i++) {
		if (i >= frames)
			break;
		key = signature_mix(key, r->frame[i].module);
		key = signature_mix(key, r->frame[i].offset);
	}
	return key ?: 1;
}

/* Reports the context in `ws`, after begin_capture, when it is new. Returns its key, or 0 if the table or the ring buffer is
 * full: one that user space does not know, or whose modules it does not, would never get its names. */
__noinline u64 emit_context(struct workspace *ws, u64 executable, u32 mode)
{
	u8 one = 1;
	u64 key;

	if (!ws)
		return 0;
	note_process(ws->context.pid, executable);
	key = describe_context(ws, executable, mode);
	if (bpf_map_lookup_elem(&known_contexts, &key))
		return key;
	if (ws->unsent) {
		count(LOST_CONTEXT_RECORDS);
		return 0;
	}
	/* Another CPU may be faster: then user space gets the record twice. */
	if (bpf_map_update_elem(&known_contexts, &key, &one, BPF_ANY)) {
		count(LOST_CONTEXTS);
		return 0;
	}
	ws->context.type = RECORD_CONTEXT;
	ws->context.key = key;
	bpf_get_current_comm(ws->context.comm, sizeof(ws->context.comm));
	if (put(&ws->context, sizeof(ws->context), false))
		return key;
	bpf_map_delete_elem(&known_contexts, &key);
	count(LOST_CONTEXT_RECORDS);
	return 0;
}

static __always_inline void name_frame(struct workspace *ws, struct module_offset *frame, u64 address)
{
	struct range *range = range_of(ws, address);

	frame->module = range ? range->module : MODULE_ANON;
	/* MODULE_ANON has no offsets. */
	frame->offset = !range || range->module == MODULE_ANON ? 0 : address + range->base;
}

/* A store to mapped memory may come from many instructions of one function (memcpy): its frame is the function's first
 * instruction, where the rule of the storing one says where that is. */
static __always_inline void name_function(struct module_offset *frame)
{
	struct module_offset key = { .module = frame->module, .offset = frame->offset | RULE_AT_IP };
	struct unwind_rule *rule = bpf_map_lookup_elem(&rules, &key);

	if (rule && rule->into_function <= frame->offset)
		frame->offset -= rule->into_function;
}

/* What the addresses of the path are in their modules. */
__noinline int name_frames(struct workspace *ws)
{
	struct module_offset *frame;
	u32 i;

	if (!ws)
		return 0;
	frame = ws->context.frame;
	name_frame(ws, frame, ws->ip);
	if (ws->context.entry == (s32)ENTRY_FAULT)
		name_function(frame);
	for (i = 0; i < MAX_DEPTH; i++) {
		if (i >= ws->found)
			break;
		name_frame(ws, &frame[i + 1], ws->slot[i].value);
	}
	return 0;
}

/* The context of the path in `ws`. */
static __always_inline u64 context_of_path(struct workspace *ws, u32 mode)
{
	name_frames(ws);
	return emit_context(ws, ws->ranges.executable, mode);
}

#endif
