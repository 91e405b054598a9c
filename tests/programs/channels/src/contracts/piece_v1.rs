//! Contract `piece.v1`: A client sends blocks and gets each back.
//!
//! Made by `./pen contract rust tests/contracts/piece.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "piece.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0x25, 0x76, 0xd0, 0x3d, 0x26, 0x65, 0xdc, 0xce,
    0xd1, 0x37, 0x41, 0xc9, 0x3e, 0x1b, 0xd5, 0x66,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 2, 0, 0, 0, 0, 64, 0, 0, 0,
    23, 211, 141, 29, 181, 226, 64, 114, 232, 205, 200, 78, 33, 220, 36, 159,
    0, 1, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0,
    1, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 255, 255, 0,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// To be sent back.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Piece {
        /// Of its bytes.
        pub sum: u32,
    }

    impl Piece {
        /// The number of the message.
        pub const TAG: u16 = 0;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 4;

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
                sum: u32::from_le_bytes(channel::read(bytes, 0)?),
            })
        }
    }

    /// The same block.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Same {
        /// Of its bytes, as the server has added them up.
        pub sum: u32,
    }

    impl Same {
        /// The number of the message.
        pub const TAG: u16 = 1;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 4;

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
                sum: u32::from_le_bytes(channel::read(bytes, 0)?),
            })
        }
    }
}

/// The client's side of a channel: each state is a type.
pub mod client {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Idle<T> {
        Idle(transport)
    }

    /// State `idle`: the client may send.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// To be sent back.
        /// `block` has at most 65536 bytes.
        pub fn send_piece(
            mut self,
            message: &message::Piece,
            block: T::Block,
        ) -> Result<Sent<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Piece::TAG, &bytes, block, endpoints)?;
            Ok(Sent(self.0))
        }

        /// Sends as `send_piece` does and waits for the answer, in one call.
        pub fn call_piece(
            mut self,
            message: &message::Piece,
            block: T::Block,
        ) -> Result<received::Sent<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Piece::TAG, [0; 4]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Sent(self.0).read(&answer, incoming)
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }

        /// Closes the channel.
        pub fn close(self) {
            self.0.close();
        }
    }

    /// State `sent`: the server sends it back.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Sent<T: channel::Transport>(T);

    impl<T: channel::Transport> Sent<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Sent<T>, channel::Error> {
            let mut bytes = [0; 4];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Sent<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Same::TAG => Ok(received::Sent::Same {
                    message: message::Same::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Idle(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// What can be received, for each state in which something can.
    pub mod received {
        use super::super::message;
        use penumbra::channel;

        /// What can be received in state `sent`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Sent<T: channel::Transport> {
            /// The same block.
            Same {
                /// The message.
                message: message::Same,
                /// Its block, of at most 65536 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Idle<T>,
            },
        }
    }
}

/// The server's side of a channel: each state is a type.
pub mod server {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Idle<T> {
        Idle(transport)
    }

    /// State `idle`: the client may send.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Idle<T>, channel::Error> {
            let mut bytes = [0; 4];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Idle<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Ok(received::Idle::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Piece::TAG => Ok(received::Idle::Piece {
                    message: message::Piece::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Sent(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `sent`: the server sends it back.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Sent<T: channel::Transport>(T);

    impl<T: channel::Transport> Sent<T> {
        /// The same block.
        /// `block` has at most 65536 bytes.
        pub fn send_same(
            mut self,
            message: &message::Same,
            block: T::Block,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Same::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_same` does and waits for the answer, in one call.
        pub fn call_same(
            mut self,
            message: &message::Same,
            block: T::Block,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Same::TAG, [0; 4]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Idle(self.0).read(&answer, incoming)
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// What can be received, for each state in which something can.
    pub mod received {
        use super::super::message;
        use penumbra::channel;

        /// What can be received in state `idle`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Idle<T: channel::Transport> {
            /// To be sent back.
            Piece {
                /// The message.
                message: message::Piece,
                /// Its block, of at most 65536 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Sent<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
