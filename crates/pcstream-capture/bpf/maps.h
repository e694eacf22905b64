/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * What the program keeps: maps, caches of tasks, and the working memory of a run.
 *
 * Invariant: every limit has a counter.
 */
#ifndef PCSTREAM_MAPS_H
#define PCSTREAM_MAPS_H

#include "settings.h"

/* Declares a map. User space gives some of them their size: here they have one entry. */
#define MAP_WITH(flags, name, kind, entries, key_type, value_type) \
	struct { \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(map_flags, flags); \
		__uint(max_entries, entries); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name SEC(".maps")
#define MAP(name, kind, entries, key_type, value_type) MAP_WITH(0, name, kind, entries, key_type, value_type)

MAP(counters, PERCPU_ARRAY, COUNTERS, u32, u64);

/* By CPU, and atomically: a program may interrupt another. */
static __always_inline void count(enum counter counter)
{
	u32 at = counter;
	u64 *n = bpf_map_lookup_elem(&counters, &at);

	if (n)
		__sync_fetch_and_add(n, 1);
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} records SEC(".maps");

/* How a record is put out. Waking user space costs the writer several microseconds, so what can wait is found by its next look
 * (some 50 ms), unless much waits already. After a record that woke nobody, only a forced one wakes. */
static __always_inline u64 record_flags(bool can_wait)
{
	if (prompt)
		return 0;
	return can_wait && bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) * 16 < bpf_ringbuf_query(&records, BPF_RB_RING_SIZE)
		       ? BPF_RB_NO_WAKEUP
		       : BPF_RB_FORCE_WAKEUP;
}

/* Puts a record into the buffer. False: there was no room. */
static __always_inline bool put(void *record, u64 bytes, bool can_wait)
{
	return !bpf_ringbuf_output(&records, record, bytes, record_flags(can_wait));
}

/* The same, and counts what had no room. */
static __always_inline bool send(void *record, u64 bytes, bool can_wait)
{
	if (put(record, bytes, can_wait))
		return true;
	count(LOST_TABLE_RECORDS);
	return false;
}

/* Written by whom: one entry per page frame, valid while it names the page's file and place in it. */
struct tag {
	u32 file; /* half of file_key; its lowest bit is TAG_DIRTY */
	u32 page;
	u64 context;
};

/* The page was made dirty in this context, and was not written back since. Without it, the page belongs to a folio that was. */
#define TAG_DIRTY 1

MAP(tags, ARRAY, 1, u32, struct tag);

static __always_inline bool is_tag_of(const struct tag *tag, u64 file, u64 page)
{
	return (tag->file | TAG_DIRTY) == ((u32)file | TAG_DIRTY) && tag->page == (u32)page;
}

/* The executable mappings of a process. */
struct ranges {
	u64 exec_vm, program; /* what identifies this state of this address space: see program_of */
	u64 executable;	      /* module key */
	u32 count;
	u32 unwind;	     /* how this process is unwound, whatever it maps; 0: not decided */
	u64 lowest, highest; /* address and end of all: outside is no return address */
	u32 incomplete;	     /* addresses that lie in none are looked up */
	u32 next;	     /* which range gives way to the next that is looked up, once the table is full */
	struct range range[MAX_RANGES];
};

/* Tells a program in a process from all that had the memory of its mm before: when the process began, and how many programs it ran. */
static __always_inline u64 program_of(struct task_struct *task)
{
	return signature_mix(BPF_CORE_READ(task, group_leader, start_boottime), BPF_CORE_READ(task, self_exec_id));
}

/* By the address of the mm. */
MAP(mappings, LRU_HASH, 512, u64, struct ranges);

/* A stack slot that held a return address. Offsets are from sp. */
struct stack_slot {
	u64 value;
	u32 offset;
	u32 bp_end; /* end of the slot in the same frame whose frame pointer leads to a later frame; 0: none does */
	u64 bp;	    /* that frame pointer, from sp */
};

/* A call path in a task's cache. */
struct cached_path {
	u64 key; /* see path_cache_key; 0: the entry is empty */
	u64 context;
	u32 slots;
	u32 by_bp; /* 1: bp as the task entered the kernel leads to a frame */
	u64 bp;	   /* then this, from sp */
	u64 end;   /* of the last slot, from sp */
	struct stack_slot slot[MAX_DEPTH];
};

