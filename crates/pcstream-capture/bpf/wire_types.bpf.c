// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/* Every type of wire.h, so that the compiler describes it: the Rust view (src/wire/generated.rs) is made from that. Never loaded. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "wire.h"

struct {
	enum limit limit;
	enum fixed_context fixed_context;
	enum followed followed;
	enum placed_by placed_by;
	enum record_type record_type;
	enum io_source io_source;
	enum unwind_mode unwind_mode;
	enum module_key module_key;
	enum entry entry;
	enum rule_kind rule_kind;
	enum buffer_kind buffer_kind;
	enum counter counter;
	struct owner owner;
	struct io_record io_record;
	struct stream_count stream_count;
	struct context_record context_record;
	struct module_offset module_offset;
	struct unwind_rule unwind_rule;
	struct buffer_rule buffer_rule;
	struct buffer_key buffer_key;
	struct stack_record stack_record;
	struct process_record process_record;
	struct runtime_record runtime_record;
	struct path_record path_record;
} wire_types;
