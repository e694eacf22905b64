//! General registers of x86-64: the processor's numbers, and how the BPF program counts them (`register_of` in
//! `bpf/buffers.h`: as they lie in `struct pt_regs`).

/// By the processor's number; the stack pointer holds no argument.
const NAMES: [&str; 16] = [
    "%rax", "%rcx", "%rdx", "%rbx", "%rsp", "%rbp", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11", "%r12",
    "%r13", "%r14", "%r15",
];
/// The processor's numbers of what the BPF program counts from 1.
const ORDER: [usize; 15] = [15, 14, 13, 12, 5, 3, 11, 10, 9, 8, 0, 1, 2, 6, 7];
/// Of those that arguments come in, in the order of the System V ABI.
const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];

/// The processor's number of the register that a function takes an argument (from 1) in.
pub fn of_argument(argument: u32) -> Option<usize> {
    let at = (argument as usize).checked_sub(1)?;
    ARGUMENTS.get(at).copied()
}

/// The processor's number of a register named as in assembly (all 64 bits); the stack pointer is none.
pub fn by_name(name: &str) -> Option<usize> {
    ORDER.into_iter().find(|&number| NAMES[number] == name)
}

/// As the BPF program counts, from 1; `None` for the stack pointer.
pub fn code(number: usize) -> Option<u32> {
    ORDER.iter().position(|&known| known == number).map(|at| at as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_one_code_each() {
        let arguments = ["%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"].map(by_name);
        assert_eq!([1, 2, 3, 4, 5, 6].map(of_argument), arguments);
        assert_eq!([0, 7].map(of_argument), [None; 2]);
        let codes: Vec<u32> = NAMES.iter().filter_map(|name| by_name(name)).filter_map(code).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=15).collect::<Vec<_>>());
        // Of struct pt_regs: r15 is the first, and rdi the last before what the kernel adds.
        assert_eq!(["%r15", "%rbp", "%rdi"].map(|name| by_name(name).and_then(code)), [1, 5, 15].map(Some));
        assert_eq!((by_name("%rsp"), by_name("%edi"), code(4)), (None, None, None));
    }
}
