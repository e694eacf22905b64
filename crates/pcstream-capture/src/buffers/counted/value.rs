//! What a register is known to hold, and what an instruction makes of it.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::Number;

/// `(argument << shift) + *base + bias`, without what is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) shift: Option<u32>,
    pub(super) base: Option<u64>,
    pub(super) bias: i64,
}

impl Value {
    pub(super) const ZERO: Value = Value { shift: None, base: None, bias: 0 };

    pub(super) fn plus(self, other: Value) -> Option<Value> {
        let one = |a: bool, b: bool| !(a && b);
        let fits = one(self.shift.is_some(), other.shift.is_some())
            && one(self.base.is_some(), other.base.is_some());
        fits.then(|| Value {
            shift: self.shift.or(other.shift),
            base: self.base.or(other.base),
            bias: self.bias.wrapping_add(other.bias),
        })
    }

    pub(super) fn plus_number(self, number: i64) -> Value {
        Value { bias: self.bias.wrapping_add(number), ..self }
    }

    pub(super) fn shifted(self, by: u32) -> Option<Value> {
        let shift = self.shift.map(|shift| shift + by).filter(|&shift| shift < 32)?;
        self.base.is_none().then_some(Value { shift: Some(shift), base: None, bias: self.bias << by })
    }

    /// Survives being cut to 32 bits, where the argument has no more.
    pub(super) fn is_short(self) -> bool {
        self.shift == Some(0) && self.base.is_none()
    }
}

pub(super) type Registers = [Option<Value>; 16];

/// The address of the variable that is an operand.
pub(super) fn variable(instruction: &Instruction) -> Option<u64> {
    let plain = instruction.is_ip_rel_memory_operand() && instruction.segment_prefix() == Register::None;
    plain.then(|| instruction.ip_rel_memory_address())
}

/// Whether an instruction changes a number.
pub(super) fn changes(instruction: &Instruction, number: Number) -> bool {
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
pub(super) fn points_at(instruction: &Instruction, number: Number) -> bool {
    let lea = instruction.mnemonic() == Mnemonic::Lea;
    lea && variable(instruction).is_some_and(|at| (number.variable..=number.address).contains(&at))
}

pub(super) fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// x86's number of the general register that a register is part of.
pub(super) fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

/// What `lea` computes.
pub(super) fn address(instruction: &Instruction, held: impl Fn(Register) -> Option<Value>) -> Option<Value> {
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
