// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * Which call path wrote every page.
 *
 * A write has two moments. When a page becomes dirty, its writer is the current task and its call
 * path can be read: on_dirty_folio leaves a tag for the folio. Later, in some kernel thread, the
 * page goes to the device: on_bio walks the request, reads the tags and reports the runs. Direct
 * I/O has only the second moment, but there the writer is still the current task.
 *
 *   on_dirty_folio   tags the folio from the task's caches (same system call, same stack slots), or by a full
 *                    capture if the process's mappings and the rules of the path are known (and kernels need not look
 *                    mappings up one by one); otherwise leaves it to
 *   on_mark_dirty    which follows at once in the same task, with interrupts on, so that mappings can be read
 *                    and stacks shipped: full capture, tag corrected
 *   on_uring_punt    the submitter of an io_uring request that a worker will run: its context is
 *                    kept under the request
 *   on_buffer_page   see buffers.h: a page of a program's own write buffer became dirty; whoever writes it, the write
 *                    gets this call path
 *   on_prctl         see runtimes.h: a language runtime tells the paths of its programs
 *   on_exit          the end of a process that made pages dirty
 *   on_bio           requests: writes with owner, file page and context; discards, flushes, reads
 *
 * A tag lives in an array indexed by the folio's place in the memory map, so it costs no hash, no
 * eviction and no deletion: 16 bytes for each page frame of the machine.
 *
 * Invariants: a tag is used only if it names the same file and page as the folio does now. Memory
 * of the traced process is read with bounded reads that may fail. Every limit has a counter.
 *
 * Known weaknesses: a folio that is migrated or split between dirtying and writeback loses its tag
 * (UNTAGGED_FOLIOS counts it); only the first writer of a dirty folio is seen; io_uring with a
 * kernel-side submission thread has no user stack; code that replaces as many pages of other code at
 * the same address, between two captures, is taken for that.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "signature.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD 0x00200000
#define VM_EXEC 4
#define EBUSY 16 /* of bpf_find_vma: another thread holds the lock of the mappings */
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)

#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define REQ_OP_DISCARD 3
#define REQ_OP_SECURE_ERASE 5
#define REQ_OP_WRITE_ZEROES 9

/* Words of the user stack that a capture may read, in pieces of one probe each. */
#define STACK_WORDS 512
#define PIECE_WORDS 128
/* Words of a scan that are looked at together: by each call where they are read by calls; through a window, as groups that never lie in
 * two pages. */
#define GROUP_WORDS 16
/* Of them, those that may be return addresses: see EACH_OF_GROUP. */
#define GROUP_PLACES (GROUP_WORDS / 2)
/* Pages of a request that are walked: the block layer makes requests of up to 4,496 pages. */
#define MAX_BIO_PAGES 16384
/* No mapping begins below. */
#define LOWEST_ADDRESS 65536
#define USER_END (1UL << 47)
/* Frame pointers further apart than this are not frame pointers. */
#define MAX_FRAME_BYTES (1UL << 20)
/* Frames a chain must have before a process counts as built with frame pointers. */
#define FP_PROOF 4

/* Settings, fixed before load. */
const volatile u32 scan_depth = 5;    /* return address candidates of the stack scan (FAST'19: 5) */
const volatile u32 fp_depth = 12;     /* return addresses of the frame-pointer walk and of exact paths */
const volatile u32 unwind = 0;	      /* 0: the best that each stack allows; else a way, and no other */
const volatile u32 tag_mask = 0;      /* entries of the tags array, less one */
const volatile u32 check_every = 0;   /* one path in so many is sent with its whole stack; 0: none */
const volatile u32 left_out = 0;      /* to measure what the rest costs: 1: nothing is captured, 2: nor tagged */
const volatile u32 anew = 0;	      /* 1: no path is recognised, to measure captures */
const volatile u32 lazy_mappings = 0; /* 1: look mappings up one by one even if they can be iterated */
const volatile u32 direct_reads = 0;  /* 1: stacks may be read without calls, see direct.h */

/* Set once the file system is mounted; 0 switches everything off. */
u32 target_dev = 0;

/* The process that records. What it writes is not captured: its pages carry this context and are left out of the records. */
u32 recorder = 0;
#define CONTEXT_OF_RECORDER 1

u64 counters[COUNTERS];

/* The record types, for the generated Rust view. */
const struct io_record io_record_type = {};
const struct context_record context_record_type = {};
const struct path_record path_record_type = {};
const struct stack_record stack_record_type = {};
const struct rule_key rule_key_type = {};
const struct unwind_rule unwind_rule_type = {};
const enum record_type record_types = RECORD_IO;
const enum io_source io_sources = SOURCE_NONE;
const enum unwind_mode unwind_modes = UNWIND_NONE;
const enum rule_kind rule_kinds = RULE_SP;
const enum module_key module_keys = MODULE_ANON;
const enum entry entries = ENTRY_FAULT;
const enum io_flag io_flags = IO_FUA;
const enum counter counter_names = LOST_IO_RECORDS;
const enum buffer_kind buffer_kinds = BUFFER_DIRTY;
const struct buffer_rule buffer_rule_type = {};
const struct runtime_record runtime_record_type = {};
const struct process_record process_record_type = {};

/* Compares an index that the compiler knows to be in range once more, where it is used: the verifier of Linux 6.1
 * forgets what it learnt of a number whose copy was on the stack meanwhile. */
#define verified_below(n, limit)               \
	({                                     \
		asm volatile("" : "+r"(n));    \
		(n) < (limit);                 \
	})

static __always_inline void count(enum counter counter, u64 by)
{
	__sync_fetch_and_add(&counters[counter], by);
}

/* A number of which the verifier knows nothing: it takes what comes back from a map, as `through` is, for any number. Otherwise it follows
 * each value that a number was compared with on its own. */
static __always_inline u64 any_number(volatile u64 *through, u64 number)
{
	*through = number;
	return *through;
}

/* A kernel pointer as a number. The verifier allows no arithmetic on pointers that it tracks. */
static __always_inline u64 number_through(volatile u64 *through, const void *pointer)
{
	return any_number(through, (u64)pointer);
}

#include "direct.h"

/* ------------------------------------------------------------------ maps */

/* The counters from SAME_SYSCALL to FULL_CAPTURES, of which almost every page counts one: by CPU and without a locked
 * instruction. A program that interrupts another may lose one; what a limit cost is not counted here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FULL_CAPTURES - SAME_SYSCALL + 1);
	__type(key, u32);
	__type(value, u64);
} recognitions SEC(".maps");

static __always_inline void count_recognition(enum counter counter)
{
	u32 at = counter - SAME_SYSCALL;
	u64 *n = bpf_map_lookup_elem(&recognitions, &at);

	if (n)
		*n += 1;
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} records SEC(".maps");

/* Written by whom: one entry per page frame, valid while it names the folio's file and page. */
struct tag {
	u32 file;
	u32 page;
	u64 context;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tag);
} tags SEC(".maps");

/* The executable mappings of a process. */
struct ranges {
	u64 exec_vm, arg_start; /* what identifies this state of this address space */
	u64 executable;		/* module key */
	u32 count;
	u32 unwind; /* how this process is unwound; 0: not decided */
	u64 lowest, highest;	/* address and end of all: outside is no return address */
	u64 gap, gap_end; /* the widest between two of them, where there is none either: heaps and stacks of threads mostly lie in it */
	struct range range[MAX_RANGES];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64); /* address of the mm */
	__type(value, struct ranges);
} mappings SEC(".maps");

/* A stack slot that held a return address, in the order of the stack. They are read in pieces, as few as can be: to read
 * costs much more than to read more. */
struct stack_slot {
	u64 value;
	u32 offset;    /* from sp */
	/* Once the path is in pieces: */
	u16 piece_bytes; /* if not 0: a piece of the stack is read here */
	u16 at;		 /* word of that piece, or of the one before */
};

/* What a capture saw, to recognise the same call path at sight. */
struct remembered {
	u64 context;
	u32 slots;
	u32 in_pieces; /* see cut_pieces */
	struct stack_slot slot[MAX_DEPTH];
};

struct announced {
	u64 inode;
	u64 generation;
};

/* Call paths and files that a task keeps coming back to: a transaction of SQLite writes journal and
 * file along six paths. Powers of two. */
#define CACHED_PATHS 8
#define CACHED_FILES 4
#define CACHED_MEMORIES 2

/* A mapping that held data of writes. */
struct memory {
	u64 mm, start, end;
	u64 space; /* see buffers.h */
	u64 base; /* add an address to get its offset in the space */
	u32 mappings; /* of the process, when this was looked up */
	u32 page_bytes; /* of a pool of buffers; 0: it is none */
	u32 pools_added; /* when that was found out */
	u32 unused;
};

/* What every page needs comes first: it is out of the processor's cache when the next page becomes dirty. */
struct task_cache {
	u64 mm, exec_vm; /* the address space that `path` is about */
	u64 syscw;	 /* write system calls of the task when `last` was seen */
	u32 last;	 /* the path seen last */
	u32 pending;	 /* index of the tag that waits for a full capture, plus one */
	u64 address;	 /* see number_through */
	u64 slot;	 /* see runtimes.h: where the task tells its path; 0: nowhere */
	u64 place[CACHED_PATHS]; /* see place_of; 0: nothing is remembered */
	struct announced file[CACHED_FILES];
	struct remembered path[CACHED_PATHS];
	u32 draw;      /* pseudo-random: which path gives way */
	u32 next_file; /* where the next file goes */
	u64 slot_process;	/* whose memory `slot` is in */
	u64 told, told_context; /* the last path told, and its context */
	u64 told_process;
	s32 told_entry;
	u32 next_memory;
	struct memory memory[CACHED_MEMORIES];
	struct buffer_key copied; /* what the next write is a copy of */
	u64 copied_at;		  /* write system calls of the task then */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_cache);
} tasks SEC(".maps");

/* Call-frame rules, put there by user space for the addresses that were met. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct rule_key);
	__type(value, struct unwind_rule);
} rules SEC(".maps");

/* Most of them once more, each in the place that its key's hash names: found without a call. User space fills a place once, and
 * with the key last, so what is found there is whole. */
#define NEAR_RULES 16384

struct near_rule {
	struct unwind_rule rule;
	struct rule_key key; /* 0, 0: none */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NEAR_RULES);
	__type(key, u32);
	__type(value, struct near_rule);
} near_rules SEC(".maps");

/* How many stacks are shipped for want of one rule; one that is shipped again counts for many. Bounds what captures cost if nobody
 * answers. */
#define MAX_SHIPPED 512
#define SHIPPED_AGAIN 64

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct rule_key);
	__type(value, u32);
} asked SEC(".maps");

