//! Where in a function a page that was clean becomes dirty, and which register says there what page it is.
//!
//! Idea: most calls of a function that makes a page dirty are for pages that are dirty already. Where it counts the others
//! (PostgreSQL: `pgBufferUsage.shared_blks_dirtied`), a probe is passed once for each time that a page becomes dirty, as the kernel's page
//! cache is watched. But there the argument has long become something else. So the function's instructions are followed from
//! its beginning: each register is `(argument << shift) + *variable + bias`, or nothing is known of it; where two ways meet, what
//! they disagree about is not known. This is constant propagation with the argument as the one unknown.
//!
//! The probe is on the counting instruction or, better, on a branch right behind it: branches are emulated by the kernel,
//! other instructions are stepped over, which takes ten times as long.
//!
//! Units: virtual addresses of the file.
//!
//! Invariants: every way to a place was followed, through parts of the function that lie elsewhere (`.cold`) too, and places are in
//! the function's own part, which nobody else runs through. A function with ways that cannot be seen (jumps to computed addresses,
//! exception handlers) is refused.
//!
//! Known weaknesses: what lies in memory is not followed, only in registers; variables are taken to keep their value while the
//! function runs; called functions are taken to follow the System V ABI; a part that lies elsewhere and has no
//! call-frame entry of its own is refused; a call that does not return is taken to, unless it is of a library's function known
//! to, so that less may be known of what follows it.

#[cfg(test)]
mod tests;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};

use value::{Registers, Value, address, changes, number, points_at, variable, writes};

/// A function that makes pages dirty is a page of code.
const MAX_INSTRUCTIONS: usize = 4096;
/// An x86 instruction has at most this many bytes.
const MAX_INSTRUCTION_BYTES: usize = 15;
/// What a called function need not preserve: rax, rcx, rdx, rsi, rdi, r8 to r11.
const CLOBBERED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// Further shifted, an address would lose bits.
const MAX_ADDRESS_SHIFT: u32 = 16;
const STACK_POINTER: usize = 4;

/// The code of a binary.
pub trait Code {
    /// Code from an address on, as much as is there.
    fn bytes(&self, address: u64) -> Option<&[u8]>;
    /// The function, or part of one, around an address, unless it has exception handlers.
    fn part(&self, address: u64) -> Option<Range<u64>>;
    /// The function whose address the linker puts there, if it does.
    fn linked(&self, variable: u64) -> Option<Linked>;
}

/// Another module's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    Returns,
    DoesNotReturn,
}

/// A number of eight bytes in a variable.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Where the variable begins.
    pub variable: u64,
    /// Where the number does.
    pub address: u64,
}

/// Whose value is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// x86's number of its register.
    pub register: usize,
    /// It is an `int`: its upper half means nothing.
    pub is_int: bool,
}

/// A place to probe, and how to find the argument there: `(register - *base - bias) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of the instruction.
    pub address: u64,
    /// x86's number.
    pub register: usize,
    /// The variable that was added.
    pub base: Option<u64>,
    /// The constant that was added.
    pub bias: i64,
    /// How far it was shifted.
    pub shift: u32,
}

/// The places where the function at `function` changes the variable at `counter`. An error says what is in the way.
pub fn places(
    code: &impl Code,
    function: u64,
    argument: Argument,
    counter: Number,
) -> Result<Vec<Place>, String> {
    let own = code.part(function).ok_or("has no call-frame entry, or exception handlers")?;
    let mut registers = [None; 16];
    registers[argument.register] = Some(Value { shift: Some(0), ..Value::ZERO });
    let mut ways = Ways {
        code,
        is_int: argument.is_int,
        parts: vec![own],
        known: BTreeMap::new(),
        targets: BTreeSet::new(),
        left: Vec::new(),
        waiting: Vec::new(),
    };
    ways.meet(function, &registers)?;
    ways.follow()?;
    let counting: Vec<u64> = ways
        .known
        .iter()
        .filter_map(|(&at, (instruction, _))| changes(instruction, counter).then_some(at))
        .collect();
    if counting.is_empty() {
        return Err("does not change it".into());
    }
    if let Some(at) = counting.iter().find(|at| !ways.parts[0].contains(at)) {
        return Err(format!("changes it at {at:#x}, which other functions may lead to as well"));
    }
    if let Some((at, _)) = ways.known.iter().find(|(_, (instruction, _))| points_at(instruction, counter)) {
        return Err(format!("may change it through a pointer, taken at {at:#x}"));
    }
    let mut places = counting.into_iter().map(|at| ways.place(at)).collect::<Result<Vec<_>, _>>()?;
    places.dedup();
    Ok(places)
}

