/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Return addresses of a user stack, by three walks. All need interrupts on.
 *
 *   walk_rules           along call-frame rules, which user space provides: exact
 *   walk_frame_pointers  along saved frame pointers
 *   scan_stack           the restricted scan of the paper: words that may be return addresses
 *
 * src/unwind.rs makes the same walks over copies of stacks. Memory of the process is read with bounded reads that may fail.
 */
#ifndef PCSTREAM_UNWIND_H
#define PCSTREAM_UNWIND_H

#include "mappings.h"

/* Bytes of a stack that are read at once, at multiples of it, so that none lies in two pages. */
#define PIECE_BYTES 512

_Static_assert(PIECE_BYTES <= STACK_WORDS * 8, "it fits workspace.words");

static __always_inline void add_address(struct workspace *ws, u64 address, u32 offset)
{
	u32 n = ws->found & (MAX_DEPTH - 1);
	struct stack_slot *slot = &ws->slot[n];

	slot->value = address;
	slot->offset = offset;
	slot->bp_end = 0;
	ws->found = n + 1;
}

/* A frame pointer leads to a frame: the one that frame `saved` keeps in a slot that ends at `bp_end`, or, if that is 0, the one that
 * the task entered the kernel with. */
static __always_inline void led_by(struct workspace *ws, u32 saved, u32 bp_end, u64 bp)
{
	struct stack_slot *slot = &ws->slot[saved & (MAX_DEPTH - 1)];

	if (!bp_end) {
		ws->by_bp = 1;
		return;
	}
	slot->bp_end = bp_end;
	slot->bp = bp - ws->sp;
}

static long scan_piece(u64 piece, struct workspace **at)
{
	struct workspace *ws = *at;
	u64 from = (ws->sp & ~(PIECE_BYTES - 1UL)) + piece * PIECE_BYTES;
	u32 i;

	if (bpf_probe_read_user(ws->words, PIECE_BYTES, (void *)from)) {
		if (!piece)
			count(STACK_UNREADABLE);
		return 1;
	}
	/* Calls put return addresses 8 bytes above multiples of 16 (System V ABI for AMD64, section 3.2.2). */
	for (i = 1; i < PIECE_BYTES / 8; i += 2) {
		u64 word = ws->words[i], offset = from + i * 8 - ws->sp;

		if (offset >= SCANNED_BYTES || !within(&ws->ranges, word) || !locate(ws, word))
			continue;
		add_address(ws, word, offset);
		if (ws->found >= scan_depth)
			return 1;
	}
	return 0;
}

/* The restricted scan (FAST'19, section 3.2): the first `scan_depth` words of the stack that lie in executable memory, of those where
 * calls put return addresses. The paper looks at the others, too, where code that keeps to the ABI leaves none. Weaknesses: Go, and
 * local functions that compilers call with less alignment as nothing in them needs more. */
static __always_inline void scan_stack(struct workspace *ws)
{
	ws->found = 0;
	ws->by_bp = 0;
	bpf_loop(SCANNED_BYTES / PIECE_BYTES + 1, scan_piece, &ws, 0);
	if (ws->found < scan_depth)
		count(SHORT_STACKS);
}

/* Return addresses along saved frame pointers, beginning with the one at ws->bp. Whether they are believed. */
__noinline int walk_frame_pointers(struct workspace *ws)
{
	u64 pair[2]; /* saved frame pointer, return address */
	u64 below, bp;
	u32 i;

	if (!ws)
		return 0;
	ws->found = 0;
	ws->by_bp = 0;
	below = ws->sp;
	bp = ws->bp;
	for (i = 0; i < MAX_DEPTH; i++) {
		if (i >= fp_depth || bp < below || bp - below > MAX_FRAME_BYTES || (bp & 7))
			break;
		if (bpf_probe_read_user(pair, sizeof(pair), (void *)bp) || !find_code(ws, pair[1], true))
			break;
		led_by(ws, i - 1, i ? below - 8 - ws->sp : 0, bp);
		add_address(ws, pair[1], bp + 8 - ws->sp);
		below = bp + 16;
		bp = pair[0];
	}
	return ws->found >= (bp ? FP_PROOF : FP_PROOF_OUTERMOST);
}

/* How a walk along call-frame rules ended. */
enum walk_end { WALK_DEPTH, WALK_OUTERMOST, WALK_NO_RULE, WALK_MISS, WALK_BROKEN };

/* Return addresses along call-frame rules, from the instruction at ws->ip. */
__noinline int walk_rules(struct workspace *ws)
{
	u64 address, sp, bp, cfa;
	u32 i, saved = 0, bp_end = 0; /* where bp was read, see led_by */
	struct unwind_rule *rule;
	struct range *range;

	if (!ws)
		return WALK_NO_RULE;
	ws->found = 0;
	ws->by_bp = 0;
	address = ws->ip;
	sp = ws->sp;
	bp = ws->bp;
	for (i = 0; i <= MAX_DEPTH; i++) {
		struct module_offset key = {};

		range = range_of(ws, address);
		if (!range)
			return i ? WALK_BROKEN : WALK_NO_RULE;
		/* A return address counts if it lies in code. */
		if (i)
			add_address(ws, address, sp - 8 - ws->sp);
		if (range->module == MODULE_ANON)
			return i >= fp_depth ? WALK_DEPTH : WALK_NO_RULE;
		key.module = range->module;
		key.offset = (address + range->base) | (i ? 0 : RULE_AT_IP);
		rule = bpf_map_lookup_elem(&rules, &key);
		if (i >= fp_depth)
			return rule && rule->kind == RULE_END ? WALK_OUTERMOST : WALK_DEPTH;
		if (!rule) {
			ws->missing = key;
			ws->frame_address = address;
			ws->frame_sp = sp;
			ws->frame_bp = bp;
			return WALK_MISS;
		}
		if (rule->kind == RULE_END)
			return WALK_OUTERMOST;
		if (rule->kind == RULE_NONE)
			return WALK_NO_RULE;
		cfa = (rule->kind == RULE_BP ? bp : sp) + rule->cfa_offset;
		if (cfa <= sp || cfa - sp > MAX_STACK_BYTES || (cfa & 7))
			return WALK_BROKEN;
		if (rule->kind == RULE_BP)
			led_by(ws, saved, bp_end, bp);
		if (rule->bp_offset) {
			if (bpf_probe_read_user(&bp, sizeof(bp), (void *)(cfa + rule->bp_offset)))
				return WALK_BROKEN;
			saved = i;
			bp_end = cfa + rule->bp_offset + 8 - ws->sp;
		}
		if (bpf_probe_read_user(&address, sizeof(address), (void *)(cfa - 8)))
			return WALK_BROKEN;
		sp = cfa;
	}
	return WALK_DEPTH;
}

#endif
