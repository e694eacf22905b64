/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Stacks that are sent to user space: because a call-frame rule is missing, or so that tests can check a path.
 *
 *   ask         what is left of a walk that lacked a rule; user space unwinds it and adds the rules
 *   check_path  the whole stack, with the context that was found for it
 *
 * Invariants: until the rules come, paths that agree in all that matters share one context and one record. Stacks leave half of the
 * ring buffer to what must not be lost. For want of one rule a limited number is sent.
 */
#ifndef PCSTREAM_STACKS_H
#define PCSTREAM_STACKS_H

#include "contexts.h"
#include "unwind.h"

/* Whether stacks leave room for what must not be lost: of the buffer they take half. */
static __always_inline bool room_for_stacks(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / 2;
}

/* What the rest of a walk can depend on in a piece of the stack: addresses of code and of the stack itself. Places on the stack count
 * from `frame_sp`, so threads on one path agree. bpf_loop calls this function: some compilers make a loop that is entered in its middle,
 * which Linux 6.1 refuses. */
static long hash_piece(u64 piece, struct workspace **at)
{
	struct workspace *ws = *at;
	u64 from = (ws->frame_sp & ~(PIECE_BYTES - 1UL)) + piece * PIECE_BYTES;
	u32 i;

	if (bpf_probe_read_user(ws->words, PIECE_BYTES, (void *)from))
		return 0;
	for (i = 0; i < PIECE_BYTES / 8; i++) {
		u64 word = ws->words[i], place = word - ws->frame_sp;

		if (from + i * 8 < ws->frame_sp)
			continue;
		if (place >= STACK_BYTES) {
			if (!within(&ws->ranges, word) || !locate(ws, word))
				continue;
			place = word;
		}
		ws->stack_hash = signature_mix(signature_mix(ws->stack_hash, from + i * 8 - ws->frame_sp), place);
	}
	return 0;
}

/* The key of a path that stopped for want of a rule, and of all that the rest of it can depend on. On the way, the mappings of all code
 * addresses of the stack are looked up, where that is done one by one: user space can unwind only through those it is sent. */
static __always_inline u64 hash_stack(struct workspace *ws)
{
	u64 bp = ws->frame_bp - ws->frame_sp;

	name_frames(ws);
	ws->stack_hash = describe_context(ws, ws->ranges.executable, UNWIND_EXACT);
	ws->stack_hash = signature_mix(ws->stack_hash, ws->ranges.exec_vm);
	ws->stack_hash = signature_mix(ws->stack_hash, ws->ranges.program);
	/* A scan looks at multiples of 16. A frame pointer that points far away leads nowhere, wherever it points. */
	ws->stack_hash = signature_mix(ws->stack_hash, ws->frame_sp & 15);
	ws->stack_hash = signature_mix(ws->stack_hash, bp + STACK_BYTES < 2 * STACK_BYTES ? bp : STACK_BYTES);
	bpf_loop(STACK_BYTES / PIECE_BYTES + 1, hash_piece, &ws, 0);
	return ws->stack_hash | 1;
}

/* Sends the stack of the current task from `frame_sp` of the workspace on, with the context as it was found up to there. Whether
 * there was room. */
static __always_inline bool emit_stack(struct workspace *ws, u32 type, u64 key)
{
	struct stack_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	u32 i, at = 0, ranges = ws->ranges.count;

	if (!r)
		return false;
	ws->context.type = type;
	ws->context.key = key;
	bpf_get_current_comm(ws->context.comm, sizeof(ws->context.comm));
	r->context = ws->context;
	r->address = ws->frame_address;
	r->sp = ws->frame_sp;
	r->bp = ws->frame_bp;
	if (ranges > MAX_RANGES)
		ranges = MAX_RANGES;
	if (bpf_probe_read_kernel(r->range, ranges * sizeof(struct range), ws->ranges.range))
		ranges = 0;
	r->ranges = ranges;
	/* Page by page, for the stack may end at any of them, and has none where nothing was written yet. What
	 * cannot be read is zero. */
	for (i = 0; i < STACK_BYTES / STACK_PIECE + 1; i++) {
		u64 from = ws->frame_sp + at;
		u32 piece = STACK_PIECE - (from & (STACK_PIECE - 1));

		if (at >= STACK_BYTES || piece > STACK_PIECE)
			break;
		bpf_probe_read_user(&r->stack[at & (STACK_BYTES - 1)], piece, (void *)from);
		at += piece;
	}
	r->bytes = at;
	bpf_ringbuf_submit(r, record_flags(false));
	return true;
}

/* Sends the whole stack of the current task with the context that it was given, so that user space can find out whether
 * that is right. For tests. */
__noinline int check_path(struct workspace *ws, u64 context)
{
	if (!check_every || !ws || !context || bpf_get_prandom_u32() % check_every || !known_ranges(ws))
		return 0;
	ws->frame_address = ws->ip;
	ws->frame_sp = ws->sp;
	ws->frame_bp = ws->bp;
	ws->context.executable = ws->ranges.executable;
	ws->context.frames = 0;
	emit_stack(ws, RECORD_CHECK, context);
	return 0;
}

/* Sends the rest of the stack of a walk that lacked a rule to user space, which unwinds it and adds the rules
 * that are missing; not if one like it was sent just now. Returns the key that is its context's, or 0 if it was not sent. */
__noinline u64 ship_stack(struct workspace *ws, u64 key)
{
	u64 now = bpf_ktime_get_ns(), *before;
	struct module_offset missing;
	u32 *times, more = 1;

	if (!ws)
		return 0;
	note_process(ws->context.pid, ws->ranges.executable);
	before = bpf_map_lookup_elem(&shipped, &key);
	if (before && now - *before < SHIP_AGAIN_NS)
		return key;
	if (ws->unsent || !room_for_stacks() || !emit_stack(ws, RECORD_STACK, key)) {
		if (before)
			return key;
		count(UNSHIPPED_STACKS);
		return 0;
	}
	if (before)
		more = SHIPPED_AGAIN;
	missing = ws->missing;
	times = bpf_map_lookup_elem(&asked, &missing);
	if (times)
		__sync_fetch_and_add(times, more);
	else
		bpf_map_update_elem(&asked, &missing, &more, BPF_ANY);
	/* Not before: whoever gets the key next, its record comes later. */
	bpf_map_update_elem(&shipped, &key, &now, BPF_ANY);
	count(SHIPPED_STACKS);
	return key;
}

/* The context of a path that stopped for want of a rule, by asking user space; 0: it was asked often enough, or cannot be. A part of
 * `capture`, and `ship_stack` is not: else hash_stack would be called too deep, or Linux 6.1 would find the stack too small. */
static __always_inline u64 ask(struct workspace *ws)
{
	struct module_offset missing = ws->missing; /* on the stack, as kernels before 6.2 want keys */
	u32 *times = bpf_map_lookup_elem(&asked, &missing);

	if (!times || *times < MAX_SHIPPED)
		return ship_stack(ws, hash_stack(ws));
	count(UNSHIPPED_STACKS);
	return 0;
}

#endif
