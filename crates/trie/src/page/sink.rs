//! The destination of finished pages.

/// A file that is being appended to. The writer counts positions itself, so a sink may drain its
/// bytes at any time.
pub trait Sink {
    /// Takes the next bytes of the file.
    fn append(&mut self, bytes: &[u8]);

    /// Takes `count` zero bytes, less than a page.
    fn pad(&mut self, count: usize) {
        const ZEROS: [u8; super::PAGE_SIZE] = [0; super::PAGE_SIZE];
        self.append(ZEROS.get(..count).unwrap_or(&ZEROS));
    }
}

impl Sink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn append(&mut self, bytes: &[u8]) {
        (**self).append(bytes);
    }
}
