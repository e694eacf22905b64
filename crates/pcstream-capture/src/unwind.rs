//! Call paths from copies of stacks: the walks of the BPF program, made again in user space.
//!
//! Idea: the BPF program walks along call-frame rules that user space gave it before. Where a rule is missing it
//! ships the stack instead; here that stack is unwound with rules from the modules' tables, and all rules that were
//! needed go back to the kernel. The walk along rules is the same on both sides (same rules, same bounds, same order), so the
//! exact path found here is the one that the BPF program will find the next time.
//!
//! Invariants: a stack yields a rule for the address that was missing, be it `RULE_NONE`, unless its module is not
//! known yet, or `MAX_RULES` are. A rule is handed out once.
//!
//! Known weaknesses: the 64 KiB from the frame without a rule on are shipped; a path that goes on further up is cut
//! short until its rules are known, as is one whose frame pointer was saved below. Where mappings are looked up one by one (kernels before
//! 6.7), only those seen before, and those that the 64 KiB lead to, are known here. Where rules fail, the other walks see the stack from the frame without a
//! rule on, and do not know how other stacks of the process were read, so the page of a shipped stack may get another
//! context than the next one on its path. Modules beyond the 4096 that are kept open, and tables beyond 1 GiB in all, have no
//! rules. A traced process can make the BPF program's table of rules full, and then has made paths coarser for all.

use std::time::Duration;

use pcstream_trace::Unwind;
use rustc_hash::FxHashMap;

use crate::call_frames::{CallFrames, NO_RULE};
use crate::modules::Modules;
use crate::wire::{
    Entry, Limit, ModuleKey, ModuleOffset, RULE_AT_IP, RuleKind, StackRange, StackRecord, UnwindRule,
};

const MAX_FRAME_BYTES: u64 = Limit::MAX_FRAME_BYTES.0 as u64;
const MAX_STACK_BYTES: u64 = Limit::MAX_STACK_BYTES.0 as u64;
/// A path of fewer return addresses that ends at code without rules is no path.
const LEAST_FRAMES: usize = 2;

/// Rules that are kept: the BPF program's table has room for as many.
const MAX_RULES: usize = 65_536;

/// Which ways of unwinding are allowed, and how far they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Return addresses along rules or frame pointers.
    pub depth: usize,
    /// Return addresses of the scan.
    pub scan_depth: usize,
    /// Whether frame pointers and the scan may help out where there are no rules.
    pub fall_back: bool,
}

/// A call path: module keys and file offsets, innermost first, the instruction itself at the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// How it was found.
    pub unwind: Unwind,
    /// Module key and file offset.
    pub frames: Vec<(u64, u64)>,
}

/// Unwinds stacks, and keeps the rules that it meets.
#[derive(Debug, Default)]
pub struct Unwinder {
    /// By module key.
    modules: FxHashMap<u64, Tables>,
    /// Handed out already.
    rules: FxHashMap<(u64, u64), UnwindRule>,
    fresh: Vec<(ModuleOffset, UnwindRule)>,
    /// Of all modules.
    table_bytes: u64,
    /// No rule is made any more.
    given_up: bool,
    /// Rules that were not made: see `rules_given_up`.
    rules_given_up: u64,
}

/// A module's tables.
#[derive(Debug, Default)]
struct Tables {
    /// `None`: it has none, or they take too much.
    frames: Option<CallFrames>,
    /// Processor time that its rules have taken.
    spent: Duration,
}

/// Memory for the tables of all modules together: a hundred times what a desktop's programs have open.
const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Processor time for the rules of a module. All that the BPF program has room for take less, if nobody made tables for this.
const MAX_RULE_TIME: Duration = Duration::from_secs(1);

/// How a walk along rules ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Depth,
    Outermost,
    NoRule,
    Broken,
}

