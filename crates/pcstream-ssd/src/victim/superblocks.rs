//! State of the superblocks that the hot path reads: 16 bytes each, so that an invalidation touches
//! one cache line per superblock involved.
//!
//! Superblocks are numbered from 1: 0 means "no superblock", which makes an all-zero map an empty
//! one. Behind the last superblock, a policy can have *heads*: further nodes that begin circular
//! lists, so that linking and unlinking need no branches.

use crate::memory::{OutOfMemory, reserved};

/// Set in `valid` while a superblock is free or open, that is, not a candidate.
const NOT_CLOSED: u32 = 1 << 31;

/// One superblock, or a list head.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Valid pages, with `NOT_CLOSED`.
    valid: u32,
    /// Links at the disposal of the policy.
    previous: u32,
    next: u32,
    /// Times erased since the device was made.
    erases: u32,
}

/// Superblocks 1 to `len()`, and list heads behind them.
pub struct Superblocks {
    nodes: Vec<Node>,
    superblocks: u32,
    pages: u32,
}

impl Superblocks {
    /// Bytes of a superblock, or of a list head.
    pub(crate) const NODE_BYTES: u64 = size_of::<Node>() as u64;

    /// All free and never erased, with memory for `heads` list heads.
    pub(crate) fn new(superblocks: u32, pages: u32, heads: u64) -> Result<Self, OutOfMemory> {
        let entries = 1 + superblocks as usize;
        let nodes_and_heads = (entries as u64).saturating_add(heads);
        if nodes_and_heads > u64::from(u32::MAX) {
            let bytes = nodes_and_heads.saturating_mul(Self::NODE_BYTES);
            return Err(OutOfMemory {
                bytes,
                reason: "more than 4 G lists; smaller superblocks need fewer".into(),
            });
        }
        let mut nodes = reserved(nodes_and_heads as usize)?;
        nodes.resize(entries, Node { valid: NOT_CLOSED, ..Node::default() });
        Ok(Superblocks { nodes, superblocks, pages })
    }

    /// Their number, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a device has superblocks")]
    pub fn len(&self) -> u32 {
        self.superblocks
    }

    /// Pages of each.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Valid pages of a superblock.
    #[inline(always)]
    pub fn valid(&self, superblock: u32) -> u32 {
        self.nodes[superblock as usize].valid & !NOT_CLOSED
    }

    /// Whether a superblock is a candidate: neither free nor open.
    #[inline(always)]
    pub fn is_closed(&self, superblock: u32) -> bool {
        self.nodes[superblock as usize].valid & NOT_CLOSED == 0
    }

    /// How often a superblock was erased since the device was made.
    pub fn erases(&self, superblock: u32) -> u32 {
        self.nodes[superblock as usize].erases
    }

    /// Marks an open superblock as full: a candidate from now on.
    pub(crate) fn close(&mut self, superblock: u32) {
        debug_assert!(!self.is_closed(superblock));
        self.nodes[superblock as usize].valid &= !NOT_CLOSED;
    }

    /// Adds valid pages to an open superblock.
    #[inline(always)]
    pub(crate) fn programmed(&mut self, superblock: u32, pages: u32) {
        self.nodes[superblock as usize].valid += pages;
    }

    /// Takes valid pages away. Returns what is left if the superblock is a candidate.
    #[inline(always)]
    pub(crate) fn invalidate(&mut self, superblock: u32, pages: u32) -> Option<u32> {
        let node = &mut self.nodes[superblock as usize];
        assert!(node.valid & !NOT_CLOSED >= pages, "more pages invalidated than were valid");
        node.valid -= pages;
        (node.valid & NOT_CLOSED == 0).then_some(node.valid)
    }

    /// Makes a victim free; its valid pages have been copied out.
    pub(crate) fn erase(&mut self, superblock: u32) {
        let node = &mut self.nodes[superblock as usize];
        node.valid = NOT_CLOSED;
        node.erases += 1;
    }

    /// Adds `count` empty circular lists; returns the node of the first.
    pub fn add_heads(&mut self, count: u32) -> u32 {
        let first = self.nodes.len() as u32;
        let head = |node| Node { previous: node, next: node, ..Node::default() };
        self.nodes.extend((first..first + count).map(head));
        first
    }

    /// The node after `node` in its list.
    #[inline(always)]
    pub fn next(&self, node: u32) -> u32 {
        self.nodes[node as usize].next
    }

    /// Puts `superblock` at the end of the list that `head` begins.
    #[inline(always)]
    pub fn link_last(&mut self, head: u32, superblock: u32) {
        let last = self.nodes[head as usize].previous;
        self.nodes[superblock as usize].previous = last;
        self.nodes[superblock as usize].next = head;
        self.nodes[last as usize].next = superblock;
        self.nodes[head as usize].previous = superblock;
    }

    /// Takes `superblock` out of its list.
    #[inline(always)]
    pub fn unlink(&mut self, superblock: u32) {
        let Node { previous, next, .. } = self.nodes[superblock as usize];
        self.nodes[previous as usize].next = next;
        self.nodes[next as usize].previous = previous;
    }

    /// Asks for the cache line of `superblock`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, superblock: u32) {
        crate::memory::prefetch(&self.nodes, superblock as usize);
    }
}
