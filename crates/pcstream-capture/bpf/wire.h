/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * What crosses from the kernel to user space: the records of the ring buffer, the counters, and the
 * limits. This header is the only definition; the Rust view (src/wire/generated.rs) is made from it.
 *
 * Units: times in nanoseconds (CLOCK_MONOTONIC), sectors of 512 bytes, file pages of 4 KiB.
 */
#ifndef PCSTREAM_WIRE_H
#define PCSTREAM_WIRE_H

/* Numbers that both sides go by. */
enum limit {
	MAX_DEPTH = 16,	 /* return addresses in a context, at most */
	SCAN_DEPTH = 5,	 /* by default: of the stack scan, as in the paper (FAST'19) */
	FP_DEPTH = 12,	 /* ... of the frame-pointer walk and of exact paths: RocksDB's flush and compaction part at the ninth */
	MAX_FRAME_BYTES = 0x100000, /* frame pointers further apart are not frame pointers */
	MAX_STACK_BYTES = 0x40000000, /* a frame that rules describe may be as large as any stack */
	FP_PROOF = 4,	 /* return addresses that a chain of frame pointers must have to be believed */
	FP_PROOF_OUTERMOST = 2, /* ... if it ends with 0, as outermost frames do */
	SCANNED_BYTES = 4096, /* of the stack, that a scan looks at */
	LOWEST_ADDRESS = 65536, /* no mapping begins below */
	MAX_WRITE_STREAMS = 32, /* that requests can be given, none (0) included */
	PAGE_STREAM_SLOTS = 0x100000, /* of `page_streams`: places for pages of the disk, by their number modulo this; then four counts a stream */
	MAX_BUFFER_RULES = 64,
	MIN_BUFFER_BYTES = 512, /* of a page of a write buffer */
	MAX_BUFFER_BYTES = 0x100000,
};

/* With the instruction pointer. */
#define MAX_FRAMES (MAX_DEPTH + 1)

/* Contexts that no path has: those are hashes. */
enum fixed_context {
	CONTEXT_OF_RECORDER = 1, /* of what the recorder writes: such pages are left out of the records */
	CONTEXT_OF_OTHERS = 2,	 /* of what others write than those that are followed */
};

/* Whose writes get contexts. */
enum followed {
	FOLLOWED_ALL = 0,
	FOLLOWED_PROCESSES = 1,
	FOLLOWED_CGROUP = 2,
};

/* Who gives requests their streams. */
enum placed_by {
	PLACED_BY_NOBODY = 0,
	PLACED_BY_MODULE = 1,	/* pcstream_bio, as they are made */
	PLACED_BY_SERVER = 2,	/* the server of the ublk device, which finds them in `page_streams` */
	PLACED_BY_PROGRAMS = 3, /* nobody here: what programs gave is counted */
};

/* Executable mappings kept of a process; those beyond are looked up one by one. A C++ program has 20 to 40, ffmpeg 216. */
#define MAX_RANGES 512

/* Components of a path, and the bytes that hold their names. A longer path keeps its last
 * components and is marked. */
#define MAX_COMPONENTS 24
#define PATH_TEXT 2048
#define NAME_BYTES 256

enum record_type {
	RECORD_IO = 1,
	RECORD_CONTEXT = 2,
	RECORD_MODULE = 3,
	RECORD_FILE = 4,
	RECORD_STACK = 5,
	RECORD_RUNTIME = 6,
	RECORD_PROCESS = 8,
	RECORD_CHECK = 7, /* a stack_record: a whole stack, and the context that it was given */
};

/* Who owns the pages of a request. */
enum io_source {
	SOURCE_NONE = 0,     /* nothing is known; metadata, or memory of the kernel */
	SOURCE_CACHE = 1,    /* page cache of a file */
	SOURCE_DIRECT = 2,   /* direct I/O on a file */
	SOURCE_BUFFER = 3,   /* a buffer head: head and tail hold the block's ends */
	SOURCE_XFS_BUFFER = 4, /* a buffer of XFS: head holds its verifier's name */
	SOURCE_SWAP = 5,     /* memory that is swapped out to a file */
	SOURCE_DIRECTORY = 6, /* page cache of a directory (F2FS) */
	SOURCE_INTERNAL = 7, /* page cache of another inode that is no file's: `inode` is its number (F2FS) */
};

/* How the frames of a context were found. */
enum unwind_mode {
	UNWIND_NONE = 0,
	UNWIND_FP = 1,
	UNWIND_SCAN = 2,
	UNWIND_EXACT = 3,
	UNWIND_RUNTIME = 4, /* from a language runtime: one frame, whose offset is the path's signature */
	UNWIND_CUT = 5, /* as UNWIND_EXACT, but it ends before the outermost frame */
};