/* When a stack was shipped, by the key of the context that it became. Until its rules come, others like it get the same. */
#define SHIP_AGAIN_NS 5000000000UL /* something must have been lost */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u64);
} shipped SEC(".maps");

/* Contexts and modules already reported. A context's value is 0 while its record is not sent yet. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} known_contexts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} known_modules SEC(".maps");

/* Processes that made pages dirty: their executables. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u64);
} processes SEC(".maps");

struct file_key {
	u64 inode;
	u64 generation;
};

/* Least recently used, because a file may be announced again without harm. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct file_key);
	__type(value, u8);
} known_files SEC(".maps");

/* Contexts of io_uring requests on their way to a worker. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64); /* address of the io_kiocb */
	__type(value, u64);
} punted SEC(".maps");

/* A run of pages of a request, and where its walk stands. */
struct walk {
	/* the request */
	struct bio_vec *vec;
	u64 sector;
	u64 time_ns;
	u32 left; /* bytes not walked yet */
	u32 opf;
	/* the segment */
	u64 page;
	u32 segment_left, segment_offset;
	/* the file of the folio: mostly that of the folio before */
	u64 mapping;
	u64 mapping_inode;
	u32 mapping_generation, mapping_source;
	u32 mapping_hash; /* see file_hash */
	/* the folio */
	u32 folio_source;
	u64 folio, folio_index;
	u64 folio_context;
	/* the run */
	u64 inode, context, file_page;
	u32 generation, source, bytes;
	u32 skip; /* bytes of the first segment already done */
	/* of the request as a whole, for pages that are not a file's */
	u32 other_source;
	u8 head[16], tail[16];
};

/* Where the walk up from a dentry to the root stands. */
struct climb {
	struct dentry *dentry;
	struct mount *mount;
	u32 at; /* bytes of text used */
};

/* Working memory of a program: too large for its stack. One entry per program, because one may
 * interrupt another. */
#define BUFFER_WORKSPACES 4

enum workspace_owner {
	OF_DIRTY_FOLIO,
	OF_MARK_DIRTY,
	OF_BIO,
	OF_URING,
	OF_BUFFER,
	WORKSPACES = OF_BUFFER + BUFFER_WORKSPACES
};

/* Of both the latest only: what is not found there is looked up. */
#define MET_PATHS 128
#define KNOWN_PAGES 256
/* Of what is known of a page: bits of a range; and what is added to `known_as` to forget all of them, above those of a page's number. */
#define RANGE_BITS 8
#define KNOWN_AS_STEP (USER_END >> PAGE_SHIFT << RANGE_BITS)

_Static_assert(MAX_RANGES < 1 << RANGE_BITS && !(MAX_RANGES & (MAX_RANGES - 1)), "see known_page and range_at");
_Static_assert(!(MAX_DEPTH & (MAX_DEPTH - 1)), "see add_address");
_Static_assert(!(GROUP_WORDS & (GROUP_WORDS - 1)) && PIECE_WORDS % GROUP_WORDS == 0, "see pass_words and scan_group");

/* Where return addresses may lie: from the first mapping to the last, but for the widest gap. */
struct bounds {
	u64 low, low_bytes;
	u64 high, high_bytes; /* beyond the gap; `high` as a distance from `low` */
};

/* A trail (see begin_addresses), and the context of the path. */
struct met {
	u64 trail;
	u64 context;
};

/* What every capture needs comes first, and in few of the processor's pages. */
struct workspace {
	struct window window; /* see direct.h */
	/* the task, as it entered the kernel: see note_entry */
	u64 ip, sp, bp;
	u64 exec_vm;
	u32 pid;
	bool ranges_here; /* its mappings are those of the last capture */
	u32 asks;	  /* a hurried capture would have had to ask for something */
	u32 ranges_changed; /* since they were loaded */
	u64 ranges_of;	    /* whose they are, as a key of `mappings`; 0: nobody's */
	u64 noted_executable;
	u32 noted; /* the process, if it was taken note of, with this executable, since they were loaded */
	u32 near;  /* see stack_word */
	u64 known_as; /* is different for each table of mappings, and in all that is kept in known_page */
	struct range hit; /* the one of `ranges` where an address was located last */
	u64 trail_begins; /* see begin_addresses */
	u64 trail;	  /* of the addresses so far */
	u32 found;	  /* return addresses in slot */
	struct stack_slot slot[MAX_DEPTH];
	u64 address; /* see number_of */
	u32 claimed; /* by a probe of a write buffer */
	u32 owner;   /* index of this workspace */
	/* Words looked at together that may be return addresses. */
	u64 passed;
	u64 passed_word[GROUP_PLACES];
	u64 passed_at[GROUP_PLACES]; /* where they are */
	/* What is known of a page in its place: its number, and the index of its range plus one; 0: it is in none. See known_as */
	u64 known_page[KNOWN_PAGES];
	struct met met[MET_PATHS]; /* each in its place; of contexts whose record was sent */
	struct bounds bounds;	   /* of ranges */
	struct ranges ranges;
	u64 frame_address, frame_sp, frame_bp; /* where a walk along rules stopped */
	struct rule_key missing;	       /* what for */
	struct frame_record frame[MAX_FRAMES]; /* see name_frames */
	u64 words[STACK_WORDS];
	struct path_record path;
	struct climb climb;
	struct walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WORKSPACES);
	__type(key, u32);
	__type(value, struct workspace);
} workspaces SEC(".maps");

static __always_inline struct workspace *workspace_of(u32 owner)
{
	struct workspace *ws = bpf_map_lookup_elem(&workspaces, &owner);

	if (ws)
		ws->owner = owner;
	return ws;
}

/* See number_through. */
static __always_inline u64 number_of(struct workspace *ws, const void *pointer)
{
	return number_through(&ws->address, pointer);
}

/* --------------------------------------------------------------- symbols */

struct bpf_iter_task_vma {
	u64 opaque[1];
} __attribute__((aligned(8)));

extern int bpf_iter_task_vma_new(struct bpf_iter_task_vma *it, struct task_struct *task, u64 addr) __ksym __weak;
extern struct vm_area_struct *bpf_iter_task_vma_next(struct bpf_iter_task_vma *it) __ksym __weak;
extern void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma *it) __ksym __weak;

/* Completion functions tell what bi_private is. One that the kernel does not have is 0. */
extern const void iomap_dio_bio_end_io __ksym __weak;
extern const void end_bio_bh_io_sync __ksym __weak;
extern const void xfs_buf_bio_end_io __ksym __weak;

#define COMPLETES_BY(end_io, function) (&(function) && (end_io) == (u64)&(function))

/* ----------------------------------------------------------------- paths */

static long climb_step(u64 i, struct workspace **ws)
{
	struct path_record *r = &(*ws)->path;
	struct climb *climb = &(*ws)->climb;
	struct dentry *dentry = climb->dentry, *parent;
	struct mount *mount = climb->mount;
	const unsigned char *name;
	u32 at = climb->at, n = r->components, len;

	if (!dentry)
		return 1;
	parent = BPF_CORE_READ(dentry, d_parent);
	if (parent == dentry || (mount && dentry == BPF_CORE_READ(mount, mnt.mnt_root))) {
		struct mount *up = mount ? BPF_CORE_READ(mount, mnt_parent) : NULL;

		if (up == mount)
			return 1;
		climb->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		climb->mount = up;
		return 0;
	}
	if (n >= MAX_COMPONENTS || at >= PATH_TEXT) {
		r->truncated = 1;
		return 1;
	}
	len = BPF_CORE_READ(dentry, d_name.len) & (NAME_BYTES - 1);
	name = BPF_CORE_READ(dentry, d_name.name);
	if (!verified_below(at, PATH_TEXT) || bpf_probe_read_kernel(&r->text[at], len, name))
		return 1;
	if (!verified_below(n, MAX_COMPONENTS))
		return 1;
	r->length[n] = len;
	r->components = n + 1;
	climb->at = at + len;
	climb->dentry = parent;
	return 0;
}

/* Reports the path of `dentry`: up to the root of its file system or, if `mnt` is the address of a
 * vfsmount, on through the mounts. It is a module's if it has a key, else a file's. Returns 1 if the
 * record was sent. */
__noinline int announce_path(struct workspace *ws, u64 key, u64 dentry, u64 mnt, u64 inode_at)
{
	struct inode *inode = (void *)inode_at;
	struct path_record *r;

	if (!ws)
		return 0;
	r = &ws->path;
	r->type = key ? RECORD_MODULE : RECORD_FILE;
	r->pid = bpf_get_current_pid_tgid() >> 32;
	r->key = key;
	r->inode = BPF_CORE_READ(inode, i_ino);
	r->generation = BPF_CORE_READ(inode, i_generation);
	r->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	r->components = 0;
	r->truncated = 0;
	ws->climb.dentry = (void *)dentry;
	ws->climb.mount = mnt ? (void *)(mnt - bpf_core_field_offset(struct mount, mnt)) : NULL;
	ws->climb.at = 0;
	bpf_loop(2 * MAX_COMPONENTS, climb_step, &ws, 0);
	if (bpf_ringbuf_output(&records, r, sizeof(*r), 0)) {
		count(LOST_TABLE_RECORDS, 1);
		return 0;
	}
	return 1;
}

/* Whether a file is one of those that the task announced last. */
static __always_inline bool known_file(struct task_cache *cache, struct inode *inode)
{
	u64 number = inode->i_ino, generation = inode->i_generation;
	u32 i;

	for (i = 0; i < CACHED_FILES; i++)
		if (cache->file[i].inode == number && cache->file[i].generation == generation)
			return true;
	return false;
}

static __always_inline void announce_file(struct workspace *ws, struct task_cache *cache, struct inode *inode)
{
	struct file_key key = { .inode = inode->i_ino, .generation = inode->i_generation };
	struct announced *to;
	u8 one = 1;

	if (!bpf_map_lookup_elem(&known_files, &key)) {
		u64 dentry = number_of(ws, inode->i_dentry.first);

		if (dentry)
			dentry -= bpf_core_field_offset(struct dentry, d_u.d_alias);
		if (!announce_path(ws, 0, dentry, 0, number_of(ws, inode)))
			return;
		bpf_map_update_elem(&known_files, &key, &one, BPF_ANY);
	}
	if (cache) {
		to = &cache->file[cache->next_file++ & (CACHED_FILES - 1)];
		to->inode = key.inode;
		to->generation = key.generation;
	}
}

/* --------------------------------------------------------------- modules */

