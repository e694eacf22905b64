//! The files that a context writes most, in little memory.
//!
//! Idea: a few counters. A file without one takes over the smallest, and what that had counted, so that a file that is
//! written often is found in spite of many others. Counts fade with each interval, so that the files are those of now.
//!
//! Known weakness: counts are estimates; a file that took a counter over counts too much until that has faded.

use std::sync::Arc;

use pcstream_trace::FileId;

/// Files kept of a context.
const MOST: usize = 8;

#[derive(Clone, Debug, Default)]
pub(crate) struct TopFiles {
    counts: Vec<Count>,
}

#[derive(Clone, Debug)]
struct Count {
    file: FileId,
    path: Arc<str>,
    pages: u64,
}

impl TopFiles {
    /// Counts pages of a file; `path` is asked for if the file is new here.
    pub(crate) fn add(&mut self, file: FileId, pages: u64, path: impl FnOnce() -> Arc<str>) {
        if let Some(count) = self.counts.iter_mut().find(|count| count.file == file) {
            count.pages += pages;
            return;
        }
        if self.counts.len() < MOST {
            self.counts.push(Count { file, path: path(), pages });
            return;
        }
        if let Some(least) = self.counts.iter_mut().min_by_key(|count| count.pages) {
            *least = Count { file, path: path(), pages: least.pages + pages };
        }
    }

    /// An interval ended.
    pub(crate) fn fade(&mut self) {
        self.counts.iter_mut().for_each(|count| count.pages -= count.pages.div_ceil(8));
    }

    /// Paths, the most written first.
    pub(crate) fn paths(&self) -> Vec<Arc<str>> {
        let mut counts: Vec<&Count> = self.counts.iter().collect();
        counts.sort_by_key(|count| (std::cmp::Reverse(count.pages), count.file));
        counts.into_iter().map(|count| count.path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(files: &mut TopFiles, file: u32, pages: u64) {
        files.add(FileId(file), pages, || file.to_string().into());
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