/* Whose pages are: of which file, and who wrote them. */
struct owner {
	u64 inode;
	u64 context;
	u32 generation;
	u32 source; /* enum io_source */
};

/* One run of a request that has one owner and consecutive file pages. */
struct io_record {
	u32 type;
	u32 op; /* REQ_OP_* */
	u64 time_ns;
	u64 sector;
	struct owner owner;
	u64 file_page;
	u32 bytes;
	u16 reserved;
	u8 write_hint;	 /* enum rw_hint of the kernel; 0: none, or the kernel does not pass it on (before 6.9) */
	u8 write_stream; /* 0: none (before 6.16 always) */
	u8 head[16];
	u8 tail[16];
};

/* Requests that ended up with one write stream. */
struct stream_count {
	u64 requests;
	u64 bytes;
	u64 minority_bytes;    /* of these, what belonged to contexts of other streams */
	u64 refused_bytes;     /* of requests, or pages for a server, that should have had it, and went without */
	u64 bytes_of_programs; /* of requests to which the program gave it */
};

/* A place in code: of a frame, or of a rule. */
struct module_offset {
	u64 module; /* key of a module record; MODULE_ANON for code without a file */
	u64 offset; /* in the file; of a rule for an interrupted instruction with RULE_AT_IP, else of a return address */
};

#define RULE_AT_IP (1ULL << 63)

enum module_key {
	MODULE_ANON = 1,
	MODULE_RUNTIME = 2,
};

/* Entries into the kernel that are not system calls: -1, -2 and -3, written so that clang 14 and newer
 * ones describe them alike (before 16, type information has no sign for enumerations). */
enum entry {
	ENTRY_FAULT = 0xffffffffu,
	ENTRY_URING = 0xfffffffeu,
	ENTRY_BUFFER = 0xfffffffdu, /* a page of a program's write buffer became dirty */
	ENTRY_32BIT = 0x20000000u, /* with the number of a system call as 32-bit programs have it */
};

struct context_record {
	u32 type;
	u32 pid;
	u64 key;
	u64 executable; /* key of a module record */
	s32 entry;	/* system call number (with ENTRY_32BIT or without), or another ENTRY_* */
	u32 unwind;
	u32 frames;
	u32 reserved;
	u8 comm[16];
	struct module_offset frame[MAX_FRAMES];
};

/* An executable mapping. */
struct range {
	u64 start, end;
	u64 base; /* file offset of `start`, less `start`: add an address to get its file offset */
	u64 module;
};

/* How to get from a frame to its caller's: one row of a call-frame table (DWARF 5, section 6.4),
 * reduced to what compilers use. The canonical frame address (CFA) is the caller's stack pointer
 * after its call; the return address lies below it. */
struct unwind_rule {
	u32 kind;	/* enum rule_kind */
	s32 cfa_offset; /* from the register that `kind` names */
	s32 bp_offset;	/* from the CFA, to where the caller's frame pointer is saved; 0: it is unchanged */
	u32 into_function; /* bytes from the first instruction of the function to the one of this rule */
};

enum rule_kind {
	RULE_SP = 1,  /* CFA = stack pointer + cfa_offset */
	RULE_BP = 2,  /* CFA = frame pointer + cfa_offset */
	RULE_END = 3, /* the outermost frame */
	RULE_NONE = 4, /* no rule is known, or one of another form: the path is cut here */
};

/* How a probed function shows which page of a write buffer it is about. */
#define MAX_BUFFER_OFFSETS 4

enum buffer_kind {
	BUFFER_DIRTY = 1,  /* the page became dirty */
	BUFFER_COPIED = 2, /* the thread's next write is a copy of the page */
	BUFFER_STREAM = 3, /* it will be written as a whole, and the program asks for its stream */
};

struct buffer_rule {
	u32 kind;
	u32 rank; /* a path replaces a waiting one of the same or a lower rank */
	u32 argument; /* the register that holds it, see `register_of` */
	u32 page_bytes;
	u32 page_bytes_argument; /* if not 0: the register that says it */
	/* The argument is a page's number, counted from `from`, in the pool that the variable at `variable` bytes
	 * from the probed instruction points to */
	u32 numbered;
	s64 variable;
	s32 from;
	/* ... or an address: of the page, or of where to follow pointers at these offsets */
	u32 offsets;
	s32 offset[MAX_BUFFER_OFFSETS];
	/* The argument itself is (register - the variable at `base` bytes from the probed instruction, if not 0 - bias) >> shift */
	s64 base;
	s64 bias;
	u32 shift;
	u32 was_clean; /* marked once for each time that the page becomes dirty */
};

/* The place of a page of a write buffer. */
struct buffer_key {
	u64 space;
	u64 offset;
};