static __always_inline s64 mtime_of(struct inode *inode)
{
	struct inode___mtime_split *split = (void *)inode;
	struct inode___mtime_whole *whole = (void *)inode;
	struct inode___mtime_underscored *under = (void *)inode;

	if (bpf_core_field_exists(split->i_mtime_sec))
		return BPF_CORE_READ(split, i_mtime_sec) * 1000000000 + BPF_CORE_READ(split, i_mtime_nsec);
	if (bpf_core_field_exists(whole->i_mtime))
		return BPF_CORE_READ(whole, i_mtime.tv_sec) * 1000000000 + BPF_CORE_READ(whole, i_mtime.tv_nsec);
	return BPF_CORE_READ(under, __i_mtime.tv_sec) * 1000000000 + BPF_CORE_READ(under, __i_mtime.tv_nsec);
}

/* The module key of a mapped file, reported when it is new. Keys hold for this boot only; user
 * space replaces them by build ids. */
__noinline u64 module_of(struct workspace *ws, u64 file_at)
{
	struct file *file = (void *)file_at;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u64 key = SIGNATURE_SEED;
	u8 one = 1;

	if (!ws || !inode)
		return MODULE_ANON;
	key = signature_mix(key, BPF_CORE_READ(inode, i_sb, s_dev));
	key = signature_mix(key, BPF_CORE_READ(inode, i_ino));
	key = signature_mix(key, mtime_of(inode));
	key = signature_mix(key, BPF_CORE_READ(inode, i_size));
	if (!bpf_map_lookup_elem(&known_modules, &key) &&
	    announce_path(ws, key, (u64)BPF_CORE_READ(file, f_path.dentry),
			  (u64)BPF_CORE_READ(file, f_path.mnt), (u64)inode))
		bpf_map_update_elem(&known_modules, &key, &one, BPF_ANY);
	return key;
}

static __always_inline u64 executable_of(struct workspace *ws, struct mm_struct *mm)
{
	struct file *exe = BPF_CORE_READ(mm, exe_file);

	return exe ? module_of(ws, (u64)exe) : MODULE_ANON;
}

/* Ranges come in the order of their addresses, but where mappings are looked up one by one; what is told here is not used there. */
static __always_inline void widen(struct ranges *r, const struct range *by)
{
	if (r->highest && by->start > r->highest && by->start - r->highest > r->gap_end - r->gap) {
		r->gap = r->highest;
		r->gap_end = by->start;
	}
	if (by->start < r->lowest)
		r->lowest = by->start;
	if (by->end > r->highest)
		r->highest = by->end;
}

/* Adds an executable mapping to a table. Not the kernel's own for programs (vdso, uprobes), which call nobody: they lie above the
 * stack, and all addresses of the stack would be between mappings. */
static __always_inline void add_range(struct workspace *ws, struct mm_struct *mm, struct vm_area_struct *vma)
{
	struct ranges *r = &ws->ranges;
	u64 file = number_of(ws, vma->vm_file);
	struct range *to;
	u32 at = r->count;

	if (!file && vma->vm_start > mm->start_stack)
		return;
	if (at >= MAX_RANGES || vma->vm_end > USER_END) {
		count(DROPPED_MAPPINGS, 1);
		return;
	}
	to = &r->range[at];
	to->start = vma->vm_start;
	to->end = vma->vm_end;
	to->module = file ? module_of(ws, file) : MODULE_ANON;
	to->base = (file ? vma->vm_pgoff << PAGE_SHIFT : 0) - vma->vm_start;
	r->count = at + 1;
	widen(r, to);
	ws->ranges_changed = 1;
}

static long add_found_mapping(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	struct workspace *ws = *(struct workspace **)ctx;

	if (vma->vm_flags & VM_EXEC)
		add_range(ws, task->mm, vma);
	return 0;
}

/* The index of the range that an address lies in, plus one; 0: none. */
static __always_inline u32 find_range(struct ranges *r, u64 address)
{
	u32 i;

	for (i = 0; i < MAX_RANGES; i++) {
		if (i >= r->count)
			break;
		if (address - r->range[i].start < r->range[i].end - r->range[i].start)
			return i + 1;
	}
	return 0;
}

/* Whether mappings are looked up one by one, when an address asks for them. */
static __always_inline bool lazy(void)
{
	return !bpf_ksym_exists(bpf_iter_task_vma_new) || lazy_mappings;
}

/* The index of the range that an address lies in, plus one, and keeps it; 0: none. Needs interrupts on where mappings are looked up one
 * by one. */
__noinline int locate(struct workspace *ws, u64 address)
{
	struct ranges *r;
	u32 at;

	if (!ws)
		return 0;
	/* Not a user address, or one that no mapping can have. */
	if (address < LOWEST_ADDRESS || address >= USER_END)
		return 0;
	r = &ws->ranges;
	at = find_range(r, address);
	if (!at && lazy()) {
		/* Not to be kept as in none: the next word may be luckier. */
		if (bpf_find_vma(bpf_get_current_task_btf(), address, add_found_mapping, &ws, 0) == -EBUSY) {
			count(LOCKED_MAPPINGS, 1);
			return 0;
		}
		at = find_range(r, address);
	}
	ws->known_page[(address >> PAGE_SHIFT) % KNOWN_PAGES] = (address >> PAGE_SHIFT << RANGE_BITS | at) ^ ws->known_as;
	return at;
}

/* The same; told here, without a call, for an address below USER_END in a page that was met. */
static __always_inline u32 range_of(struct workspace *ws, u64 address)
{
	u64 page = address >> PAGE_SHIFT, at = ws->known_page[page % KNOWN_PAGES] ^ ws->known_as ^ page << RANGE_BITS;

	return at <= MAX_RANGES ? at : locate(ws, address);
}

static __always_inline struct range *range_at(struct workspace *ws, u32 at)
{
	at--;
	/* Else compilers that know how large it can be leave out what the verifier needs to see. */
	asm volatile("" : "+r"(at));
	return &ws->ranges.range[at & (MAX_RANGES - 1)];
}

/* Whether an address lies in executable memory; then ws->hit is its range, mostly that of the one before: a caller tends to lie in the
 * module of its callee. */
static __always_inline bool located(struct workspace *ws, u64 address)
{
	u32 at;

	if (address - ws->hit.start < ws->hit.end - ws->hit.start)
		return true;
	at = address < USER_END ? range_of(ws, address) : 0;
	if (at)
		ws->hit = *range_at(ws, at);
	return at;
}

/* Forgets the pages that were met, and the paths. */
static __always_inline void forget_pages(struct workspace *ws)
{
	volatile u64 *known = ws->known_page;
	volatile struct met *met = ws->met;
	u32 i;

	ws->known_as += KNOWN_AS_STEP;
	if (ws->known_as)
		return;
	for (i = 0; i < KNOWN_PAGES; i++)
		known[i] = 0;
	for (i = 0; i < MET_PATHS; i++)
		met[i].trail = met[i].context = 0;
}

/* Whether ws->ranges holds the mappings of this process still, from the last capture. */
static __always_inline bool ranges_here(struct workspace *ws, struct mm_struct *mm)
{
	ws->ranges_changed = 0;
	return !lazy() && ws->ranges_of == (u64)mm && ws->ranges.arg_start == mm->arg_start &&
	       ws->ranges.exec_vm == ws->exec_vm;
}

static __always_inline struct bounds bounds_of(struct workspace *ws)
{
	struct ranges *r = &ws->ranges;
	struct bounds b = { .low = LOWEST_ADDRESS, .low_bytes = USER_END - LOWEST_ADDRESS };

	if (lazy())
		return b;
	b.low = r->lowest;
	b.low_bytes = (r->gap ?: r->highest) - r->lowest;
	b.high = r->gap_end - r->lowest;
	b.high_bytes = r->gap ? r->highest - r->gap_end : 0;
	return b;
}

/* Fills ws->ranges with the executable mappings of the current process. Returns 0 if they could not
 * be read, or are not known and may not be enumerated (interrupts are off). */
__noinline int load_ranges(struct workspace *ws, bool may_enumerate)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	struct ranges *known, *r;
	u64 key = (u64)mm;
	u32 unwind_before = 0;

	if (!ws || !mm)
		return 0;
	r = &ws->ranges;
	ws->ranges_changed = 0;
	__builtin_memset(&ws->hit, 0, sizeof(ws->hit));
	forget_pages(ws);
	ws->ranges_of = 0;
	ws->noted = 0;
	known = bpf_map_lookup_elem(&mappings, &key);
	if (known && known->arg_start == mm->arg_start) {
		if (known->exec_vm == mm->exec_vm) {
			u32 ranges = known->count;

			/* Only what is used: the table is 4 KiB. */
			if (ranges > MAX_RANGES)
				ranges = MAX_RANGES;
			if (bpf_probe_read_kernel(r, offsetof(struct ranges, range) + ranges * sizeof(struct range),
						  known))
				return 0;
			/* Entries of the map are used again at once: this copy may be kept if it is still the one. */
			ws->bounds = bounds_of(ws);
			if (known->arg_start == mm->arg_start && known->exec_vm == mm->exec_vm &&
			    r->arg_start == mm->arg_start && r->exec_vm == mm->exec_vm)
				ws->ranges_of = key;
			return 1;
		}
		unwind_before = known->unwind;
	}
	if (!may_enumerate)
		return 0;
	ws->ranges_changed = 1;
	r->lowest = ~0UL;
	r->highest = 0;
	r->gap = r->gap_end = 0;
	r->exec_vm = mm->exec_vm;
	r->arg_start = mm->arg_start;
	r->executable = executable_of(ws, mm);
	r->count = 0;
	r->unwind = unwind_before;
	count(ENUMERATIONS, 1);
	if (bpf_ksym_exists(bpf_iter_task_vma_new) && !lazy_mappings) {
		struct bpf_iter_task_vma it;
		struct vm_area_struct *vma;
		int failed = bpf_iter_task_vma_new(&it, task, 0);

		while ((vma = bpf_iter_task_vma_next(&it)))
			if (vma->vm_flags & VM_EXEC)
				add_range(ws, mm, vma);
		bpf_iter_task_vma_destroy(&it);
		if (failed) {
			count(LOCKED_MAPPINGS, 1);
			return 0;
		}
	}
	ws->bounds = bounds_of(ws);
	ws->ranges_of = key;
	return 1;
}

/* How captures in other workspaces decided to unwind this process; 0: they did not yet. */
static __always_inline u32 decided_unwind(struct mm_struct *mm)
{
	u64 key = (u64)mm;
	struct ranges *known = bpf_map_lookup_elem(&mappings, &key);

	return known && known->arg_start == mm->arg_start ? known->unwind : 0;
}

static __always_inline void store_ranges(struct workspace *ws)
{
	u64 key;

	if (!ws->ranges_changed)
		return;
	key = (u64)bpf_get_current_task_btf()->mm;
	/* The same workspace, but as Linux 6.1 wants values: not an argument, but out of a map. */
	ws = workspace_of(ws->owner);
	if (ws)
		bpf_map_update_elem(&mappings, &key, &ws->ranges, BPF_ANY);
}

/* ---------------------------------------------------------------- stacks */