/* Call paths that a task keeps coming back to: a transaction of SQLite writes journal and file along six paths. A power of two, as the
 * next. */
#define CACHED_PATHS 8
/* Mappings that a task writes from: a pool, a log, a stack. */
#define CACHED_MEMORIES 4

/* A mapping that held data of writes. */
struct memory {
	u64 mm, start, end;
	u64 space;    /* see places.h */
	u64 base;     /* add an address to get its offset in the space */
	u32 mappings; /* of the process, when this was looked up */
	u32 device;   /* of the file system whose file is shared there; 0: none is */
};

struct task_cache {
	u64 mm, exec_vm; /* the address space that `path` is about */
	struct cached_path path[CACHED_PATHS];
	u64 pending_file;		       /* file_key of the folio whose tags wait for on_mark_dirty; 0: none do */
	u64 pending_folio, pending_at;	       /* the folio, and its place in the file */
	u64 pending_from, pending_end;	       /* the pages of the file that are written */
	u64 write_file, write_from, write_end; /* file_key and pages of the write that the task is in, or was in last */
	u32 write_tag;			       /* index of the tag of its last page, plus one; 0: not known */
	u32 next_memory;
	struct memory memory[CACHED_MEMORIES];
	struct buffer_key copied; /* what the next write is a copy of */
	u64 copied_at;		  /* write system calls of the task then */
	struct buffer_key taken;  /* the page of a write buffer whose path was taken last, see buffers.h */
	u64 taken_by;		  /* by which write; 0: by none */
	u64 slot;		  /* see runtimes.h: where the task registered its slot; 0: nowhere */
	u64 slot_process;	  /* whose memory `slot` is in */
	u32 for_others;		  /* what the task does now for others, whose pages it makes dirty; 0: nothing */
	u32 unused;
};

MAP_WITH(BPF_F_NO_PREALLOC, tasks, TASK_STORAGE, 0, int, struct task_cache);

/* NULL: there is no memory for one. */
static __always_inline struct task_cache *cache_of(struct task_struct *task)
{
	struct task_cache *cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!cache)
		count(LOST_TASK_STORAGE);
	return cache;
}

/* It cleans segments of F2FS, or writes pages back. */
#define CLEANS 1
#define FLUSHES 2

/* Call-frame rules, put there by user space for the addresses that are on call paths. */
MAP(rules, HASH, 65536, struct module_offset, struct unwind_rule);

/* How many stacks are shipped for want of one rule; one that is shipped again counts for many. Bounds what captures cost if nobody
 * answers. */
#define MAX_SHIPPED 512
#define SHIPPED_AGAIN 64

MAP(asked, HASH, 65536, struct module_offset, u32);

/* When a stack was shipped, by the key of the context that it became. Until its rules come, others like it get the same. */
#define SHIP_AGAIN_NS 5000000000UL /* something must have been lost */

MAP(shipped, LRU_HASH, 16384, u64, u64);

/* Contexts whose records were sent. */
MAP(known_contexts, HASH, 65536, u64, u8);

/* Modules, files and runtime paths whose names were sent, by a hash of what they are. Least recently used, because names may be sent
 * again without harm. */
MAP(known_names, LRU_HASH, 262144, u64, u8);

static __always_inline bool is_known(u64 name)
{
	return bpf_map_lookup_elem(&known_names, &name);
}

static __always_inline void make_known(u64 name)
{
	u8 one = 1;

	bpf_map_update_elem(&known_names, &name, &one, BPF_ANY);
}

/* Processes that made pages dirty: their executables. */
MAP(processes, LRU_HASH, 65536, u32, u64);

/* Contexts of io_uring requests on their way to a worker, by the address of the io_kiocb. */
MAP(uring_contexts, LRU_HASH, 65536, u64, u64);

/* How many bytes of a request belong to contexts of each write stream, see streams.h. */
struct ballot {
	u32 version;
	u32 bytes;
	u32 leader, most; /* the stream with the most bytes, and how many */
	u32 votes[MAX_WRITE_STREAMS];
};