/// The instructions of a function that can be reached, with the registers before each.
struct Ways<'a, C> {
    code: &'a C,
    is_int: bool,
    /// The function itself, then what it jumps to elsewhere.
    parts: Vec<Range<u64>>,
    known: BTreeMap<u64, (Instruction, Registers)>,
    /// Of jumps.
    targets: BTreeSet<u64>,
    /// Jumps to what was no part yet.
    left: Vec<u64>,
    /// Instructions to be followed again.
    waiting: Vec<u64>,
}

impl<C: Code> Ways<'_, C> {
    fn follow(&mut self) -> Result<(), String> {
        while let Some(at) = self.waiting.pop() {
            let (instruction, before) = self.known[&at];
            let after = self.after(&instruction, &before);
            match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall if self.ends(&instruction) => {}
                FlowControl::Next
                | FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::Interrupt => self.fall_through(&instruction, &after)?,
                FlowControl::ConditionalBranch => {
                    self.fall_through(&instruction, &after)?;
                    self.jump(&instruction, &after)?;
                }
                FlowControl::UnconditionalBranch => self.jump(&instruction, &after)?,
                // Through a table of other functions' addresses: a call that does not come back.
                FlowControl::IndirectBranch if self.linked(&instruction).is_some() => {}
                FlowControl::Return | FlowControl::Exception => {}
                FlowControl::IndirectBranch => return Err(format!("jumps to a computed address at {at:#x}")),
                FlowControl::XbeginXabortXend => return Err(format!("has a memory transaction at {at:#x}")),
            }
        }
        Ok(())
    }

    /// Whether a call does not return: of a library's function, through the linker's table or a stub that jumps through it.
    /// Compilers put anything behind those.
    fn ends(&self, call: &Instruction) -> bool {
        let mut at = *call;
        if call.is_call_near() {
            let stub = call.near_branch_target();
            let Some(bytes) = self.code.bytes(stub) else { return false };
            let mut instructions =
                Decoder::with_ip(64, bytes, stub, DecoderOptions::NONE).into_iter().take(2);
            at = instructions.find(|i| i.mnemonic() != Mnemonic::Endbr64).unwrap_or(at);
        }
        let through = at.is_jmp_near_indirect() || at.is_call_near_indirect();
        through && self.linked(&at) == Some(Linked::DoesNotReturn)
    }

    fn linked(&self, through: &Instruction) -> Option<Linked> {
        variable(through).and_then(|variable| self.code.linked(variable))
    }

    fn fall_through(&mut self, from: &Instruction, after: &Registers) -> Result<(), String> {
        if self.parts.iter().any(|part| part.contains(&from.ip()) && part.contains(&from.next_ip())) {
            return self.meet(from.next_ip(), after);
        }
        match from.flow_control() {
            // What follows is another function: the last call did not return.
            FlowControl::Call | FlowControl::IndirectCall => Ok(()),
            _ => Err(format!("runs on past its end at {:#x}", from.ip())),
        }
    }

    fn jump(&mut self, from: &Instruction, after: &Registers) -> Result<(), String> {
        let (to, own) = (from.near_branch_target(), self.parts[0].clone());
        self.targets.insert(to);
        let known = self.parts.iter().any(|part| part.contains(&to));
        if own.contains(&from.ip()) && !known {
            let none = || format!("jumps to {to:#x}, which has no call-frame entry, or exception handlers");
            self.parts.push(self.code.part(to).ok_or_else(none)?);
            self.waiting.append(&mut self.left);
        } else if !known || (!own.contains(&from.ip()) && to == own.start) {
            // Another function has been called instead, which calls this one or others; unless this turns out to be a part.
            self.left.push(from.ip());
            return Ok(());
        }
        self.meet(to, after)
    }

    /// Another way leads to an instruction.
    fn meet(&mut self, at: u64, registers: &Registers) -> Result<(), String> {
        if let Some((_, before)) = self.known.get_mut(&at) {
            let common: Registers = std::array::from_fn(|r| before[r].filter(|_| before[r] == registers[r]));
            if common != *before {
                *before = common;
                self.waiting.push(at);
            }
            return Ok(());
        }
        if self.known.len() == MAX_INSTRUCTIONS {
            return Err(format!("has more than {MAX_INSTRUCTIONS} instructions"));
        }
        let bytes = self.code.bytes(at).ok_or_else(|| format!("leads to {at:#x}, where no code is"))?;
        let bytes = &bytes[..bytes.len().min(MAX_INSTRUCTION_BYTES)];
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return Err(format!("leads to {at:#x}, where no instruction is"));
        }
        self.known.insert(at, (instruction, *registers));
        self.waiting.push(at);
        Ok(())
    }

    fn after(&self, instruction: &Instruction, before: &Registers) -> Registers {
        let mut after = *before;
        let mut factory = InstructionInfoFactory::new();
        for used in factory.info(instruction).used_registers() {
            if let Some(register) = number(used.register()).filter(|_| writes(used.access())) {
                after[register] = None;
            }
        }
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            CLOBBERED.iter().for_each(|&register| after[register] = None);
        }
        if let Some((register, value)) = self.assigned(instruction, before) {
            after[register] = Some(value);
        }
        after
    }

    /// The register that an instruction gives a value that can be known.
    fn assigned(&self, instruction: &Instruction, before: &Registers) -> Option<(usize, Value)> {
        if instruction.mnemonic() == Mnemonic::Cdqe {
            return before[0].filter(|value| self.is_int && value.is_short()).map(|value| (0, value));
        }
        let to = Some(instruction.op0_register()).filter(|_| instruction.op0_kind() == OpKind::Register)?;
        let held = |register: Register| number(register).and_then(|register| before[register]);
        // An operand that is a register, a constant, or a variable.
        let source = || match instruction.op1_kind() {
            OpKind::Register => held(instruction.op1_register()),
            OpKind::Memory => {
                let base = variable(instruction).filter(|_| to.is_gpr64())?;
                Some(Value { base: Some(base), ..Value::ZERO })
            }
            _ => instruction.try_immediate(1).ok().map(|n| Value::ZERO.plus_number(n.cast_signed())),
        };
        let value = match instruction.mnemonic() {
            Mnemonic::Mov => source()?,
            Mnemonic::Movsxd if self.is_int && instruction.op1_kind() == OpKind::Register => {
                source().filter(|value| value.is_short())?
            }
            Mnemonic::Lea => address(instruction, held)?,
            Mnemonic::Add => held(to)?.plus(source()?)?,
            Mnemonic::Sub => {
                let less = source().filter(|value| Value { bias: 0, ..*value } == Value::ZERO)?;
                held(to)?.plus_number(less.bias.wrapping_neg())
            }
            Mnemonic::Inc => held(to)?.plus_number(1),
            Mnemonic::Dec => held(to)?.plus_number(-1),
            Mnemonic::Shl => {
                let by = Some(instruction.immediate8())
                    .filter(|_| instruction.op1_kind() == OpKind::Immediate8)?;
                held(to)?.shifted(u32::from(by))?
            }
            _ => return None,
        };
        let fits = to.is_gpr64() || (to.is_gpr32() && self.is_int && value.is_short());
        number(to).filter(|_| fits).map(|register| (register, value))
    }

    fn place(&self, counting: u64) -> Result<Place, String> {
        let address = self.branch_behind(counting).unwrap_or(counting);
        let (_, registers) = self.known[&address];
        let candidates = registers.iter().enumerate().filter(|&(register, _)| register != STACK_POINTER);
        candidates
            .filter_map(|(register, value)| {
                let Value { shift, base, bias } = (*value)?;
                Some(Place { address, register, base, bias, shift: shift? })
            })
            .filter(|place| self.is_int || place.shift <= MAX_ADDRESS_SHIFT)
            .min_by_key(|place| (place.base.is_some(), place.shift, place.register))
            .ok_or_else(|| format!("has no register that tells the argument at {address:#x}"))
    }

    /// The branch that an instruction is always followed by, and that nothing else leads to.
    fn branch_behind(&self, counting: u64) -> Option<u64> {
        let mut at = counting;
        loop {
            let (instruction, _) = self.known.get(&at)?;
            if instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near() {
                return Some(at);
            }
            at = instruction.next_ip();
            if instruction.flow_control() != FlowControl::Next || self.targets.contains(&at) {
                return None;
            }
        }
    }
}
