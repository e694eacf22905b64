//! Functions as compilers write them, assembled here.

use std::collections::HashMap;

use iced_x86::code_asm::*;
use iced_x86::{Code as Op, IcedError, Instruction, MemoryOperand, Register};

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
        reason(|a| load(a, Op::Mov_r64_rm64, Register::RAX, COUNTER.address)).contains("does not change it")
    );
    let read =
        |a: &mut CodeAssembler| a.add_instruction(Instruction::with1(Op::Push_rm64, at(COUNTER.address))?);
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
