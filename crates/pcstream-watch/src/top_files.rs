//! The files that a context writes most, in little memory.
//!
//! Idea: a few counters. A file without one takes over the smallest, and what that had counted, so that a file that is
//! written often is found in spite of many others. Their paths distinguish them: a journal that is deleted and made again
//! is one file. Counts fade with each interval, so that the files are those of now.
//!
//! Known weakness: counts are estimates; a file that took a counter over counts too much until that has faded.

use std::sync::Arc;

/// Files kept of a context.
const MOST: usize = 8;

#[derive(Clone, Debug, Default)]
pub(crate) struct TopFiles {
    counts: Vec<Count>,
}

#[derive(Clone, Debug)]
struct Count {
    path: Arc<str>,
    pages: u64,
}

impl TopFiles {
    /// Counts pages of a file.
    pub(crate) fn add(&mut self, path: Arc<str>, pages: u64) {
        if let Some(count) = self.counts.iter_mut().find(|count| count.path == path) {
            count.pages += pages;
            return;
        }
        if self.counts.len() < MOST {
            self.counts.push(Count { path, pages });
            return;
        }
        if let Some(least) = self.counts.iter_mut().min_by_key(|count| count.pages) {
            *least = Count { path, pages: least.pages + pages };
        }
    }

    /// An interval ended.
    pub(crate) fn fade(&mut self) {
        self.counts.iter_mut().for_each(|count| count.pages -= count.pages.div_ceil(8));
    }

    /// Paths, the most written first.
    pub(crate) fn paths(&self) -> Vec<Arc<str>> {
        let mut counts: Vec<&Count> = self.counts.iter().collect();
        counts.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.path.cmp(&b.path)));
        counts.into_iter().map(|count| count.path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(files: &mut TopFiles, file: u32, pages: u64) {
        files.add(file.to_string().into(), pages);
    }

    #[test]
    fn a_file_that_is_made_again_is_one_file() {
        let mut files = TopFiles::default();
        (0..100).for_each(|_| files.add("/db-journal".into(), 1));
        add(&mut files, 1, 50);
        assert_eq!(files.paths().iter().map(|path| &**path).collect::<Vec<_>>(), ["/db-journal", "1"]);
    }

    #[test]
    fn the_most_written_file_is_found_among_many() {
        let mut files = TopFiles::default();
        for other in 1..1000 {
            add(&mut files, other, 1);
            add(&mut files, 5000, 1);
        }
        assert_eq!(&*files.paths()[0], "5000");
        assert_eq!(files.paths().len(), MOST);
    }

    #[test]
    fn the_files_of_now_come_first() {
        let mut files = TopFiles::default();
        add(&mut files, 1, 1000);
        for _ in 0..60 {
            files.fade();
            add(&mut files, 2, 10);
        }
        assert_eq!(&*files.paths()[0], "2");
    }
}