impl Unwinder {
    /// The path of a stack.
    pub fn path(&mut self, stack: &StackRecord, modules: &Modules, limits: &Limits) -> Path {
        let known = stack.context.path();
        let mut frames: Vec<_> = known.iter().map(|frame| (frame.module, frame.offset)).collect();
        let before = frames.len();
        let end = self.along_rules(stack, modules, limits.depth, &mut frames);
        if end == End::Outermost {
            return Path { unwind: Unwind::Exact, frames };
        }
        if end == End::Depth || frames.len() > LEAST_FRAMES || !limits.fall_back {
            return Path { unwind: Unwind::Cut, frames };
        }
        frames.truncate(before);
        let (chain, believed) = along_frame_pointers(stack, limits.depth);
        if believed {
            frames.truncate(1);
            frames.extend(chain);
            return Path { unwind: Unwind::FramePointer, frames };
        }
        frames.extend(scanned(stack, (limits.scan_depth + 1).saturating_sub(before)));
        Path { unwind: Unwind::Scan, frames }
    }

    /// Takes note of a rule that is known from elsewhere. It is not handed out.
    pub fn insert_rule(&mut self, key: ModuleOffset, rule: UnwindRule) {
        self.rules.insert((key.module, key.offset), rule);
    }

    /// Drops the tables of a module that runs no more. Rules that were made of them stay.
    pub fn forget(&mut self, module: u64) {
        let tables = self.modules.remove(&module).and_then(|tables| tables.frames);
        self.table_bytes -= tables.as_ref().map_or(0, CallFrames::bytes);
    }

    /// Makes no more rules: whoever waits is impatient.
    pub fn give_up(&mut self) {
        self.given_up = true;
    }

    /// Rules that were not made, because making them took too long.
    pub fn rules_given_up(&self) -> u64 {
        self.rules_given_up
    }

    /// Rules made since the last call.
    pub fn take_rules(&mut self) -> Vec<(ModuleOffset, UnwindRule)> {
        std::mem::take(&mut self.fresh)
    }

    /// As `walk_rules` of the BPF program, from where that one stopped: adds to `frames`, whose head is no return
    /// address, up to `depth` of those.
    fn along_rules(
        &mut self,
        stack: &StackRecord,
        modules: &Modules,
        depth: usize,
        frames: &mut Vec<(u64, u64)>,
    ) -> End {
        let (mut sp, mut bp, mut address) = (stack.sp, stack.bp, stack.address);
        let Some(mut range) = locate(stack, address) else { return End::NoRule };
        loop {
            let enough = frames.len() > depth;
            if range.module == ANON {
                return if enough { End::Depth } else { End::NoRule };
            }
            let (offset, at_ip) = (address.wrapping_add(range.base), frames.len() == 1);
            let rule = self.rule(range.module, offset, at_ip, modules);
            // As `name_function` of the BPF program: many instructions of one function store to mapped memory.
            if at_ip
                && stack.context.entry as u32 == Entry::ENTRY_FAULT.0
                && u64::from(rule.into_function) <= offset
            {
                frames[0].1 = offset - u64::from(rule.into_function);
            }
            let base = match RuleKind(rule.kind) {
                RuleKind::RULE_END => return End::Outermost,
                _ if enough => return End::Depth,
                RuleKind::RULE_SP => sp,
                RuleKind::RULE_BP => bp,
                _ => return End::NoRule,
            };
            let cfa = base.wrapping_add_signed(rule.cfa_offset.into());
            if cfa <= sp || cfa - sp > MAX_STACK_BYTES || cfa & 7 != 0 {
                return End::Broken;
            }
            if rule.bp_offset != 0 {
                let Some(saved) = word(stack, cfa.wrapping_add_signed(rule.bp_offset.into())) else {
                    return End::Broken;
                };
                bp = saved;
            }
            let caller = word(stack, cfa - 8).and_then(|caller| Some((caller, locate(stack, caller)?)));
            let Some((caller, its_range)) = caller else { return End::Broken };
            frames.push(frame(its_range, caller));
            (address, range, sp) = (caller, its_range, cfa);
        }
    }