/* A walk over the pages of a request. */
struct walk {
	struct io_record run; /* pages with one owner: what is sent of them, but for their owner the same in the whole request */
	/* the request */
	struct bio_vec *vec;
	u32 left;	  /* bytes not walked yet */
	u32 skip;	  /* bytes of the first segment already done */
	u32 other_source; /* of pages that are not a file's */
	bool below;	  /* the request was seen before, above a device-mapper target */
	/* the segment */
	u64 page;
	u32 segment_left, segment_offset;
	/* the folio, and its owner */
	u64 folio, folio_index;
	u64 number;	  /* see number_by */
	u64 tagged, file; /* the page whose tag is that of the first one; file_key */
	struct owner owner;
	struct ballot ballot; /* comes last: not in use unless streams are given */
};

/* Where the walk up from a dentry to the root stands. */
struct climb {
	struct dentry *dentry;
	struct mount *mount;
	u32 at; /* bytes of text used */
};

/* Pages of a file whose tags are set. */
struct tagging {
	u64 mapping;   /* of the file, where its folios are looked up */
	u64 head;      /* of the folio; 0: none */
	u64 page;      /* the address of the page */
	u64 at;	       /* its place in the file */
	u64 from, end; /* what is written of the file, in pages; both 0: nothing */
	u64 file;      /* file_key */
	u64 context;
	u64 number;  /* see number_by */
	u32 index;   /* of the tag of the page that was looked at last, plus one; 0: none was */
	bool later;  /* the context follows */
	bool single; /* of one folio only */
	bool claims; /* pages are claimed, not only looked for */
};

/* Working memory of a program: too large for its stack. One entry per program, because one may
 * interrupt another. */
#define BUFFER_WORKSPACES 4

enum workspace_index {
	OF_DIRTY_FOLIO,
	OF_MARK_DIRTY,
	OF_BIO,
	OF_URING,
	OF_WRITE,
	OF_MIGRATE,
	OF_BUFFER,
	WORKSPACES = OF_BUFFER + BUFFER_WORKSPACES
};

_Static_assert(!(MAX_RANGES & (MAX_RANGES - 1)), "see range_of");
_Static_assert(!(MAX_WRITE_STREAMS & (MAX_WRITE_STREAMS - 1)), "see vote");
_Static_assert(!(MAX_DEPTH & (MAX_DEPTH - 1)), "see add_address");

/* Words that are read of a stack at once, at most. */
#define STACK_WORDS 512

struct workspace {
	/* the task, as it entered the kernel: see begin_capture */
	u64 ip, sp, bp;
	u32 by_bp;		       /* as in a cached path */
	struct context_record context; /* its pid and entry; the rest comes with its path */
	u32 found;		       /* return addresses in slot */
	struct stack_slot slot[MAX_DEPTH];
	u64 address;	    /* see number_of */
	u64 named;	    /* the file that emit_file saw last */
	u32 claimed;	    /* by a probe of a write buffer */
	u32 index;	    /* of this workspace */
	u32 ranges_changed; /* since they were loaded */
	u32 unsent;	    /* a module of the path, or its names, were not: nothing is kept that goes by them */
	struct ranges ranges;
	u64 frame_address, frame_sp, frame_bp; /* where a walk along rules stopped */
	struct module_offset missing;	       /* what for */
	u64 stack_hash;			       /* see hash_stack */
	u64 words[STACK_WORDS];
	struct path_record path;
	struct climb climb;
	struct walk walk;
	struct tagging tagging;
};

MAP(workspaces, PERCPU_ARRAY, WORKSPACES, u32, struct workspace);

static __always_inline struct workspace *workspace_of(u32 index)
{
	struct workspace *ws = bpf_map_lookup_elem(&workspaces, &index);

	if (ws)
		ws->index = index;
	return ws;
}

/* A kernel pointer as a number. The verifier allows no arithmetic on pointers that it tracks; what comes back from a map, in which `at`
 * lies, is any number to it. */
static __always_inline u64 number_by(u64 *at, u64 pointer)
{
	*(volatile u64 *)at = pointer;
	return *(volatile u64 *)at;
}

static __always_inline u64 number_of(struct workspace *ws, const void *pointer)
{
	return number_by(&ws->address, (u64)pointer);
}

#endif