/* Begins the return addresses of a path. Their trail is a hash of them, which tells the path from others of the same mappings, so that what
 * they are in modules is found out once. It is computed on the way, while memory is waited for. */
static __always_inline void begin_addresses(struct workspace *ws)
{
	ws->found = 0;
	ws->trail = ws->trail_begins;
}

/* The same of the current capture, whose addresses may begin anew: each way to read the path begins with none. */
static __always_inline void begin_trail(struct workspace *ws, s32 entry)
{
	ws->trail_begins = signature_mix(signature_mix(ws->known_as, ws->ip), (u32)entry);
	begin_addresses(ws);
}

static __always_inline void add_address(struct workspace *ws, u64 address, u32 offset)
{
	u32 n = ws->found & (MAX_DEPTH - 1);
	struct stack_slot *slot = &ws->slot[n];

	slot->value = address;
	slot->offset = offset;
	ws->trail = signature_mix(ws->trail, address);
	ws->found = n + 1;
}

/* A function that reads stacks, in two: by calls, and through ws->window. The second is no function of its own, for to return from one
 * costs some processors 30 ns (those that must not predict it), and one program alone reads through ws->window. */
#define BOTH_WAYS(function)                                                       \
	__noinline int function##_by_calls(struct workspace *ws)                  \
	{                                                                         \
		return ws ? function##_as(ws, false) : -1;                        \
	}                                                                         \
	static __always_inline int function(struct workspace *ws, bool direct)    \
	{                                                                         \
		return direct ? function##_as(ws, true) : function##_by_calls(ws); \
	}

/* A number that compilers take for one of here, and so keep in a register here. */
#define in_register(number)                    \
	({                                     \
		u64 here = number;             \
		asm volatile("" : "+r"(here)); \
		here;                          \
	})

/* Where calls put return addresses, as the stack is at a multiple of 16 when they do (System V ABI for AMD64, section 3.2.2). */
#define EACH_OF_GROUP(do) do(1) do(3) do(5) do(7) do(9) do(11) do(13) do(15)
_Static_assert(GROUP_WORDS == 16, "EACH_OF_GROUP");

#define TEST_WORD(i)                                  \
	word = words[i];                              \
	beyond = word - low;                          \
	if (__builtin_expect(beyond < low_bytes, 0))  \
		goto passed_##i;                      \
	beyond = in_register(beyond - high);          \
	if (__builtin_expect(beyond < high_bytes, 0)) \
		goto passed_##i;                      \
	tested_##i:

#define PASS_WORD(i)                                          \
	passed_##i:                                           \
	ws->passed_word[n & (GROUP_PLACES - 1)] = word;       \
	ws->passed_at[n & (GROUP_PLACES - 1)] = from + i * 8; \
	n++;                                                  \
	goto tested_##i;

/* Which of a group of words, that begin at this address of the stack, a multiple of 16, may be return addresses and lie within bounds:
 * ws->passed, and the words. This is done to every other word, and the rest to few; so a word that does not goes straight on, six
 * instructions a word, with all else behind them. Compilers for BPF turn no branch round: they jump where it is written. */
static __always_inline void pass_words(struct workspace *ws, const u64 *words, u64 from)
{
	struct bounds *b = &ws->bounds;
	u64 low = in_register(b->low), low_bytes = in_register(b->low_bytes), high = in_register(b->high);
	u64 high_bytes = in_register(b->high_bytes), n = any_number(&ws->passed, 0), word, beyond;

	EACH_OF_GROUP(TEST_WORD)
	ws->passed = n;
	return;
	EACH_OF_GROUP(PASS_WORD)
}

/* Takes those of them that are return address candidates. Whether there are enough. */
static __always_inline bool take_candidates(struct workspace *ws)
{
	u64 offset;
	u32 i;

	for (i = 0; i < GROUP_PLACES; i++) {
		if (i >= ws->passed)
			break;
		offset = ws->passed_at[i] - ws->sp;
		/* Most of them are data of libraries. The first and last words may lie outside of what is to be scanned. */
		if (!range_of(ws, ws->passed_word[i]) || offset >= STACK_WORDS * 8)
			continue;
		add_address(ws, ws->passed_word[i], offset);
		if (ws->found >= scan_depth)
			return true;
	}
	return false;
}

/* Where a scan by calls begins: no place before the stack is looked at. */
static __always_inline u64 scan_begins(struct workspace *ws)
{
	return (ws->sp + 7) & ~15UL;
}

/* Takes the candidates of a group of ws->words. A function of its own, so that the verifier looks at it once. Whether there are enough. */
__noinline int scan_group(struct workspace *ws, u64 first)
{
	if (!ws || first > STACK_WORDS - GROUP_WORDS)
		return 1;
	pass_words(ws, ws->words + first % PIECE_WORDS / GROUP_WORDS * GROUP_WORDS, scan_begins(ws) + first * 8);
	return take_candidates(ws);
}

/* Reads the piece of the stack from here on. How many words: fewer than a piece has if the stack ends. */
static __always_inline u32 read_piece(struct workspace *ws, u64 from)
{
	u32 rest = PAGE_SIZE - (from & (PAGE_SIZE - 1));

	if (!bpf_probe_read_user(ws->words, PIECE_WORDS * 8, (void *)from))
		return PIECE_WORDS;
	if (rest >= PIECE_WORDS * 8)
		return 0;
	/* The stack of a shallow call may end before the piece does: its page is there. The rest is zero now. */
	rest &= PIECE_WORDS * 8 - 8;
	if (rest && !bpf_probe_read_user(ws->words, rest, (void *)from))
		return rest / 8;
	return 0;
}

static __always_inline void scan_by_calls(struct workspace *ws)
{
	u32 piece, group, words;

	for (piece = 0; piece < STACK_WORDS / PIECE_WORDS; piece++) {
		words = read_piece(ws, scan_begins(ws) + piece * PIECE_WORDS * 8);
		if (!words && !piece)
			count(STACK_UNREADABLE, 1);
		if (!words)
			return;
		for (group = 0; group < PIECE_WORDS / GROUP_WORDS; group++) {
			if (scan_group(ws, piece * PIECE_WORDS + group * GROUP_WORDS))
				return;
		}
		if (words < PIECE_WORDS)
			return;
	}
}

/* In groups that never lie in two pages. */
static __always_inline void scan_through_window(struct workspace *ws)
{
	u64 from = ws->sp & ~(GROUP_WORDS * 8UL - 1);
	const u64 *words;
	u32 group;

	for (group = 0; group < STACK_WORDS / GROUP_WORDS + 1; group++) {
		if (!user_page(&ws->window, from)) {
			if (group == 0 && !ws->window.lost)
				count(STACK_UNREADABLE, 1);
			return;
		}
		words = kernel_words(from + ws->window.shift);
		if (!words)
			return;
		pass_words(ws, words, from);
		if (take_candidates(ws))
			return;
		from += GROUP_WORDS * 8;
	}
}

/* The restricted scan (FAST'19, section 3.2): the first `scan_depth` words of the stack that lie in executable memory, of those where calls
 * put return addresses. The paper looks at the others, too, where code that keeps to the ABI leaves none. Weaknesses: Go, and local
 * functions that compilers call with less alignment as nothing in them needs more. */
static __always_inline void scan_stack(struct workspace *ws, bool direct)
{
	begin_addresses(ws);
	if (direct)
		scan_through_window(ws);
	else
		scan_by_calls(ws);
	/* A capture that lost its window is made once more. */
	if (ws->found < scan_depth && !(direct && ws->window.lost))
		count(SHORT_STACKS, 1);
}

/* Two words, at a multiple of 8. */
static __always_inline bool read_pair(struct workspace *ws, u64 at, u64 *pair, bool direct)
{
	if (direct)
		return user_word(&ws->window, at, &pair[0]) && user_word(&ws->window, at + 8, &pair[1]);
	return !bpf_probe_read_user(pair, 2 * sizeof(*pair), (void *)at);
}

/* Return addresses along saved frame pointers, beginning with the one at ws->bp. */
static __always_inline int walk_frame_pointers_as(struct workspace *ws, bool direct)
{
	u64 pair[2]; /* saved frame pointer, return address */
	u64 below, bp;
	u32 i;

	begin_addresses(ws);
	below = ws->sp;
	bp = ws->bp;
	for (i = 0; i < MAX_DEPTH; i++) {
		if (i >= fp_depth)
			break;
		if (bp < below || bp - below > MAX_FRAME_BYTES || (bp & 7))
			break;
		if (!read_pair(ws, bp, pair, direct))
			break;
		if (!located(ws, pair[1]))
			break;
		add_address(ws, pair[1], bp + 8 - ws->sp);
		below = bp + 16;
		bp = pair[0];
	}
	return ws->found;
}
BOTH_WAYS(walk_frame_pointers)

/* How a walk along call-frame rules ended. */
enum walk_end { WALK_DEPTH, WALK_OUTERMOST, WALK_NO_RULE, WALK_MISS, WALK_BROKEN };

/* Bytes of the stack that are read at once; what lies further up is read word by word. */
#define NEAR_BYTES 2048

/* One word of the user stack, of which the first ws->near bytes are in ws->words. */
static __always_inline bool stack_word(struct workspace *ws, u64 at, u64 *word, bool direct)
{
	u64 offset = at - ws->sp, near = ws->near;

	if (direct && !(at & 7))
		return user_word(&ws->window, at, word);
	if (offset < near && near - offset >= 8 && !(offset & 7)) {
		*word = ws->words[(offset / 8) & (STACK_WORDS - 1)];
		return true;
	}
	return !bpf_probe_read_user(word, sizeof(*word), (void *)at);
}

static __always_inline struct unwind_rule *find_rule(const struct rule_key *key)
{
	u32 place = signature_mix(key->module, key->offset) % NEAR_RULES;
	struct near_rule *near = bpf_map_lookup_elem(&near_rules, &place);

	if (near && near->key.module == key->module && near->key.offset == key->offset)
		return &near->rule;
	return bpf_map_lookup_elem(&rules, key);
}

