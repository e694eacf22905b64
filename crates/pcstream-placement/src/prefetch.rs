//! Asking the processor for what will be looked at soon.

/// How long before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// About ten events.
    Far,
    /// About five: what was asked for far ahead has arrived.
    Near,
}

/// Asks for the cache line where `value` begins.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes no architectural state, and the address is that of a value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
