//! What generated code of contracts needs (`./pen contract rust`, `docs/reference/contracts.md`):
//! the transport that it sends over, its errors, and the fields of its messages.
//!
//! Nothing implements [`Transport`] over the system's calls yet, because kernels have no channels.

/// Maximum number of endpoints that a message carries.
pub const ENDPOINTS: usize = 2;

/// The endpoints that a message carries, in the order of the contract; `None` after the last one.
pub type Endpoints<E> = [Option<E>; ENDPOINTS];

/// One end of a channel, as generated code uses it. A dropped transport closes its end.
pub trait Transport {
    /// A block of bytes. It moves with the message that it is sent with.
    type Block;
    /// An end of another channel. It moves likewise.
    type Endpoint;

    /// Sends the message `tag`. `bytes` are its fields. Does not wait for the receiver.
    fn send(
        &mut self,
        tag: u16,
        bytes: &[u8],
        block: Option<Self::Block>,
        endpoints: Endpoints<Self::Endpoint>,
    ) -> Result<(), Error>;

    /// Waits for the next message, and puts its fields at the start of `bytes`, which has room for
    /// any message that the contract allows now. `None`: the other side has closed the channel.
    fn receive(&mut self, bytes: &mut [u8]) -> Received<Self>;

    /// Closes the channel, as the contract allows it.
    fn close(self)
    where
        Self: Sized;
}

/// What [`Transport::receive`] returns.
pub type Received<T> =
    Result<Option<Arrival<<T as Transport>::Block, <T as Transport>::Endpoint>>, Error>;

/// A received message without its fields.
#[derive(Debug)]
pub struct Arrival<B, E> {
    /// The number of the message in its contract.
    pub tag: u16,
    /// Length of its fields in bytes.
    pub length: usize,
    /// The block, if the message has one.
    pub block: Option<B>,
    /// The endpoints that it carries.
    pub endpoints: Endpoints<E>,
}

/// Why a conversation ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// The other side has closed the channel.
    Closed,
    /// The channel is broken: a side did what the contract does not allow, or ended with its
    /// program.
    Broken,
    /// The message with this tag is not allowed now. Only a wrong transport delivers it.
    Unexpected(u16),
    /// The message with this tag lacks something, or a field has an invalid length.
    Malformed(u16),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Closed => f.write_str("the other side has closed the channel"),
            Error::Broken => f.write_str("the channel is broken"),
            Error::Unexpected(tag) => write!(f, "message {tag} is not allowed now"),
            Error::Malformed(tag) => write!(f, "message {tag} has invalid contents"),
        }
    }
}

impl core::error::Error for Error {}

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

/// Takes the first endpoint out of those that a message carried.
pub fn take<E>(endpoints: &mut impl Iterator<Item = Option<E>>) -> Option<E> {
    endpoints.next().flatten()
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
}