/* Return addresses along call-frame rules, from the instruction at ws->ip. */
static __always_inline int walk_rules_as(struct workspace *ws, bool direct)
{
	u64 address, sp, bp, word;
	u32 i;

	begin_addresses(ws);
	if (!located(ws, ws->ip))
		return WALK_NO_RULE;
	address = ws->ip;
	sp = ws->sp;
	bp = ws->bp;
	/* In memory, where the verifier does not follow it. */
	ws->near = direct || bpf_probe_read_user(ws->words, NEAR_BYTES, (void *)sp) ? 0 : NEAR_BYTES;
	for (i = 0; i < MAX_DEPTH; i++) {
		struct rule_key key = {};
		struct unwind_rule *rule;
		u64 cfa;

		if (i >= fp_depth)
			break;
		if (ws->hit.module == MODULE_ANON)
			return WALK_NO_RULE;
		key.module = ws->hit.module;
		key.offset = address + ws->hit.base;
		if (i == 0)
			key.offset |= RULE_AT_IP;
		rule = find_rule(&key);
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
		if (cfa <= sp || cfa - sp > MAX_FRAME_BYTES || (cfa & 7))
			return WALK_BROKEN;
		if (rule->bp_offset && !stack_word(ws, cfa + rule->bp_offset, &bp, direct))
			return WALK_BROKEN;
		if (!stack_word(ws, cfa - 8, &word, direct) || !located(ws, word))
			return WALK_BROKEN;
		add_address(ws, word, cfa - 8 - ws->sp);
		address = word;
		sp = cfa;
	}
	return WALK_DEPTH;
}
BOTH_WAYS(walk_rules)

/* -------------------------------------------------------------- contexts */

static __always_inline struct pt_regs *user_regs(struct task_struct *task)
{
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

/* The same without a call, where the place is known. */
static __always_inline struct pt_regs *user_regs_direct(struct workspace *ws, struct task_struct *task)
{
	u64 at;

	if (!direct_reads || !bpf_ksym_exists(bpf_rdonly_cast))
		return user_regs(task);
	at = direct.map ? number_of(ws, task->stack) + direct.regs : number_of(ws, (void *)user_regs(task));
	return bpf_rdonly_cast((void *)at, bpf_core_type_id_kernel(struct pt_regs));
}

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

static __always_inline bool announce_process(u32 pid, u64 executable, bool ended)
{
	struct process_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		count(LOST_TABLE_RECORDS, 1);
		return false;
	}
	r->type = RECORD_PROCESS;
	r->pid = pid;
	r->time_ns = bpf_ktime_get_ns();
	r->executable = executable;
	r->ended = ended;
	r->reserved = 0;
	bpf_ringbuf_submit(r, 0);
	return true;
}

/* With the mappings of the last capture still here, its process is this one (or a child that shares its memory). */
static __always_inline bool noted(struct workspace *ws, u32 pid, u64 executable)
{
	return ws->noted == pid && ws->noted_executable == executable;
}

/* Takes note of the current process, which makes pages dirty. */
static __always_inline void note_process(struct workspace *ws, u32 pid, u64 executable)
{
	u64 *known;

	if (noted(ws, pid, executable))
		return;
	known = bpf_map_lookup_elem(&processes, &pid);
	if (!known || *known != executable) {
		if (!announce_process(pid, executable, false))
			return;
		bpf_map_update_elem(&processes, &pid, &executable, BPF_ANY);
	}
	if (ws->ranges_of == (u64)bpf_get_current_task_btf()->mm) {
		ws->noted = pid;
		ws->noted_executable = executable;
	}
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
__noinline u64 announce_context(struct workspace *ws, u32 pid, u64 executable, s32 entry, u32 mode)
{
	struct context_record *r;
	u8 not_sent = 0, *known;
	u32 i, frames;
	u64 key;

	if (!ws)
		return 0;
	note_process(ws, pid, executable);
	frames = frames_of(ws, mode);
	key = key_of(ws, executable, entry, mode);
	if (bpf_map_lookup_elem(&known_contexts, &key))
		return key;
	if (bpf_map_update_elem(&known_contexts, &key, &not_sent, BPF_NOEXIST)) {
		if (bpf_map_lookup_elem(&known_contexts, &key))
			return key; /* another CPU was faster */
		count(LOST_CONTEXTS, 1);
		return 0;
	}
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		count(LOST_TABLE_RECORDS, 1);
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
	for (i = 0; i < MAX_FRAMES; i++) {
		r->frame[i].module = i < frames ? ws->frame[i].module : 0;
		r->frame[i].offset = i < frames ? ws->frame[i].offset : 0;
	}
	bpf_ringbuf_submit(r, 0);
	known = bpf_map_lookup_elem(&known_contexts, &key);
	if (known)
		*known = 1;
	return key;
}

static __always_inline void name_frame(struct workspace *ws, struct frame_record *frame, u64 address)
{
	bool code = located(ws, address);

	frame->module = code ? ws->hit.module : MODULE_ANON;
	/* MODULE_ANON has no offsets. */
	frame->offset = frame->module == MODULE_ANON ? 0 : address + ws->hit.base;
}

/* What the addresses of the path are in their modules: ws->frame. */
static __always_inline void name_frames(struct workspace *ws)
{
	u32 i;

	name_frame(ws, &ws->frame[0], ws->ip);
	for (i = 0; i < MAX_DEPTH; i++) {
		if (i >= ws->found)
			break;
		name_frame(ws, &ws->frame[i + 1], ws->slot[i].value);
	}
}

/* See context_of. */
__noinline u64 name_path(struct workspace *ws, s32 entry, u32 mode)
{
	struct met *met;
	u8 *sent;
	u64 key;

	if (!ws)
		return 0;
	name_frames(ws);
	key = announce_context(ws, ws->pid, ws->ranges.executable, entry, mode);
	met = &ws->met[ws->trail % MET_PATHS];
	sent = bpf_map_lookup_elem(&known_contexts, &key);
	if (sent && *sent) {
		met->trail = ws->trail;
		met->context = key;
	}
	return key;
}

/* The context of the path in `ws`, told here if it was met lately, with its process. */
static __always_inline u64 context_of(struct workspace *ws, s32 entry, u32 mode)
{
	struct met *met = &ws->met[ws->trail % MET_PATHS];

	if (met->trail == ws->trail && noted(ws, ws->pid, ws->ranges.executable))
		return met->context;
	return name_path(ws, entry, mode);
}

/* The rule that a walk lacked, on the stack, as kernels before 6.2 want keys. */
static __always_inline struct rule_key missing_rule(struct workspace *ws)
{
	struct rule_key missing = {};

	missing.module = ws->missing.module;
	missing.offset = ws->missing.offset;
	return missing;
}

/* Whether user space may be asked once more for the rule that a walk lacked. */
static __always_inline bool may_ask(const struct rule_key *missing)
{
	u32 *times = bpf_map_lookup_elem(&asked, missing);

	return !times || *times < MAX_SHIPPED;
}

static __always_inline void count_asked(const struct rule_key *missing, u32 by)
{
	u32 *times = bpf_map_lookup_elem(&asked, missing);

	if (times)
		__sync_fetch_and_add(times, by);
	else
		bpf_map_update_elem(&asked, missing, &by, BPF_ANY);
}

/* Whether stacks leave room for what must not be lost: of the buffer they take half. */
static __always_inline bool room_for_stacks(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / 2;
}

static __always_inline bool within(const struct bounds *b, u64 word)
{
	return word - b->low < b->low_bytes || word - b->low - b->high < b->high_bytes;
}

/* Bytes of the stack that are looked at in one step. Steps begin at multiples of it, so that none lies in two pages. */
#define LOOKED_UP_BYTES 512

/* What a walk can depend on: code, and the stack's own addresses, which most words that are addresses at all are. A function that
 * bpf_loop calls, because compilers make loops of it that Linux 6.1 refuses (entered in their middle) or do not unroll it. */
static long look_up_piece(u64 piece, struct workspace **at)
{
	struct workspace *ws = *at;
	struct bounds *b = &ws->bounds;
	u64 from = (ws->frame_sp & ~(LOOKED_UP_BYTES - 1UL)) + piece * LOOKED_UP_BYTES;
	u32 i;

	if (bpf_probe_read_user(ws->words, LOOKED_UP_BYTES, (void *)from))
		return 0;
	for (i = 0; i < LOOKED_UP_BYTES / 8; i++) {
		u64 word = ws->words[i];

		if (from + i * 8 < ws->frame_sp)
			continue;
		if (word - ws->frame_sp < STACK_BYTES || (within(b, word) && range_of(ws, word)))
			ws->trail = signature_mix(signature_mix(ws->trail, from + i * 8), word);
	}
	return 0;
}

/* The key of a path that stopped for want of a rule, and of all that the rest of it can depend on. On the way, the mappings of all code
 * addresses of the stack are looked up, where that is done one by one: user space can unwind only through those it is told. */
static __always_inline u64 look_up_stack(struct workspace *ws, s32 entry)
{
	name_frames(ws);
	ws->trail = key_of(ws, ws->ranges.executable, entry, UNWIND_EXACT);
	ws->trail = signature_mix(ws->trail, ws->ranges.exec_vm);
	ws->trail = signature_mix(ws->trail, ws->ranges.arg_start);
	ws->trail = signature_mix(ws->trail, ws->frame_sp);
	ws->trail = signature_mix(ws->trail, ws->frame_bp);
	bpf_loop(STACK_BYTES / LOOKED_UP_BYTES + 1, look_up_piece, &ws, 0);
	return ws->trail | 1;
}

/* Fills in a record about the stack of the current task from `frame_sp` of the workspace on. */
static __always_inline void copy_stack(struct stack_record *r, struct workspace *ws)
{
	u32 i, at = 0, ranges = ws->ranges.count;

	r->pid = ws->pid;
	r->executable = ws->ranges.executable;
	r->address = ws->frame_address;
	r->sp = ws->frame_sp;
	r->bp = ws->frame_bp;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
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
}

/* Sends the whole stack of the current task with the context that it was given, so that user space can find out whether
 * that is right. For tests. */
__noinline int check_path(struct workspace *ws, u64 context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct stack_record *r;

	if (!check_every || !ws || !regs || !task->mm || !context || bpf_get_prandom_u32() % check_every)
		return 0;
	if (!ranges_here(ws, task->mm) && !load_ranges(ws, false))
		return 0;
	ws->pid = task->tgid;
	ws->frame_address = regs->ip;
	ws->frame_sp = regs->sp;
	ws->frame_bp = regs->bp;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r)
		return 0;
	r->type = RECORD_CHECK;
	r->key = context;
	r->entry = (s32)regs->orig_ax;
	r->frames = 0;
	copy_stack(r, ws);
	bpf_ringbuf_submit(r, 0);
	return 1;
}

/* A stack that is not shipped: the key of one like it that was; 0: there is none. */
static __always_inline u64 unshipped(u64 key)
{
	if (!key)
		count(UNSHIPPED_STACKS, 1);
	return key;
}

/* Sends the rest of the stack of a walk that lacked a rule to user space, which unwinds it and adds the rules
 * that are missing; not if one like it was sent just now. Returns the key that is its context's, or 0 if it was not sent. */
