/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Contexts: keys of call paths, sent to user space when they are new; and the processes that have them.
 */
#ifndef PCSTREAM_CONTEXTS_H
#define PCSTREAM_CONTEXTS_H

#include "mappings.h"

static __always_inline bool emit_process(u32 pid, u64 executable, bool ended)
{
	struct process_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		count(LOST_TABLE_RECORDS);
		return false;
	}
	r->type = RECORD_PROCESS;
	r->pid = pid;
	r->time_ns = bpf_ktime_get_ns();
	r->executable = executable;
	r->ended = ended;
	r->reserved = 0;
	bpf_ringbuf_submit(r, record_flags(false));
	return true;
}

/* Takes note of the current process, which makes pages dirty. */
static __always_inline void note_process(u32 pid, u64 executable)
{
	u64 *known = bpf_map_lookup_elem(&processes, &pid);

	if ((!known || *known != executable) && emit_process(pid, executable, false))
		bpf_map_update_elem(&processes, &pid, &executable, BPF_ANY);
}

static __always_inline u32 frames_of(struct workspace *ws, u32 mode)
{
	u32 frames = mode == UNWIND_NONE ? 0 : ws->found + 1;

	return frames > MAX_FRAMES ? MAX_FRAMES : frames;
}

/* The key of the context of the path in `ws`; never 0. */
static __always_inline u64 key_of(struct workspace *ws, u64 executable, s32 entry, u32 mode)
{
	u64 key = signature_mix(SIGNATURE_SEED, executable);
	u32 i, frames = frames_of(ws, mode);

	key = signature_mix(key, (u32)entry);
	key = signature_mix(key, frames);
	for (i = 0; i < MAX_FRAMES; i++) {
		if (i >= frames)
			break;
		key = signature_mix(key, ws->frame[i].module);
		key = signature_mix(key, ws->frame[i].offset);
	}
	return key ?: 1;
}

/* Reports a context when it is new. Returns its key, or 0 if the table is full. */
__noinline u64 emit_context(struct workspace *ws, u32 pid, u64 executable, s32 entry, u32 mode)
{
	struct context_record *r;
	u8 one = 1;
	u32 frames;
	u64 key;

	if (!ws)
		return 0;
	note_process(pid, executable);
	frames = frames_of(ws, mode);
	key = key_of(ws, executable, entry, mode);
	if (bpf_map_lookup_elem(&known_contexts, &key))
		return key;
	if (bpf_map_update_elem(&known_contexts, &key, &one, BPF_NOEXIST)) {
		if (bpf_map_lookup_elem(&known_contexts, &key))
			return key; /* another CPU was faster */
		count(LOST_CONTEXTS);
		return 0;
	}
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		count(LOST_TABLE_RECORDS);
		bpf_map_delete_elem(&known_contexts, &key);
		return 0;
	}
	r->type = RECORD_CONTEXT;
	r->pid = pid;
	r->key = key;
	r->executable = executable;
	r->entry = entry;
	r->unwind = mode;
	r->frames = frames;
	r->reserved = 0;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	__builtin_memcpy(r->frame, ws->frame, sizeof(r->frame));
	bpf_ringbuf_submit(r, record_flags(false));
	return key;
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

/* What the addresses of the path are in their modules: ws->frame. */
__noinline int name_frames(struct workspace *ws, s32 entry)
{
	u32 i;

	if (!ws)
		return 0;
	name_frame(ws, &ws->frame[0], ws->ip);
	if (entry == (s32)ENTRY_FAULT)
		name_function(&ws->frame[0]);
	for (i = 0; i < MAX_DEPTH; i++) {
		if (i >= ws->found)
			break;
		name_frame(ws, &ws->frame[i + 1], ws->slot[i].value);
	}
	return 0;
}

/* The context of the path in `ws`. */
static __always_inline u64 context_of_path(struct workspace *ws, s32 entry, u32 mode)
{
	name_frames(ws, entry);
	return emit_context(ws, ws->pid, ws->ranges.executable, entry, mode);
}

#endif
