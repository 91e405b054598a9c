//! The fields of messages as bytes.

/// A field of 0 to `N` bytes.
#[derive(Clone, Copy)]
pub struct Bytes<const N: usize> {
    length: u16,
    bytes: [u8; N],
}

impl<const N: usize> Bytes<N> {
    /// Returns a copy of `content`; `None` if it is longer than `N`.
    pub fn new(content: &[u8]) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..content.len())?.copy_from_slice(content);
        Some(Self { length: u16::try_from(content.len()).ok()?, bytes })
    }

    /// Returns a copy of as much of `content` as fits.
    pub fn cut(content: &[u8]) -> Self {
        Self::new(content.get(..N).unwrap_or(content)).unwrap_or_default()
    }

    /// Returns the content.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }

    /// Writes the field to the message `bytes` at `at`.
    pub fn put(&self, bytes: &mut [u8], at: usize) {
        put(bytes, at, &self.length.to_le_bytes());
        put(bytes, at + 2, &self.bytes);
    }

    /// Reads the field of the message `bytes` at `at`; `None` if its length is invalid.
    pub fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let length = u16::from_le_bytes(read(bytes, at)?);
        Self::new(bytes.get(at + 2..)?.get(..length.into())?)
    }
}

impl<const N: usize> Default for Bytes<N> {
    fn default() -> Self {
        Self { length: 0, bytes: [0; N] }
    }
}

impl<const N: usize> PartialEq for Bytes<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<const N: usize> Eq for Bytes<N> {}

impl<const N: usize> core::fmt::Debug for Bytes<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

/// Writes `field` to the message `bytes` at `at`, if there is room.
pub fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..field.len())) {
        place.copy_from_slice(field);
    }
}

/// Reads the `N` bytes of a field of the message `bytes` at `at`.
pub fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_variable_length_keep_their_bound() {
        let mut message = [0xff; 12];
        let field = Bytes::<6>::new(b"abc").unwrap();
        field.put(&mut message, 2);
        assert_eq!(message, *b"\xff\xff\x03\0abc\0\0\0\xff\xff");
        assert_eq!(Bytes::<6>::read(&message, 2), Some(field));
        assert_eq!(Bytes::<2>::read(&message, 2), None, "longer than its bound");
        assert_eq!(Bytes::<6>::read(&message, 11), None, "outside of the message");
        assert_eq!(Bytes::<6>::new(b"abcdefg"), None);
        assert_eq!(format!("{field:?} {:?}", Bytes::<3>::default()), "\"abc\" \"\"");
    }

    #[test]
    fn what_does_not_fit_is_refused_or_cut() {
        assert_eq!(Bytes::<3>::new(b"abcd"), None);
        for (content, fits) in [("", ""), ("abc", "abc"), ("abcd", "abc")] {
            assert_eq!(Bytes::<3>::cut(content.as_bytes()).as_slice(), fits.as_bytes());
        }
    }
}