__noinline u64 ship_stack(struct workspace *ws, s32 entry, u64 key)
{
	struct rule_key missing;
	u64 now = bpf_ktime_get_ns(), *before;
	struct stack_record *r;
	u32 i, frames;

	if (!ws)
		return 0;
	note_process(ws, ws->pid, ws->ranges.executable);
	before = bpf_map_lookup_elem(&shipped, &key);
	if (before && now - *before < SHIP_AGAIN_NS)
		return key;
	if (!room_for_stacks())
		return unshipped(before ? key : 0);
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r)
		return unshipped(before ? key : 0);
	missing = missing_rule(ws);
	count_asked(&missing, before ? SHIPPED_AGAIN : 1);
	r->type = RECORD_STACK;
	r->key = key;
	r->entry = entry;
	frames = frames_of(ws, UNWIND_EXACT);
	r->frames = frames;
	for (i = 0; i < MAX_FRAMES; i++) {
		r->frame[i].module = i < frames ? ws->frame[i].module : 0;
		r->frame[i].offset = i < frames ? ws->frame[i].offset : 0;
	}
	copy_stack(r, ws);
	bpf_ringbuf_submit(r, 0);
	/* Not before: whoever gets the key next, its record comes later. */
	bpf_map_update_elem(&shipped, &key, &now, BPF_ANY);
	count(SHIPPED_STACKS, 1);
	return key;
}

/* The context of a path that stopped for want of a rule, by asking user space; 0: it was asked often enough, or cannot be. */
static __always_inline u64 ask(struct workspace *ws, s32 entry)
{
	struct rule_key missing = missing_rule(ws);

	if (!may_ask(&missing))
		return unshipped(0);
	return ship_stack(ws, entry, look_up_stack(ws, entry));
}

/* Return addresses as far as they can be told without rules. Returns how they were. */
static __always_inline int guess_path_as(struct workspace *ws, bool direct)
{
	u32 mode, found = 0;

	if (!unwind && !ws->ranges.unwind)
		ws->ranges.unwind = decided_unwind(bpf_get_current_task_btf()->mm);
	mode = unwind ? unwind : ws->ranges.unwind;
	if (mode != UNWIND_SCAN)
		found = walk_frame_pointers(ws, direct);
	if (mode == UNWIND_NONE) {
		mode = found >= FP_PROOF ? UNWIND_FP : UNWIND_SCAN;
		ws->ranges.unwind = mode;
		ws->ranges_changed = 1;
	}
	/* A stack that begins in code without frame pointers breaks the chain at once. */
	if (mode == UNWIND_SCAN || (found < 2 && !unwind)) {
		mode = UNWIND_SCAN;
		scan_stack(ws, direct);
	}
	return mode;
}

/* A function of its own: the verifier looks at it once. */
__noinline int guess_path_direct(struct workspace *ws)
{
	return ws ? guess_path_as(ws, true) : 0;
}

/* Where nothing but a scan was asked for, a guess is the whole capture, and the verifier has time enough for it to be no function. */
static __always_inline int guess_path(struct workspace *ws, bool direct)
{
	return !direct || unwind == UNWIND_SCAN ? guess_path_as(ws, direct) : guess_path_direct(ws);
}

/* How a capture reads the process. */
enum reading {
	READ_CALMLY,	/* interrupts are on: it may ask for what it does not know */
	READ_HURRIEDLY, /* they are off */
	READ_DIRECTLY,	/* they are off, after begin_direct: without calls */
};

static __always_inline u64 read_path_as(struct workspace *ws, s32 entry, enum reading reading)
{
	bool hurried = reading != READ_CALMLY, direct = reading == READ_DIRECTLY;
	u32 mode = UNWIND_NONE;
	int end = WALK_DEPTH;
	u64 key;

	ws->asks = 1;
	if (hurried && lazy())
		return 0;
	if (direct)
		open_first(&ws->window, ws->sp);
	ws->found = 0;
	if (!ws->ranges_here && !load_ranges(ws, !hurried)) {
		if (hurried)
			return 0;
		return announce_context(ws, ws->pid, executable_of(ws, bpf_get_current_task_btf()->mm), entry, UNWIND_NONE);
	}
	begin_trail(ws, entry);
	if (!unwind || unwind == UNWIND_EXACT) {
		end = walk_rules(ws, direct);
		if (end == WALK_MISS) {
			if (hurried)
				return 0;
			/* Here, for the verifier allows no deeper calls. */
			key = ask(ws, entry);
			if (key) {
				ws->asks = 0;
				ws->found = 0;
				store_ranges(ws);
				return key;
			}
		}
		/* Code without rules: what comes before it is worth more than a guess, unless there is nothing. */
		if (end == WALK_DEPTH || end == WALK_OUTERMOST || ws->found >= 2 || unwind)
			mode = UNWIND_EXACT;
	}
	if (mode == UNWIND_NONE)
		mode = guess_path(ws, direct);
	if (direct && !windows_held(&ws->window)) {
		/* Nor is what was decided on it to be kept. */
		ws->ranges_of = 0;
		return 0;
	}
	ws->asks = 0;
	if (mode == UNWIND_EXACT && end != WALK_DEPTH && end != WALK_OUTERMOST)
		count(CUT_PATHS, 1);
	store_ranges(ws);
	key = context_of(ws, entry, mode);
	/* Not to be recognised by its slots: the next time there may be more to see, or no guess is needed. */
	if (end == WALK_MISS || (mode == UNWIND_EXACT && end == WALK_BROKEN))
		ws->found = 0;
	return key;
}

/* See `capture`. */
__noinline u64 read_path(struct workspace *ws, s32 entry)
{
	return ws ? read_path_as(ws, entry, READ_CALMLY) : 0;
}

__noinline u64 read_path_hurried(struct workspace *ws, s32 entry)
{
	return ws ? read_path_as(ws, entry, READ_HURRIEDLY) : 0;
}

/* Begins to look at the current task. Each look at the kernel's own memory costs nine instructions, so it is taken once. */
static __always_inline void note_entry(struct workspace *ws, struct task_struct *task, struct pt_regs *regs)
{
	if (!task->mm || !regs)
		return;
	ws->ip = regs->ip;
	ws->sp = regs->sp;
	ws->exec_vm = task->mm->exec_vm;
}

/* Reads the call path of the current task, after note_entry, with all means. Never 0 unless a table is full (without a stack the context
 * is the executable and the entry), or interrupts are off: then it is 0 as well, and ws->asks 1, where mappings or call-frame rules are
 * asked for that are not known; always, where mappings are looked up one by one. */
static __always_inline u64 capture(struct workspace *ws, struct task_struct *task, struct pt_regs *regs, s32 entry,
				   enum reading reading)
{
	ws->asks = 0;
	if (!task->mm || !regs)
		return 0;
	if (unwind != UNWIND_SCAN)
		ws->bp = regs->bp;
	ws->pid = task->tgid;
	ws->ranges_here = ranges_here(ws, task->mm);
	if (reading == READ_DIRECTLY)
		return read_path_as(ws, entry, READ_DIRECTLY);
	return reading == READ_HURRIEDLY ? read_path_hurried(ws, entry) : read_path(ws, entry);
}

/* Where a task entered the kernel, as a hash; never 0. What it looks like there tells most call paths apart. */
static __always_inline u64 place_of(struct workspace *ws, s32 entry)
{
	return signature_mix(signature_mix(signature_mix(SIGNATURE_SEED, ws->ip), ws->sp), (u32)entry) ?: 1;
}

/* Keeps what the full capture in `ws` saw, for recognition. */
static __always_inline void remember(struct task_cache *cache, struct workspace *ws, struct task_struct *task,
				     u64 place, u64 context)
{
	u32 at, i, n = ws->found;
	struct remembered *path;

	count_recognition(FULL_CAPTURES);
	if (n > MAX_DEPTH)
		n = MAX_DEPTH;
	if (cache->mm != (u64)task->mm || cache->exec_vm != ws->exec_vm) {
		for (i = 0; i < CACHED_PATHS; i++)
			cache->place[i] = 0;
		cache->mm = (u64)task->mm;
		cache->exec_vm = ws->exec_vm;
	}
	/* At random: in turn, a cycle of one path more than the cache holds would never be recognised. */
	cache->draw = cache->draw * 1664525 + 1013904223;
	at = cache->draw >> 24 & (CACHED_PATHS - 1);
	cache->last = at;
	cache->syscw = write_syscalls(task);
	cache->place[at] = context ? place : 0;
	path = &cache->path[at];
	path->context = context;
	path->slots = n;
	path->in_pieces = 0;
	/* Without a loop, though there are mostly fewer. */
	__builtin_memcpy(path->slot, ws->slot, sizeof(path->slot) / 2);
	if (n > MAX_DEPTH / 2)
		__builtin_memcpy(path->slot + MAX_DEPTH / 2, ws->slot + MAX_DEPTH / 2, sizeof(path->slot) / 2);
}

/* Cuts the stack into pieces that are read by one call each. Only where it is read by calls. */
static __always_inline void cut_pieces(struct workspace *ws, struct remembered *path)
{
	struct stack_slot *piece = NULL;
	u32 i, first = 0;

	for (i = 0; i < MAX_DEPTH; i++) {
		u32 offset = path->slot[i].offset;

		if (i >= path->slots)
			break;
		if (!piece || offset + 8 - first > sizeof(ws->words)) {
			first = offset;
			piece = &path->slot[i];
		}
		path->slot[i].piece_bytes = 0;
		path->slot[i].at = (offset - first) / 8;
		piece->piece_bytes = offset + 8 - first;
	}
	path->in_pieces = 1;
}

/* Whether the stack slots that held a path's return addresses hold the same ones now. */
__noinline int same_slots(struct workspace *ws, struct remembered *path, u64 sp)
{
	u32 i;

	if (!ws || !path)
		return 0;
	if (!path->in_pieces)
		cut_pieces(ws, path);
	for (i = 0; i < MAX_DEPTH; i++) {
		struct stack_slot *slot = &path->slot[i];
		u32 bytes = slot->piece_bytes;

		if (i >= path->slots)
			break;
		if (bytes && (bytes > sizeof(ws->words) ||
			      bpf_probe_read_user(ws->words, bytes, (void *)(sp + slot->offset))))
			return 0;
		if (ws->words[slot->at & (STACK_WORDS - 1)] != slot->value)
			return 0;
	}
	return 1;
}

/* The same through ws->window. All are compared before it is told, so that no load waits for another. */
static __always_inline bool same_slots_here(struct workspace *ws, struct remembered *path, u64 sp)
{
	u64 word, different = 0;
	u32 i;

	for (i = 0; i < MAX_DEPTH; i++) {
		if (i >= path->slots)
			break;
		if (!user_word(&ws->window, sp + path->slot[i].offset, &word))
			return 0;
		different |= word ^ path->slot[i].value;
	}
	return !different && windows_held(&ws->window);
}

__noinline int same_slots_direct(struct workspace *ws, struct remembered *path, u64 sp)
{
	return ws && path && same_slots_here(ws, path, sp);
}

