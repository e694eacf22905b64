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

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

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

/// `(argument << shift) + *base + bias`, without what is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    shift: Option<u32>,
    base: Option<u64>,
    bias: i64,
}

impl Value {
    const ZERO: Value = Value { shift: None, base: None, bias: 0 };

    fn plus(self, other: Value) -> Option<Value> {
        let one = |a: bool, b: bool| !(a && b);
        let fits = one(self.shift.is_some(), other.shift.is_some())
            && one(self.base.is_some(), other.base.is_some());
        fits.then(|| Value {
            shift: self.shift.or(other.shift),
            base: self.base.or(other.base),
            bias: self.bias.wrapping_add(other.bias),
        })
    }

    fn plus_number(self, number: i64) -> Value {
        Value { bias: self.bias.wrapping_add(number), ..self }
    }

    fn shifted(self, by: u32) -> Option<Value> {
        let shift = self.shift.map(|shift| shift + by).filter(|&shift| shift < 32)?;
        self.base.is_none().then_some(Value { shift: Some(shift), base: None, bias: self.bias << by })
    }

    /// Survives being cut to 32 bits, where the argument has no more.
    fn is_short(self) -> bool {
        self.shift == Some(0) && self.base.is_none()
    }
}

type Registers = [Option<Value>; 16];

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

/// The address of the variable that is an operand.
fn variable(instruction: &Instruction) -> Option<u64> {
    let plain = instruction.is_ip_rel_memory_operand() && instruction.segment_prefix() == Register::None;
    plain.then(|| instruction.ip_rel_memory_address())
}

/// Whether an instruction changes a number.
fn changes(instruction: &Instruction, number: Number) -> bool {
    let Some(at) = variable(instruction) else { return false };
    let bytes = instruction.memory_size().size() as u64;
    let overlaps = at < number.address.saturating_add(8) && number.address < at.saturating_add(bytes);
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let operands = 0..instruction.op_count();
    let mut memory = operands.filter(|&operand| instruction.op_kind(operand) == OpKind::Memory);
    overlaps && memory.any(|operand| writes(info.op_access(operand)))
}