    /// The rule for an address, which becomes fresh if it was not asked for before and there is room for it.
    fn rule(&mut self, module: u64, offset: u64, at_ip: bool, modules: &Modules) -> UnwindRule {
        let key = ModuleOffset { module, offset: offset | if at_ip { RULE_AT_IP } else { 0 } };
        if let Some(&rule) = self.rules.get(&(key.module, key.offset)) {
            return rule;
        }
        // A module whose record did not fit the ring buffer is sent again: its rules can wait.
        let Some(known) = modules.get(module) else { return NO_RULE };
        if self.given_up {
            self.rules_given_up += 1;
            return NO_RULE;
        }
        let tables = self.modules.entry(module).or_insert_with(|| {
            // Whoever makes files could otherwise have all memory.
            let left = MAX_TABLE_BYTES.saturating_sub(self.table_bytes);
            let frames = known.file.as_deref().and_then(|file| CallFrames::read_within(file, left));
            self.table_bytes += frames.as_ref().map_or(0, CallFrames::bytes);
            Tables { frames, spent: Duration::ZERO }
        });
        // ... or all time.
        if tables.spent > MAX_RULE_TIME {
            self.rules_given_up += 1;
            return NO_RULE;
        }
        // A call is the instruction before its return address, which may be the next function's first.
        let instruction = if at_ip { offset } else { offset.saturating_sub(1) };
        let begin = processor_time();
        let rule = tables.frames.as_ref().map_or(NO_RULE, |frames| frames.rule_at(instruction));
        tables.spent += processor_time().saturating_sub(begin);
        // The BPF program could not take more. It counts the stacks that it ships in vain.
        if self.rules.len() < MAX_RULES {
            self.rules.insert((key.module, key.offset), rule);
            self.fresh.push((key, rule));
        }
        rule
    }
}

/// Of this thread.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

const ANON: u64 = ModuleKey::MODULE_ANON.0 as u64;

fn frame(range: &StackRange, address: u64) -> (u64, u64) {
    (range.module, if range.module == ANON { 0 } else { address.wrapping_add(range.base) })
}

/// The executable mapping that an address lies in.
fn locate(stack: &StackRecord, address: u64) -> Option<&StackRange> {
    let ranges = &stack.range[..(stack.ranges as usize).min(stack.range.len())];
    // Not a user address, or one that no mapping can have.
    if address < u64::from(Limit::LOWEST_ADDRESS.0) || address >> 47 != 0 {
        return None;
    }
    ranges.iter().find(|range| (range.start..range.end).contains(&address))
}

/// The word at an address, if the copy has it.
fn word(stack: &StackRecord, address: u64) -> Option<u64> {
    let bytes = &stack.stack[..(stack.bytes as usize).min(stack.stack.len())];
    let at = usize::try_from(address.checked_sub(stack.sp)?).ok()?;
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

/// As `walk_frame_pointers` of the BPF program: return addresses, and whether they are believed.
fn along_frame_pointers(stack: &StackRecord, depth: usize) -> (Vec<(u64, u64)>, bool) {
    let (mut bp, mut below) = (stack.bp, stack.sp);
    let mut found = Vec::new();
    while found.len() < depth && bp >= below && bp - below <= MAX_FRAME_BYTES && bp & 7 == 0 {
        let Some(caller) = bp.checked_add(8).and_then(|at| word(stack, at)) else { break };
        let Some(range) = locate(stack, caller) else { break };
        found.push(frame(range, caller));
        let (Some(above), Some(next)) = (bp.checked_add(16), word(stack, bp)) else { break };
        (below, bp) = (above, next);
    }
    let proof = if bp == 0 { Limit::FP_PROOF_OUTERMOST } else { Limit::FP_PROOF };
    let believed = found.len() >= proof.0 as usize;
    (found, believed)
}

/// As `scan_stack` of the BPF program.
fn scanned(stack: &StackRecord, depth: usize) -> Vec<(u64, u64)> {
    // Calls put return addresses 8 bytes above multiples of 16.
    let below = 8_u64.wrapping_sub(stack.sp) % 16;
    let words = (below..u64::from(Limit::SCANNED_BYTES.0))
        .step_by(16)
        .map_while(|at| word(stack, stack.sp.checked_add(at)?));
    words.filter_map(|address| Some(frame(locate(stack, address)?, address))).take(depth).collect()
}