/* A path as far as rules went, and the stack beyond, to be unwound in user space. The context is known
 * by `key` only there: the next one on this path finds the rules and gets another key. */
#define STACK_BYTES 65536
#define STACK_PIECE 4096

struct stack_record {
	struct context_record context; /* its frames up to the one without a rule */
	u64 address, sp, bp; /* of that one; `stack` begins at its sp */
	u32 bytes; /* of `stack`; those that could not be read are 0 */
	u32 ranges;
	struct range range[MAX_RANGES];
	u8 stack[STACK_BYTES + STACK_PIECE];
};

/* A process that makes pages dirty: seen for the first time, after an exec too, or ended. */
struct process_record {
	u32 type;
	u32 pid;
	u64 time_ns;
	u64 executable;
	u32 ended;
	u32 reserved;
};

/* What a signature of a language runtime stands for: the text of struct pcstream_path. */
#define RUNTIME_TEXT 4096

struct runtime_record {
	u32 type;
	u32 bytes; /* of text; the rest is what was there before */
	u64 signature;
	u8 text[RUNTIME_TEXT];
};

/* The path of a module or of a written file. Names are stored innermost first, one after another,
 * each as long as its entry in `length` says. */
struct path_record {
	u32 type;
	u32 pid;
	u64 key; /* the module's; of a file the context that made it dirty, 0: not known */
	u64 inode;
	u32 generation;
	u32 dev; /* kernel encoding: major << 20 | minor */
	u32 components;
	u16 truncated;
	u16 of_user; /* on a file system of a user's, who decides whether it ever answers */
	u8 length[MAX_COMPONENTS];
	u8 text[PATH_TEXT + NAME_BYTES]; /* sent as far as it is used */
};

/* Counters. Those before COUNTER_FIRST_STATISTIC are losses: pages or names that a limit cost. */
enum counter {
	LOST_IO_RECORDS,      /* requests that did not fit the ring buffer */
	LOST_TABLE_RECORDS,   /* modules, files or processes that did not fit the ring buffer; sent again later */
	LOST_CONTEXT_RECORDS, /* captures without a context: it, or a module on its path, did not fit the ring buffer */
	LOST_CONTEXTS,	      /* contexts beyond the kernel-side table */
	LOST_LONG_REQUESTS,   /* requests longer than the walk, whose end is missing */
	LOST_TASK_STORAGE,    /* captures without memory for the task's cache */
	LOST_PENDING,	      /* pages whose capture was postponed and never made */
	LOST_RUNTIME_PATHS,   /* contexts that are merged, for a language runtime has too many paths */
	LOST_RUNTIME_NAMES,   /* times that names of a runtime's path could not be read, or were empty */
	LOST_RUNTIME_MAPPINGS, /* mapped files of runtimes that pushed others out of the table */
	LOST_BUFFER_PAGES,    /* pages of write buffers whose path pushed another's out of the table */
	DROPPED_MAPPINGS,     /* executable mappings above 128 TiB: paths end there */
	UNSHIPPED_STACKS,     /* full captures that lacked a rule and did not go to user space: no room in the ring buffer, or no answer for long */
	COUNTER_FIRST_STATISTIC,
	/* coarser contexts: the executable and the entry, or a frame short */
	LOCKED_MAPPINGS = COUNTER_FIRST_STATISTIC, /* captures, and files mapped by a runtime, that found the process's mappings locked */
	PATH_CACHE_HITS,      /* captures answered by the task's path cache */
	RUNTIME_PATHS,	      /* captures answered by a language runtime's path */
	BUFFER_MARKS,	      /* times a page of a write buffer became dirty */
	STREAM_ANSWERS,	      /* times a program that asked got a stream other than none */
	FULL_CAPTURES,	      /* path cache misses */
	STACK_UNREADABLE,     /* captures whose stack could not be read */
	SHIPPED_STACKS,	      /* full captures that lacked a rule and went to user space */
	CUT_PATHS,	      /* exact paths that end before they are as long as is kept: at code without a rule, or where the stack cannot be read */
	SHORT_STACKS,	      /* scans that found fewer addresses than asked for */
	ENUMERATIONS,	      /* times the mappings of a process were read */
	URING_WORKERS,	      /* pages dirtied or submitted by io_uring workers */
	URING_UNKNOWN,	      /* ... of which the submitter was not known */
	BUFFER_WRITES,	      /* writes that got the path kept for such a page */
	BUFFERS_UNPLACED,     /* marks and data whose page or mapping could not be found */
	REFUSED_HINTS,	      /* write hints of programs (F_SET_RW_HINT) that the kernel refused */
	UNTAGGED_PAGES,	      /* page-cache pages written back without a context */
	LONG_WRITES,	      /* writes of which not all pages were looked at when they began */
	COUNTERS,
};

#endif
