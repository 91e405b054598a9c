//! Contract `stream.v1`: A client shares memory with the server, and fills it part by part.
//!
//! Made by `./pen contract rust tests/contracts/stream.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "stream.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0xfd, 0xb5, 0x6b, 0x0e, 0x03, 0x01, 0x13, 0x4b,
    0x53, 0x08, 0x49, 0x53, 0x19, 0x44, 0x4e, 0x5f,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 4, 4, 0, 0, 0, 0, 104, 0, 0, 0,
    201, 158, 186, 202, 136, 35, 170, 178, 209, 210, 103, 101, 70, 170, 194, 40,
    0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 16, 0,
    0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 8, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 2,
    255, 1, 3, 255, 255, 255, 255, 255,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// The memory, whose first part is filled.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Memory {
        /// Of that part.
        pub length: u32,
    }

    impl Memory {
        /// The number of the message.
        pub const TAG: u16 = 0;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 4;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.length.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                length: u32::from_le_bytes(channel::read(bytes, 0)?),
            })
        }
    }

    /// A part is filled.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Filled {
        /// A field.
        pub at: u32,
        /// A field.
        pub length: u32,
    }

    impl Filled {
        /// The number of the message.
        pub const TAG: u16 = 1;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 8;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.at.to_le_bytes());
            channel::put(&mut bytes, 4, &self.length.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                at: u32::from_le_bytes(channel::read(bytes, 0)?),
                length: u32::from_le_bytes(channel::read(bytes, 4)?),
            })
        }
    }

    /// There are no more parts.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Enough {}

    impl Enough {
        /// The number of the message.
        pub const TAG: u16 = 2;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 0;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            []
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {})
        }
    }

    /// The part has been read.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Read {
        /// Of its words.
        pub sum: u64,
    }

    impl Read {
        /// The number of the message.
        pub const TAG: u16 = 3;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 8;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.sum.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                sum: u64::from_le_bytes(channel::read(bytes, 0)?),
            })
        }
    }
}

/// The client's side of a channel: each state is a type.
pub mod client {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Begin<T> {
        Begin(transport)
    }

    /// State `begin`: the client makes the memory.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Begin<T: channel::Transport>(T);

    impl<T: channel::Transport> Begin<T> {
        /// The memory, whose first part is filled.
        /// `block` has at most 1048576 bytes.
        pub fn send_memory(
            mut self,
            message: &message::Memory,
            block: T::Block,
        ) -> Result<Reads<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Memory::TAG, &bytes, block, endpoints)?;
            Ok(Reads(self.0))
        }

        /// Sends as `send_memory` does and waits for the answer, in one call.
        pub fn call_memory(
            mut self,
            message: &message::Memory,
            block: T::Block,
        ) -> Result<received::Reads<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Memory::TAG, [0; 8]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Reads(self.0).read(&answer, incoming)
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `reads`: the server reads the part.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Reads<T: channel::Transport>(T);

    impl<T: channel::Transport> Reads<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Reads<T>, channel::Error> {
            let mut bytes = [0; 8];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Reads<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Read::TAG => Ok(received::Reads::Read {
                    message: message::Read::decode(bytes).ok_or(wrong)?,
                    next: Fills(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `fills`: the client fills another part.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Fills<T: channel::Transport>(T);

    impl<T: channel::Transport> Fills<T> {
        /// A part is filled.
        pub fn send_filled(
            mut self,
            message: &message::Filled,
        ) -> Result<Reads<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Filled::TAG, &bytes, block, endpoints)?;
            Ok(Reads(self.0))
        }

        /// Sends as `send_filled` does and waits for the answer, in one call.
        pub fn call_filled(
            mut self,
            message: &message::Filled,
        ) -> Result<received::Reads<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Filled::TAG, [0; 8]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Reads(self.0).read(&answer, incoming)
        }

        /// There are no more parts.
        pub fn send_enough(
            mut self,
            message: &message::Enough,
        ) -> Result<Over<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Enough::TAG, &bytes, block, endpoints)?;
            Ok(Over(self.0))
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `over`: both sides close.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Over<T: channel::Transport>(T);

    impl<T: channel::Transport> Over<T> {
        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }

        /// Closes the channel.
        pub fn close(self) {
            self.0.close();
        }
    }

    /// What can be received, for each state in which something can.
    pub mod received {
        use super::super::message;
        use penumbra::channel;

        /// What can be received in state `reads`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Reads<T: channel::Transport> {
            /// The part has been read.
            Read {
                /// The message.
                message: message::Read,
                /// The conversation, which continues.
                next: super::Fills<T>,
            },
        }
    }
}

/// The server's side of a channel: each state is a type.
pub mod server {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Begin<T> {
        Begin(transport)
    }

    /// State `begin`: the client makes the memory.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Begin<T: channel::Transport>(T);

    impl<T: channel::Transport> Begin<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Begin<T>, channel::Error> {
            let mut bytes = [0; 4];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Begin<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Memory::TAG => Ok(received::Begin::Memory {
                    message: message::Memory::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Reads(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `reads`: the server reads the part.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Reads<T: channel::Transport>(T);

    impl<T: channel::Transport> Reads<T> {
        /// The part has been read.
        pub fn send_read(
            mut self,
            message: &message::Read,
        ) -> Result<Fills<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Read::TAG, &bytes, block, endpoints)?;
            Ok(Fills(self.0))
        }

        /// Sends as `send_read` does and waits for the answer, in one call.
        pub fn call_read(
            mut self,
            message: &message::Read,
        ) -> Result<received::Fills<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Read::TAG, [0; 8]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Fills(self.0).read(&answer, incoming)
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `fills`: the client fills another part.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Fills<T: channel::Transport>(T);

    impl<T: channel::Transport> Fills<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Fills<T>, channel::Error> {
            let mut bytes = [0; 8];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Fills<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Filled::TAG => Ok(received::Fills::Filled {
                    message: message::Filled::decode(bytes).ok_or(wrong)?,
                    next: Reads(self.0),
                }),
                message::Enough::TAG => Ok(received::Fills::Enough {
                    message: message::Enough::decode(bytes).ok_or(wrong)?,
                    next: Over(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `over`: both sides close.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Over<T: channel::Transport>(T);

    impl<T: channel::Transport> Over<T> {
        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }

        /// Closes the channel.
        pub fn close(self) {
            self.0.close();
        }
    }

    /// What can be received, for each state in which something can.
    pub mod received {
        use super::super::message;
        use penumbra::channel;

        /// What can be received in state `begin`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Begin<T: channel::Transport> {
            /// The memory, whose first part is filled.
            Memory {
                /// The message.
                message: message::Memory,
                /// Its block, of at most 1048576 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Reads<T>,
            },
        }

        /// What can be received in state `fills`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Fills<T: channel::Transport> {
            /// A part is filled.
            Filled {
                /// The message.
                message: message::Filled,
                /// The conversation, which continues.
                next: super::Reads<T>,
            },
            /// There are no more parts.
            Enough {
                /// The message.
                message: message::Enough,
                /// The conversation, which continues.
                next: super::Over<T>,
            },
        }
    }
}
