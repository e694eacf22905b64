//! General registers of x86-64: the processor's numbers, and how the kernel side counts them (`register_of` in
//! `bpf/buffers.h`: arguments first, in the order of the System V ABI).

/// By the processor's number; the stack pointer holds no argument.
const NAMES: [&str; 16] = [
    "%rax", "%rcx", "%rdx", "%rbx", "%rsp", "%rbp", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11", "%r12",
    "%r13", "%r14", "%r15",
];
/// The processor's numbers of what the kernel side counts from 1.
const ORDER: [usize; 15] = [7, 6, 2, 1, 8, 9, 0, 3, 5, 10, 11, 12, 13, 14, 15];
/// Arguments that come in registers.
const ARGUMENTS: usize = 6;

/// The processor's number of the register that a function takes an argument (from 1) in.
pub fn of_argument(argument: u32) -> Option<usize> {
    let at = (argument as usize).checked_sub(1)?;
    ORDER[..ARGUMENTS].get(at).copied()
}

/// The processor's number of a register named as in assembly (all 64 bits); the stack pointer is none.
pub fn by_name(name: &str) -> Option<usize> {
    ORDER.into_iter().find(|&number| NAMES[number] == name)
}

/// As the kernel side counts; 0, which is no register there, for the stack pointer.
pub fn code(number: usize) -> u32 {
    ORDER.iter().position(|&known| known == number).map_or(0, |at| at as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_one_code_each() {
        for argument in 1..=6 {
            assert_eq!(of_argument(argument).map(code), Some(argument));
        }
        assert_eq!([0, 7].map(of_argument), [None; 2]);
        let codes: Vec<u32> = NAMES.iter().filter_map(|name| by_name(name)).map(code).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=15).collect::<Vec<_>>());
        assert_eq!((by_name("%rdi").map(code), by_name("%rsp"), by_name("%edi")), (Some(1), None, None));
    }
}
