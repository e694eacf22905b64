//! Generated from `bpf/wire.h` by `tests/wire_types.rs`: do not edit.

#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct limit(pub u32);
#[allow(non_upper_case_globals)]
impl limit {
    pub const MAX_DEPTH: Self = Self(16);
    pub const SCAN_DEPTH: Self = Self(5);
    pub const FP_DEPTH: Self = Self(12);
    pub const MAX_FRAME_BYTES: Self = Self(1048576);
    pub const MAX_STACK_BYTES: Self = Self(1073741824);
    pub const FP_PROOF: Self = Self(4);
    pub const FP_PROOF_OUTERMOST: Self = Self(2);
    pub const SCANNED_BYTES: Self = Self(4096);
    pub const LOWEST_ADDRESS: Self = Self(65536);
    pub const MAX_WRITE_STREAMS: Self = Self(32);
    pub const PAGE_STREAM_SLOTS: Self = Self(1048576);
    pub const MAX_BUFFER_RULES: Self = Self(64);
    pub const MIN_BUFFER_BYTES: Self = Self(512);
    pub const MAX_BUFFER_BYTES: Self = Self(1048576);
}
impl Default for limit {
    fn default() -> Self {
        Self::MAX_DEPTH
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct fixed_context(pub u32);
#[allow(non_upper_case_globals)]
impl fixed_context {
    pub const CONTEXT_OF_RECORDER: Self = Self(1);
    pub const CONTEXT_OF_OTHERS: Self = Self(2);
}
impl Default for fixed_context {
    fn default() -> Self {
        Self::CONTEXT_OF_RECORDER
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct followed(pub u32);
#[allow(non_upper_case_globals)]
impl followed {
    pub const FOLLOWED_ALL: Self = Self(0);
    pub const FOLLOWED_PROCESSES: Self = Self(1);
    pub const FOLLOWED_CGROUP: Self = Self(2);
}
impl Default for followed {
    fn default() -> Self {
        Self::FOLLOWED_ALL
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct placed_by(pub u32);
#[allow(non_upper_case_globals)]
impl placed_by {
    pub const PLACED_BY_NOBODY: Self = Self(0);
    pub const PLACED_BY_MODULE: Self = Self(1);
    pub const PLACED_BY_SERVER: Self = Self(2);
    pub const PLACED_BY_PROGRAMS: Self = Self(3);
}
impl Default for placed_by {
    fn default() -> Self {
        Self::PLACED_BY_NOBODY
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct record_type(pub u32);
#[allow(non_upper_case_globals)]
impl record_type {
    pub const RECORD_IO: Self = Self(1);
    pub const RECORD_CONTEXT: Self = Self(2);
    pub const RECORD_MODULE: Self = Self(3);
    pub const RECORD_FILE: Self = Self(4);
    pub const RECORD_STACK: Self = Self(5);
    pub const RECORD_RUNTIME: Self = Self(6);
    pub const RECORD_PROCESS: Self = Self(8);
    pub const RECORD_CHECK: Self = Self(7);
}
impl Default for record_type {
    fn default() -> Self {
        Self::RECORD_IO
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct io_source(pub u32);
#[allow(non_upper_case_globals)]
impl io_source {
    pub const SOURCE_NONE: Self = Self(0);
    pub const SOURCE_CACHE: Self = Self(1);
    pub const SOURCE_DIRECT: Self = Self(2);
    pub const SOURCE_BUFFER: Self = Self(3);
    pub const SOURCE_XFS_BUFFER: Self = Self(4);
    pub const SOURCE_SWAP: Self = Self(5);
    pub const SOURCE_DIRECTORY: Self = Self(6);
    pub const SOURCE_INTERNAL: Self = Self(7);
}
impl Default for io_source {
    fn default() -> Self {
        Self::SOURCE_NONE
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct unwind_mode(pub u32);
#[allow(non_upper_case_globals)]
impl unwind_mode {
    pub const UNWIND_NONE: Self = Self(0);
    pub const UNWIND_FP: Self = Self(1);
    pub const UNWIND_SCAN: Self = Self(2);
    pub const UNWIND_EXACT: Self = Self(3);
    pub const UNWIND_RUNTIME: Self = Self(4);
    pub const UNWIND_CUT: Self = Self(5);
}
impl Default for unwind_mode {
    fn default() -> Self {
        Self::UNWIND_NONE
    }
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct owner {
    pub inode: u64,
    pub context: u64,
    pub generation: u32,
    pub source: u32,
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct io_record {
    pub r#type: u32,
    pub op: u32,
    pub time_ns: u64,
    pub sector: u64,
    pub owner: owner,
    pub file_page: u64,
    pub bytes: u32,
    pub reserved: u16,
    pub write_hint: u8,
    pub write_stream: u8,
    pub head: [u8; 16],
    pub tail: [u8; 16],
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct stream_count {
    pub requests: u64,
    pub bytes: u64,
    pub minority_bytes: u64,
    pub refused_bytes: u64,
    pub bytes_of_programs: u64,
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct module_offset {
    pub module: u64,
    pub offset: u64,
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct module_key(pub u32);
#[allow(non_upper_case_globals)]
impl module_key {
    pub const MODULE_ANON: Self = Self(1);
    pub const MODULE_RUNTIME: Self = Self(2);
}
impl Default for module_key {
    fn default() -> Self {
        Self::MODULE_ANON
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct entry(pub u32);
#[allow(non_upper_case_globals)]
impl entry {
    pub const ENTRY_FAULT: Self = Self(4294967295);
    pub const ENTRY_URING: Self = Self(4294967294);
    pub const ENTRY_BUFFER: Self = Self(4294967293);
    pub const ENTRY_32BIT: Self = Self(536870912);
}
impl Default for entry {
    fn default() -> Self {
        Self::ENTRY_FAULT
    }
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct context_record {
    pub r#type: u32,
    pub pid: u32,
    pub key: u64,
    pub executable: u64,
    pub entry: i32,
    pub unwind: u32,
    pub frames: u32,
    pub reserved: u32,
    pub comm: [u8; 16],
    pub frame: [module_offset; 17],
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct range {
    pub start: u64,
    pub end: u64,
    pub base: u64,
    pub module: u64,
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct unwind_rule {
    pub kind: u32,
    pub cfa_offset: i32,
    pub bp_offset: i32,
    pub into_function: u32,
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct rule_kind(pub u32);
#[allow(non_upper_case_globals)]
impl rule_kind {
    pub const RULE_SP: Self = Self(1);
    pub const RULE_BP: Self = Self(2);
    pub const RULE_END: Self = Self(3);
    pub const RULE_NONE: Self = Self(4);
}
impl Default for rule_kind {
    fn default() -> Self {
        Self::RULE_SP
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct buffer_kind(pub u32);
#[allow(non_upper_case_globals)]
impl buffer_kind {
    pub const BUFFER_DIRTY: Self = Self(1);
    pub const BUFFER_COPIED: Self = Self(2);
    pub const BUFFER_STREAM: Self = Self(3);
}
impl Default for buffer_kind {
    fn default() -> Self {
        Self::BUFFER_DIRTY
    }
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct buffer_rule {
    pub kind: u32,
    pub rank: u32,
    pub argument: u32,
    pub page_bytes: u32,
    pub page_bytes_argument: u32,
    pub numbered: u32,
    pub variable: i64,
    pub from: i32,
    pub offsets: u32,
    pub offset: [i32; 4],
    pub base: i64,
    pub bias: i64,
    pub shift: u32,
    pub was_clean: u32,
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct buffer_key {
    pub space: u64,
    pub offset: u64,
}
#[derive(Debug, Copy, Clone)]
#[repr(C)]
pub struct stack_record {
    pub context: context_record,
    pub address: u64,
    pub sp: u64,
    pub bp: u64,
    pub bytes: u32,
    pub ranges: u32,
    pub range: [range; 512],
    pub stack: [u8; 69632],
}
impl Default for stack_record {
    fn default() -> Self {
        Self {
            context: context_record::default(),
            address: u64::default(),
            sp: u64::default(),
            bp: u64::default(),
            bytes: u32::default(),
            ranges: u32::default(),
            range: [range::default(); 512],
            stack: [u8::default(); 69632],
        }
    }
}
#[derive(Debug, Default, Copy, Clone)]
#[repr(C)]
pub struct process_record {
    pub r#type: u32,
    pub pid: u32,
    pub time_ns: u64,
    pub executable: u64,
    pub ended: u32,
    pub reserved: u32,
}
#[derive(Debug, Copy, Clone)]
#[repr(C)]
pub struct runtime_record {
    pub r#type: u32,
    pub bytes: u32,
    pub signature: u64,
    pub text: [u8; 4096],
}
impl Default for runtime_record {
    fn default() -> Self {
        Self {
            r#type: u32::default(),
            bytes: u32::default(),
            signature: u64::default(),
            text: [u8::default(); 4096],
        }
    }
}
#[derive(Debug, Copy, Clone)]
#[repr(C)]
pub struct path_record {
    pub r#type: u32,
    pub pid: u32,
    pub key: u64,
    pub inode: u64,
    pub generation: u32,
    pub dev: u32,
    pub components: u32,
    pub truncated: u16,
    pub of_user: u16,
    pub length: [u8; 24],
    pub text: [u8; 2304],
}
impl Default for path_record {
    fn default() -> Self {
        Self {
            r#type: u32::default(),
            pid: u32::default(),
            key: u64::default(),
            inode: u64::default(),
            generation: u32::default(),
            dev: u32::default(),
            components: u32::default(),
            truncated: u16::default(),
            of_user: u16::default(),
            length: [u8::default(); 24],
            text: [u8::default(); 2304],
        }
    }
}
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
#[repr(transparent)]
pub struct counter(pub u32);
#[allow(non_upper_case_globals)]
impl counter {
    pub const LOST_IO_RECORDS: Self = Self(0);
    pub const LOST_TABLE_RECORDS: Self = Self(1);
    pub const LOST_CONTEXT_RECORDS: Self = Self(2);
    pub const LOST_CONTEXTS: Self = Self(3);
    pub const LOST_LONG_REQUESTS: Self = Self(4);
    pub const LOST_TASK_STORAGE: Self = Self(5);
    pub const LOST_PENDING: Self = Self(6);
    pub const LOST_RUNTIME_PATHS: Self = Self(7);
    pub const LOST_RUNTIME_NAMES: Self = Self(8);
    pub const LOST_RUNTIME_MAPPINGS: Self = Self(9);
    pub const LOST_BUFFER_PAGES: Self = Self(10);
    pub const DROPPED_MAPPINGS: Self = Self(11);
    pub const UNSHIPPED_STACKS: Self = Self(12);
    pub const COUNTER_FIRST_STATISTIC: Self = Self(13);
    pub const LOCKED_MAPPINGS: Self = Self(13);
    pub const PATH_CACHE_HITS: Self = Self(14);
    pub const RUNTIME_PATHS: Self = Self(15);
    pub const BUFFER_MARKS: Self = Self(16);
    pub const STREAM_ANSWERS: Self = Self(17);
    pub const FULL_CAPTURES: Self = Self(18);
    pub const STACK_UNREADABLE: Self = Self(19);
    pub const SHIPPED_STACKS: Self = Self(20);
    pub const CUT_PATHS: Self = Self(21);
    pub const SHORT_STACKS: Self = Self(22);
    pub const ENUMERATIONS: Self = Self(23);
    pub const URING_WORKERS: Self = Self(24);
    pub const URING_UNKNOWN: Self = Self(25);
    pub const BUFFER_WRITES: Self = Self(26);
    pub const BUFFERS_UNPLACED: Self = Self(27);
    pub const REFUSED_HINTS: Self = Self(28);
    pub const UNTAGGED_PAGES: Self = Self(29);
    pub const LONG_WRITES: Self = Self(30);
    pub const COUNTERS: Self = Self(31);
}
impl Default for counter {
    fn default() -> Self {
        Self::LOST_IO_RECORDS
    }
}
