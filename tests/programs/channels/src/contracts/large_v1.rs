//! Contract `large.v1`: A client sends the longest block that kernels carry.
//!
//! Made by `./pen contract rust tests/contracts/large.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "large.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0x7f, 0x58, 0x66, 0xdf, 0x65, 0xb4, 0x65, 0x06,
    0x89, 0x4f, 0x56, 0x45, 0x46, 0xec, 0xef, 0x06,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 1, 0, 0, 0, 0, 50, 0, 0, 0,
    126, 158, 71, 187, 91, 207, 37, 36, 254, 69, 146, 123, 97, 183, 173, 122,
    0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0,
    1, 255,
];

/// The messages.
pub mod message {

    /// The block.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Put {}

    impl Put {
        /// The number of the message.
        pub const TAG: u16 = 0;
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
        /// The block.
        /// `block` has at most 4194304 bytes.
        pub fn send_put(
            mut self,
            message: &message::Put,
            block: T::Block,
        ) -> Result<Over<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Put::TAG, &bytes, block, endpoints)?;
            Ok(Over(self.0))
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

    /// State `over`: it has sent.
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
            let mut bytes = [0; 0];
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
                message::Put::TAG => Ok(received::Idle::Put {
                    message: message::Put::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
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

    /// State `over`: it has sent.
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

        /// What can be received in state `idle`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Idle<T: channel::Transport> {
            /// The block.
            Put {
                /// The message.
                message: message::Put,
                /// Its block, of at most 4194304 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Over<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