/// Whether an instruction takes the address of a number, or of what comes before it in its variable.
fn points_at(instruction: &Instruction, number: Number) -> bool {
    let lea = instruction.mnemonic() == Mnemonic::Lea;
    lea && variable(instruction).is_some_and(|at| (number.variable..=number.address).contains(&at))
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// x86's number of the general register that a register is part of.
fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
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

/// What `lea` computes.
fn address(instruction: &Instruction, held: impl Fn(Register) -> Option<Value>) -> Option<Value> {
    if instruction.is_ip_rel_memory_operand() {
        return None;
    }
    let part = |register: Register| match register {
        Register::None => Some(Value::ZERO),
        register => held(register).filter(|_| register.is_gpr64()),
    };
    let index = match (part(instruction.memory_index())?, instruction.memory_index_scale()) {
        (index, 1) => index,
        (index, _) if index == Value::ZERO => index,
        (index, scale) => index.shifted(scale.trailing_zeros())?,
    };
    let sum = part(instruction.memory_base())?.plus(index)?;
    Some(sum.plus_number(instruction.memory_displacement64().cast_signed()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use iced_x86::code_asm::*;
    use iced_x86::{Code as Op, IcedError, MemoryOperand};

    use super::*;

    const START: u64 = 0x1000;
    const COLD: u64 = 0x2000;
    const OTHER: u64 = 0x3000;
    const COUNTER: Number = Number { variable: 0x8ff0, address: 0x9000 };
    const POOL: u64 = 0x9100;
    const END: u64 = 0x9200;
    const LINK: u64 = 0x9300;
    const INT: Argument = Argument { register: 7, is_int: true };

    /// Parts of code by where they begin, each a function or part of one.
    struct Parts(HashMap<u64, Vec<u8>>);

    impl Code for Parts {
        fn bytes(&self, address: u64) -> Option<&[u8]> {
            let start = self.part(address)?.start;
            self.0[&start].get((address - start) as usize..)
        }

        fn part(&self, address: u64) -> Option<Range<u64>> {
            let mut ranges = self.0.iter().map(|(&start, code)| start..start + code.len() as u64);
            ranges.find(|range| range.contains(&address))
        }

        fn linked(&self, variable: u64) -> Option<Linked> {
            [(END, Linked::DoesNotReturn), (LINK, Linked::Returns)]
                .into_iter()
                .find_map(|(known, linked)| (known == variable).then_some(linked))
        }
    }

    type Written = Result<(), IcedError>;

    fn assembled(at: u64, write: impl FnOnce(&mut CodeAssembler) -> Written) -> (u64, Vec<u8>) {
        let mut code = CodeAssembler::new(64).expect("64 bits");
        write(&mut code).expect("instructions that exist");
        (at, code.assemble(at).expect("addresses within reach"))
    }

    /// Where the function that is written counts.
    fn found(write: impl FnOnce(&mut CodeAssembler) -> Written) -> Result<Vec<Place>, String> {
        let ended = |code: &mut CodeAssembler| {
            write(code)?;
            code.ret()
        };
        places(&Parts([assembled(START, ended)].into()), START, INT, COUNTER)
    }

    /// The register that tells the argument, and what was done to it.
    fn held(write: impl FnOnce(&mut CodeAssembler) -> Written) -> Option<(usize, Option<u64>, i64, u32)> {
        match found(write) {
            Ok(places) => {
                let [place] = places[..] else { panic!("{places:?}") };
                Some((place.register, place.base, place.bias, place.shift))
            }
            Err(problem) if problem.contains("no register") => None,
            Err(problem) => panic!("{problem}"),
        }
    }

    /// A variable, as code that may be loaded anywhere means it.
    fn at(variable: u64) -> MemoryOperand {
        MemoryOperand::with_base_displ(Register::RIP, variable.cast_signed())
    }

    fn load(code: &mut CodeAssembler, op: Op, to: Register, variable: u64) -> Written {
        code.add_instruction(Instruction::with2(op, to, at(variable))?)
    }

    fn count(code: &mut CodeAssembler) -> Written {
        code.add_instruction(Instruction::with2(Op::Add_rm64_imm8, at(COUNTER.address), 1)?)
    }

    #[test]
    fn what_is_computed_from_the_argument_tells_it() {
        // As compilers index an array that a variable points to: (argument - 1) * 64 + *POOL.
        let indexed = held(|a| {
            a.lea(ebx, rdi - 1)?;
            a.movsxd(rbx, ebx)?;
            a.shl(rbx, 6)?;
            load(a, Op::Add_r64_rm64, Register::RBX, POOL)?;
            a.xor(edi, edi)?;
            count(a)
        });
        assert_eq!(indexed, Some((3, Some(POOL), -64, 6)));
        let scaled = held(|a| {
            load(a, Op::Mov_r64_rm64, Register::RAX, POOL)?;
            a.movsxd(rdi, edi)?;
            a.lea(r12, rax + rdi * 8 - 8)?;
            a.mov(rdi, qword_ptr(r12))?;
            count(a)
        });
        assert_eq!(scaled, Some((12, Some(POOL), -8, 3)));
        let simplest = held(|a| {
            a.mov(r14d, edi)?;
            a.lea(rbx, rdi * 4)?;
            a.sub(edi, 3)?;
            a.add(edi, 1)?;
            a.inc(edi)?;
            count(a)
        });
        assert_eq!(simplest, Some((7, None, -1, 0)));
    }

    #[test]
    fn what_is_lost_is_not_found() {
        let lost: [fn(&mut CodeAssembler) -> Written; 11] = [
            |a| {
                a.shl(rdi, 6)?;
                a.movsxd(rdi, edi)
            },
            |a| {
                a.lea(rax, rdi * 8)?;
                a.xor(edi, edi)?;
                a.cdqe()
            },
            |a| {
                a.lea(rax, edi * 8)?;
                a.xor(edi, edi)
            },
            |a| a.xor(edi, edi),
            |a| a.mov(dil, 1),
            |a| a.shl(edi, 3),
            |a| a.cmove(edi, eax),
            |a| a.xchg(rdi, rax),
            |a| a.pop(rdi),
            |a| a.call(OTHER),
            |a| a.and(edi, 0xff),
        ];
        for (at, lose) in lost.into_iter().enumerate() {
            let found = held(|a| {
                lose(a)?;
                count(a)?;
                a.ret()
            });
            assert_eq!(found, None, "{at}");
        }
        let kept = held(|a| {
            a.mov(rbx, rdi)?;
            a.call(OTHER)?;
            count(a)
        });
        assert_eq!(kept, Some((3, None, 0, 0)));
    }

    #[test]
    fn where_ways_meet_both_must_agree() {
        let found = |other: fn(&mut CodeAssembler) -> Written| {
            held(|a| {
                let mut meet = a.create_label();
                a.mov(ebx, edi)?;
                a.test(esi, esi)?;
                a.je(meet)?;
                other(a)?;
                a.set_label(&mut meet)?;
                a.xor(edi, edi)?;
                count(a)
            })
        };
        assert_eq!(found(|a| a.mov(ebx, edi)), Some((3, None, 0, 0)));
        assert_eq!(found(|a| a.inc(ebx)), None);
        assert_eq!(found(|a| a.mov(ebx, eax)), None);
        // A loop changes what was known when it began.
        let looped = held(|a| {
            let mut again = a.create_label();
            a.set_label(&mut again)?;
            count(a)?;
            a.inc(edi)?;
            a.jmp(again)
        });
        assert_eq!(looped, None);
    }

    #[test]
    fn a_call_that_does_not_return_leads_nowhere() {
        let found = |table: u64| {
            held(|a| {
                let mut rest = a.create_label();
                a.mov(ebx, edi)?;
                a.test(esi, esi)?;
                a.jne(rest)?;
                a.mov(ebx, 7)?;
                a.add_instruction(Instruction::with1(Op::Call_rm64, at(table))?)?;
                a.set_label(&mut rest)?;
                a.xor(edi, edi)?;
                count(a)
            })
        };
        assert_eq!((found(END), found(POOL)), (Some((3, None, 0, 0)), None));
    }

    #[test]
    fn parts_elsewhere_are_followed_and_other_functions_are_not() {
        /// Behind the jump.
        const BACK: u64 = START + 9;
        let found = |elsewhere: fn(&mut CodeAssembler) -> Written| {
            let own = assembled(START, |a| {
                a.mov(ebx, edi)?;
                a.nop()?;
                // Six bytes.
                a.je(COLD)?;
                a.xor(edi, edi)?;
                count(a)?;
                a.ret()
            });
            let cold = assembled(COLD, elsewhere);
            let other = assembled(OTHER, |a| a.jmp(START));
            let places = places(&Parts([own, cold, other].into()), START, INT, COUNTER);
            places.map(|places| places[0].register)
        };
        assert_eq!(found(|a| a.jmp(BACK)), Ok(3));
        assert!(
            found(|a| {
                a.mov(ebx, 1)?;
                a.jmp(BACK)
            })
            .is_err()
        );
        assert_eq!(found(|a| a.jmp(OTHER)), Ok(3));
        // Others may call that, with this argument in another register.
        let counted = found(|a| {
            count(a)?;
            a.ret()
        });
        assert!(counted.expect_err("elsewhere").contains("other functions"));
        // Called again, with another argument.
        assert_eq!(found(|a| a.jmp(START)), Ok(3));
        assert!(found(|a| a.jmp(rax)).expect_err("anywhere").contains("computed address"));
    }

    #[test]
    fn the_probe_is_on_a_branch_that_belongs_to_the_count() {
        let address =
            |write: fn(&mut CodeAssembler) -> Written| found(write).map(|places| places[0].address - START);
        let behind = address(|a| {
            count(a)?;
            a.cmp(eax, 1)?;
            a.je(START)?;
            a.ret()
        });
        assert_eq!(behind, Ok(8 + 5), "the branch");
        let none = address(|a| {
            count(a)?;
            a.ret()
        });
        assert_eq!(none, Ok(0), "the count itself");
        let shared = address(|a| {
            let mut meet = a.create_label();
            a.je(meet)?;
            count(a)?;
            a.set_label(&mut meet)?;
            a.nop()?;
            a.je(START)?;
            a.ret()
        });
        assert_eq!(shared, Ok(2), "others come to the branch too");
    }

    #[test]
    fn what_cannot_be_followed_has_a_reason() {
        let reason = |write: fn(&mut CodeAssembler) -> Written| found(write).expect_err("it cannot");
        assert!(reason(|a| a.ret()).contains("does not change it"));
        assert!(
            reason(|a| load(a, Op::Mov_r64_rm64, Register::RAX, COUNTER.address))
                .contains("does not change it")
        );
        let read = |a: &mut CodeAssembler| {
            a.add_instruction(Instruction::with1(Op::Push_rm64, at(COUNTER.address))?)
        };
        assert!(found(read).expect_err("it reads").contains("does not change it"));
        let pointed = reason(|a| {
            load(a, Op::Lea_r64_m, Register::RAX, COUNTER.variable)?;
            a.add(qword_ptr(rax + 16), 1)?;
            count(a)
        });
        assert!(pointed.contains("through a pointer"));
        let jump = |to: u64| {
            found(|a| {
                let mut rest = a.create_label();
                a.je(rest)?;
                a.add_instruction(Instruction::with1(Op::Jmp_rm64, at(to))?)?;
                a.set_label(&mut rest)?;
                count(a)
            })
        };
        assert!(jump(POOL).expect_err("anywhere").contains("computed address"));
        assert_eq!(jump(LINK).map(|places| places.len()), Ok(1));
        let run_on = places(&Parts([assembled(START, count)].into()), START, INT, COUNTER);
        assert!(run_on.expect_err("it has no end").contains("past its end"));
        assert!(reason(|a| a.jmp(0x7000)).contains("no call-frame entry"));
        assert!(reason(|a| (0..5000).try_for_each(|_| a.nop())).contains("more than 4096"));
        assert!(reason(|a| a.db(&[0x06])).contains("no instruction"));
    }

    #[test]
    fn any_bytes_are_followed_to_an_end() {
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        for _ in 0..20_000 {
            let (_, counting) = assembled(START, count);
            let parts = [START, COLD].map(|at| {
                let mut code: Vec<u8> = (0..48).map(|_| byte()).collect();
                code.extend(&counting);
                (at, code)
            });
            if let Ok(places) = places(&Parts(parts.into()), START, INT, COUNTER) {
                assert!(places.iter().all(|place| place.register != STACK_POINTER));
            }
        }
    }
}