/* Whether a path is remembered here that was seen from this place. */
static __always_inline bool may_be(struct task_cache *cache, u32 at, u64 place)
{
	return cache->place[at & (CACHED_PATHS - 1)] == place && cache->path[at & (CACHED_PATHS - 1)].slots;
}

static __always_inline u64 recognised_as(struct task_cache *cache, u32 at, u64 syscw)
{
	count_recognition(SAME_SLOTS);
	cache->syscw = syscw;
	cache->last = at;
	return cache->path[at & (CACHED_PATHS - 1)].context;
}

/* Begins to read the current task without calls, with interrupts off; false: it cannot be read like that. */
static __always_inline bool begin_direct(struct workspace *ws, struct task_struct *task, struct pt_regs *regs)
{
	if (!direct_reads || !direct.map || !task->mm || !regs || ws->sp & 7)
		return false;
	close_windows(&ws->window, task->mm->pgd);
	return true;
}

/* The context of the current task if it can be told at sight, else 0. Works with interrupts off. `direct`: after begin_direct. */
static __always_inline u64 recognise(struct workspace *ws, struct task_cache *cache, struct task_struct *task,
				     struct pt_regs *regs, u64 place, s32 entry, bool direct)
{
	struct mm_struct *mm = task->mm;
	u64 syscw;
	u32 i, at, first = CACHED_PATHS;

	if (anew || !mm || !regs || cache->mm != (u64)mm || cache->exec_vm != ws->exec_vm)
		return 0;
	syscw = write_syscalls(task);
	at = cache->last & (CACHED_PATHS - 1);
	if (syscw && cache->syscw == syscw && counted_syscall(entry) && cache->place[at] == place) {
		count_recognition(SAME_SYSCALL);
		return cache->path[at].context;
	}
	/* The last one first: a task mostly goes on as before. */
	if (direct) {
		first = at;
		if (!may_be(cache, first, place)) {
#pragma clang loop unroll(full)
			for (i = 0; i < CACHED_PATHS; i++) {
				if (may_be(cache, i, place))
					break;
			}
			if (i == CACHED_PATHS)
				return 0;
			first = i;
		}
		/* Where it was seen from tells most paths apart, so one is looked at without a call. */
		open_first(&ws->window, ws->sp);
		if (same_slots_here(ws, &cache->path[first & (CACHED_PATHS - 1)], ws->sp))
			return recognised_as(cache, first, syscw);
	}
	for (i = 0; i < CACHED_PATHS; i++) {
		at = (cache->last + i) & (CACHED_PATHS - 1);
		if (may_be(cache, at, place) && at != first &&
		    (direct ? same_slots_direct(ws, &cache->path[at], ws->sp) :
			      same_slots(ws, &cache->path[at], ws->sp)))
			return recognised_as(cache, at, syscw);
	}
	return 0;
}

static __always_inline s32 entry_of(struct pt_regs *regs)
{
	return regs ? (s32)regs->orig_ax : ENTRY_FAULT;
}

#include "buffers.h"
#include "runtimes.h"

/* What the runtime tells, else recognise, else capture. Needs interrupts on. */
static __always_inline u64 context_now(u32 owner, struct task_struct *task, struct inode *inode)
{
	struct pcstream_slot told = {};
	struct workspace *ws = workspace_of(owner);
	struct pt_regs *regs = user_regs(task);
	struct task_cache *cache;
	s32 entry = entry_of(regs);
	u64 context, place;

	if (!ws || !task->mm || !regs)
		return 0;
	note_entry(ws, task, regs);
	cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!cache) {
		count(LOST_TASK_STORAGE, 1);
		count_recognition(FULL_CAPTURES);
		return capture(ws, task, regs, entry, READ_CALMLY);
	}
	if (runtime_path(cache, task, entry, number_of(ws, inode), &told)) {
		count_recognition(RUNTIME_PATHS);
		context = recognise_runtime(cache, &told, entry);
		return context ? context : announce_runtime(ws, cache, task, &told, entry);
	}
	place = place_of(ws, entry);
	context = recognise(ws, cache, task, regs, place, entry, false);
	if (!context) {
		context = capture(ws, task, regs, entry, READ_CALMLY);
		remember(cache, ws, task, place, context);
	}
	if (check_every)
		check_path(ws, context);
	return context;
}

/* The context of the submitter for whom an io_uring worker works. */
static __always_inline u64 context_of_worker(u32 owner, struct task_struct *task)
{
	struct io_worker *worker = task->worker_private;
	struct io_wq_work *work = worker ? BPF_CORE_READ(worker, cur_work) : NULL;
	struct workspace *ws = workspace_of(owner);
	u64 request = 0, *context = NULL;

	count(URING_WORKERS, 1);
	if (work) {
		request = (u64)work - bpf_core_field_offset(struct io_kiocb, work);
		context = bpf_map_lookup_elem(&punted, &request);
	}
	if (context)
		return *context;
	count(URING_UNKNOWN, 1);
	if (!ws || !task->mm)
		return 0;
	return announce_context(ws, task->tgid, executable_of(ws, task->mm), ENTRY_URING, UNWIND_NONE);
}

/* ------------------------------------------------------------------ tags */

static __always_inline u32 file_hash(u64 inode, u32 generation)
{
	return signature_mix(signature_mix(SIGNATURE_SEED, inode), generation);
}

static __always_inline u32 tag_index(u64 folio)
{
	u64 bytes = bpf_core_type_size(struct page);

	/* It is 64 on nearly all kernels, and to divide by another number takes longer. */
	return (bytes == 64 ? folio / 64 : folio / bytes) & tag_mask;
}

/* Pages whose capture is postponed, of all tasks: mostly none, and then on_mark_dirty has nothing to look for. */
u32 postponed_captures = 0;

static __always_inline void postpone(struct task_cache *cache, u32 at)
{
	if (cache->pending)
		count(LOST_PENDING, 1);
	else
		__sync_fetch_and_add(&postponed_captures, 1);
	cache->pending = at + 1;
}

/* The context of a page that becomes dirty if it can be told with interrupts off, else 0; then `*later` says whether it may
 * be told with interrupts on. */
static __always_inline u64 context_at_once(struct task_cache *cache, struct task_struct *task, struct inode *inode,
					   u64 file_page, bool *later)
{
	struct workspace *ws = workspace_of(OF_DIRTY_FOLIO);
	struct pcstream_slot told = {};
	struct pt_regs *regs;
	u64 context, place;
	bool direct;
	s32 entry;

	if (!ws)
		return 0;
	regs = user_regs_direct(ws, task);
	entry = entry_of(regs);
	context = context_of_buffer(cache, task, regs, entry, file_page, false, later);
	if (context || *later)
		return context;
	if (runtime_path(cache, task, entry, number_through(&cache->address, inode), &told)) {
		context = recognise_runtime(cache, &told, entry);
		if (context)
			count_recognition(RUNTIME_PATHS);
		*later = !context;
		return context;
	}
	note_entry(ws, task, regs);
	direct = begin_direct(ws, task, regs);
	place = place_of(ws, entry);
	context = recognise(ws, cache, task, regs, place, entry, direct);
	if (!context && regs) {
		place = any_number(&ws->address, place);
		entry = any_number(&ws->address, entry);
		context = capture(ws, task, regs, entry, direct ? READ_DIRECTLY : READ_HURRIEDLY);
		*later = ws->asks;
		if (context)
			remember(cache, ws, task, place, context);
	}
	if (check_every)
		check_path(ws, context);
	return context;
}

/* Run once by the recorder itself, which need not know its number here: it may live in a PID namespace. */
SEC("syscall")
int note_recorder(void *ctx)
{
	recorder = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(on_dirty_folio, struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task;
	struct task_cache *cache;
	struct workspace *ws;
	struct inode *inode;
	struct tag *tag;
	bool later = false, own;
	u64 context = 0;
	u32 at;

	if (!target_dev || !folio || !mapping)
		return 0;
	inode = mapping->host;
	if (!inode || inode->i_sb->s_dev != target_dev)
		return 0;
	task = bpf_get_current_task_btf();
	/* A kernel thread marks a page dirty again that somebody else had written: keep the tag. Or it writes for a
	 * loop device, to a file that nobody else may ever write to. */
	if (task->flags & PF_KTHREAD) {
		ws = workspace_of(OF_DIRTY_FOLIO);
		if (ws)
			announce_file(ws, NULL, inode);
		return 0;
	}
	own = task->tgid == recorder;
	cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!cache)
		count(LOST_TASK_STORAGE, 1);
	if (!own && (!cache || !known_file(cache, inode))) {
		ws = workspace_of(OF_DIRTY_FOLIO);
		if (ws)
			announce_file(ws, cache, inode);
	}
	if (left_out > 1)
		return 0;
	if (cache) {
		at = tag_index(number_through(&cache->address, folio));
	} else {
		ws = workspace_of(OF_DIRTY_FOLIO);
		if (!ws)
			return 0;
		at = tag_index(number_of(ws, folio));
	}
	tag = bpf_map_lookup_elem(&tags, &at);
	if (!tag)
		return 0;
	if (own)
		context = CONTEXT_OF_RECORDER;
	else if (task->flags & PF_IO_WORKER)
		context = context_of_worker(OF_DIRTY_FOLIO, task);
	else if (cache && !left_out)
		context = context_at_once(cache, task, inode, folio->index, &later);
	if (later)
		postpone(cache, at);
	tag->file = file_hash(inode->i_ino, inode->i_generation);
	tag->page = folio->index;
	tag->context = context;
	return 0;
}

SEC("tp_btf/writeback_mark_inode_dirty")
int BPF_PROG(on_mark_dirty, struct inode *inode)
{
	struct task_struct *task;
	struct task_cache *cache;
	bool postponed = false;
	struct pt_regs *regs;
	struct tag *tag;
	u64 context;
	u32 at;

	if (!postponed_captures || !target_dev || !inode || inode->i_sb->s_dev != target_dev)
		return 0;
	task = bpf_get_current_task_btf();
	cache = bpf_task_storage_get(&tasks, task, 0, 0);
	if (!cache || !cache->pending)
		return 0;
	at = cache->pending - 1;
	cache->pending = 0;
	__sync_fetch_and_sub(&postponed_captures, 1);
	tag = bpf_map_lookup_elem(&tags, &at);
	if (!tag)
		return 0;
	regs = user_regs(task);
	context = context_of_buffer(cache, task, regs, entry_of(regs), tag->page, true, &postponed);
	if (!context)
		context = context_now(OF_MARK_DIRTY, task, inode);
	tag->context = context;
	return 0;
}

