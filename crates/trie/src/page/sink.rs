//! Where finished pages go.

/// A file being appended to. The writer keeps count of positions, so a sink may drain what it got at
/// any time.
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