SEC("tp_btf/io_uring_queue_async_work")
int BPF_PROG(on_uring_punt, struct io_kiocb *req)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file *file;
	u64 key = (u64)req, context;

	if (!target_dev || !req)
		return 0;
	/* The kernel's submission thread has no user stack. Nor is the context of whoever had this request before its. */
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER)) {
		bpf_map_delete_elem(&punted, &key);
		return 0;
	}
	file = req->file;
	if (!file || file->f_inode->i_sb->s_dev != target_dev)
		return 0;
	context = context_now(OF_URING, task, file->f_inode);
	if (context)
		bpf_map_update_elem(&punted, &key, &context, BPF_ANY);
	else
		bpf_map_delete_elem(&punted, &key);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 pid = task->tgid;
	u64 *known;

	if (!target_dev || BPF_CORE_READ(task, signal, live.counter))
		return 0;
	known = bpf_map_lookup_elem(&processes, &pid);
	if (!known)
		return 0;
	announce_process(pid, *known, true);
	bpf_map_delete_elem(&processes, &pid);
	return 0;
}

/* -------------------------------------------------------------- requests */

static __always_inline u32 flags_of(u32 opf)
{
	return (opf >> bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH) & 1 ? IO_PREFLUSH : 0) |
	       (opf >> bpf_core_enum_value(enum req_flag_bits, __REQ_FUA) & 1 ? IO_FUA : 0);
}

static __always_inline void emit(struct walk *w)
{
	struct io_record *r = NULL;

	if (w->context != CONTEXT_OF_RECORDER)
		r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (r) {
		r->type = RECORD_IO;
		r->op = w->opf & REQ_OP_MASK;
		r->time_ns = w->time_ns;
		r->sector = w->sector;
		r->inode = w->inode;
		r->context = w->context;
		r->file_page = w->file_page;
		r->bytes = w->bytes;
		r->generation = w->generation;
		r->source = w->source;
		r->flags = flags_of(w->opf);
		__builtin_memcpy(r->head, w->head, sizeof(r->head));
		__builtin_memcpy(r->tail, w->tail, sizeof(r->tail));
		bpf_ringbuf_submit(r, 0);
	} else if (w->context != CONTEXT_OF_RECORDER) {
		count(LOST_IO_RECORDS, 1);
	}
	w->sector += w->bytes >> 9;
	w->bytes = 0;
}

/* Looks at a mapping that is not the one of the folio before. */
static __always_inline void enter_mapping(struct walk *w, u64 mapping)
{
	struct inode *inode = NULL;

	w->mapping = mapping;
	w->mapping_source = w->other_source;
	w->mapping_inode = 0;
	w->mapping_generation = 0;
	/* The low bits mark anonymous and movable memory. */
	if (!mapping || (mapping & 3))
		return;
	inode = BPF_CORE_READ((struct address_space *)mapping, host);
	/* Memory of the kernel has something else in this place: it does not lead to our device. */
	if (!inode || BPF_CORE_READ(inode, i_sb, s_dev) != target_dev)
		return;
	w->mapping_source = SOURCE_CACHE;
	w->mapping_inode = BPF_CORE_READ(inode, i_ino);
	w->mapping_generation = BPF_CORE_READ(inode, i_generation);
	w->mapping_hash = file_hash(w->mapping_inode, w->mapping_generation);
}

/* Looks at a folio that the walk meets for the first time. */
static __always_inline void enter_folio(struct walk *w, u64 at)
{
	struct folio *folio = (void *)at;
	u64 mapping = (u64)BPF_CORE_READ(folio, mapping);
	struct tag *tag;
	u32 index;

	if (mapping != w->mapping || !w->folio)
		enter_mapping(w, mapping);
	w->folio = at;
	w->folio_source = w->mapping_source;
	w->folio_context = 0;
	w->folio_index = 0;
	if (w->folio_source != SOURCE_CACHE)
		return;
	w->folio_index = BPF_CORE_READ(folio, index);
	if ((w->opf & REQ_OP_MASK) != REQ_OP_WRITE)
		return;
	index = tag_index(at);
	tag = bpf_map_lookup_elem(&tags, &index);
	if (tag && tag->page == (u32)w->folio_index && tag->file == w->mapping_hash)
		w->folio_context = tag->context;
	if (!w->folio_context)
		count(UNTAGGED_FOLIOS, 1);
}

static long walk_page(u64 i, struct walk **at)
{
	struct walk *w = *at;
	u64 page, head, file_page;
	u32 chunk;

	if (!w->left)
		return 1;
	if (!w->segment_left) {
		struct bio_vec vec = {};

		if (bpf_probe_read_kernel(&vec, bpf_core_type_size(struct bio_vec), w->vec))
			return 1;
		w->vec = (void *)w->vec + bpf_core_type_size(struct bio_vec);
		if (vec.bv_len <= w->skip)
			return 1;
		w->page = (u64)vec.bv_page;
		w->segment_offset = vec.bv_offset + w->skip;
		w->segment_left = vec.bv_len - w->skip;
		if (w->segment_left > w->left)
			w->segment_left = w->left;
		w->skip = 0;
	}
	page = w->page + (w->segment_offset >> PAGE_SHIFT) * bpf_core_type_size(struct page);
	chunk = PAGE_SIZE - (w->segment_offset & (PAGE_SIZE - 1));
	if (chunk > w->segment_left)
		chunk = w->segment_left;
	head = BPF_CORE_READ((struct page *)page, compound_head);
	head = head & 1 ? head - 1 : page;
	if (head != w->folio)
		enter_folio(w, head);
	file_page = w->folio_source == SOURCE_CACHE ?
			    w->folio_index + (page - head) / bpf_core_type_size(struct page) : 0;
	if (w->bytes && !(w->source == w->folio_source && w->inode == w->mapping_inode &&
			  w->generation == w->mapping_generation && w->context == w->folio_context &&
			  (w->source != SOURCE_CACHE || file_page == w->file_page + (w->bytes >> PAGE_SHIFT))))
		emit(w);
	if (!w->bytes) {
		w->source = w->folio_source;
		w->inode = w->mapping_inode;
		w->generation = w->mapping_generation;
		w->context = w->folio_context;
		w->file_page = file_page;
	}
	w->bytes += chunk;
	w->segment_offset += chunk;
	w->segment_left -= chunk;
	w->left -= chunk;
	return 0;
}

/* Direct I/O: the whole request belongs to one file and to the current task. */
static __always_inline void direct_owner(struct walk *w, struct bio *bio)
{
	struct iomap_dio *dio = bio->bi_private;
	struct task_struct *task = bpf_get_current_task_btf();
	struct kiocb *iocb = BPF_CORE_READ(dio, iocb);
	struct file *file = BPF_CORE_READ(iocb, ki_filp);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct workspace *ws = workspace_of(OF_BIO);
	struct task_cache *cache = NULL;
	struct file_key key = {};
	u8 one = 1;

	w->source = SOURCE_DIRECT;
	w->inode = BPF_CORE_READ(inode, i_ino);
	w->generation = BPF_CORE_READ(inode, i_generation);
	/* `size` counts what was submitted so far, this request included. */
	w->file_page = (BPF_CORE_READ(iocb, ki_pos) + BPF_CORE_READ(dio, size) - w->left) >> PAGE_SHIFT;
	w->bytes = w->left;
	if ((w->opf & REQ_OP_MASK) != REQ_OP_WRITE)
		return;
	if (task->tgid == recorder) {
		w->context = CONTEXT_OF_RECORDER;
		return;
	}
	key.inode = w->inode;
	key.generation = w->generation;
	if (ws && !bpf_map_lookup_elem(&known_files, &key) &&
	    announce_path(ws, 0, (u64)BPF_CORE_READ(file, f_path.dentry), 0, (u64)inode))
		bpf_map_update_elem(&known_files, &key, &one, BPF_ANY);
	if (task->flags & PF_KTHREAD)
		return;
	if (buffers)
		cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (cache)
		w->context = context_of_direct_buffer(cache, task, dio, w->left);
	if (w->context)
		return;
	if (task->flags & PF_IO_WORKER)
		w->context = context_of_worker(OF_BIO, task);
	else
		w->context = context_now(OF_BIO, task, inode);
}

/* What the owner of a metadata request can tell about it. */
static __always_inline void metadata_owner(struct walk *w, struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io;

	if (COMPLETES_BY(end_io, end_bio_bh_io_sync)) {
		struct buffer_head *bh = bio->bi_private;
		char *data = BPF_CORE_READ(bh, b_data);
		u64 size = BPF_CORE_READ(bh, b_size);

		w->other_source = SOURCE_BUFFER;
		bpf_probe_read_kernel(w->head, sizeof(w->head), data);
		bpf_probe_read_kernel(w->tail, sizeof(w->tail), data + size - sizeof(w->tail));
	} else if (COMPLETES_BY(end_io, xfs_buf_bio_end_io)) {
		struct xfs_buf *buffer = bio->bi_private;
		const char *name = BPF_CORE_READ(buffer, b_ops, name);

		w->other_source = SOURCE_XFS_BUFFER;
		bpf_probe_read_kernel_str(w->head, sizeof(w->head), name);
	}
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	struct workspace *ws;
	struct walk *w;
	u32 op;

	if (!target_dev || !bio || bio->bi_bdev->bd_dev != target_dev)
		return 0;
	op = bio->bi_opf & REQ_OP_MASK;
	if (op != REQ_OP_READ && op != REQ_OP_WRITE && op != REQ_OP_FLUSH && op != REQ_OP_DISCARD &&
	    op != REQ_OP_SECURE_ERASE && op != REQ_OP_WRITE_ZEROES)
		return 0;
	ws = workspace_of(OF_BIO);
	if (!ws)
		return 0;
	/* In the workspace rather than on the stack: the verifier would track every number there. */
	w = &ws->walk;
	__builtin_memset(w, 0, sizeof(*w));
	w->opf = bio->bi_opf;
	w->time_ns = bpf_ktime_get_ns();
	w->sector = bio->bi_iter.bi_sector;
	w->left = bio->bi_iter.bi_size;
	/* The kernel adds a partition's start to requests that have a size, and to no others (a flush). */
	if (w->left)
		w->sector -= bio->bi_bdev->bd_start_sect;
	if (!w->left || (op != REQ_OP_WRITE && op != REQ_OP_READ)) {
		w->bytes = w->left;
		emit(w);
		return 0;
	}
	if (COMPLETES_BY((u64)bio->bi_end_io, iomap_dio_bio_end_io)) {
		direct_owner(w, bio);
		emit(w);
		return 0;
	}
	metadata_owner(w, bio);
	w->vec = (void *)(number_of(ws, bio->bi_io_vec) + bio->bi_iter.bi_idx * bpf_core_type_size(struct bio_vec));
	w->skip = bio->bi_iter.bi_bvec_done;
	bpf_loop(MAX_BIO_PAGES, walk_page, &w, 0);
	if (w->bytes)
		emit(w);
	if (w->left)
		count(LOST_LONG_REQUESTS, 1);
	return 0;
}
