//! Contract `every.v1`: Shows everything that a message can have.
//!
//! Made by `./pen contract rust host/contract/tests/contracts/every.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "every.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0xff, 0x46, 0xa1, 0x01, 0x00, 0xc9, 0x21, 0x6e,
    0x80, 0x7c, 0x12, 0x18, 0x7b, 0xee, 0x23, 0xeb,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 4, 3, 0, 1, 2, 0, 128, 0, 0, 0,
    122, 29, 149, 118, 15, 32, 14, 65, 111, 96, 205, 120, 2, 204, 213, 130,
    0, 1, 1, 0, 1, 1, 2, 0, 0, 2, 56, 0, 0, 12, 0, 0,
    0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
    1, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 142, 87, 176, 184,
    167, 91, 99, 142, 52, 238, 179, 6, 99, 230, 103, 27, 1, 0, 0, 0,
    142, 87, 176, 184, 167, 91, 99, 142, 52, 238, 179, 6, 99, 230, 103, 27,
    0, 0, 0, 0, 1, 255, 255, 255, 2, 255, 255, 255, 3, 255, 255, 255,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// */ has every type of field, a block and two endpoints.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct All {
        /// A field.
        pub tiny: i8,
        /// A field.
        pub medium: u16,
        /// Its length is odd /* and */ \[no link] | /*/.
        pub name: channel::Bytes<5>,
        /// A field.
        pub large: i64,
        /// A field.
        pub key: [u8; 3],
        /// A field.
        pub small: u32,
        /// A field.
        pub flag: u8,
        /// A field.
        pub change: i16,
        /// A field.
        pub sum: u64,
        /// A field.
        pub error: i32,
    }

    impl All {
        /// The number of the message.
        pub const TAG: u16 = 0;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 56;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.tiny.to_le_bytes());
            channel::put(&mut bytes, 2, &self.medium.to_le_bytes());
            self.name.put(&mut bytes, 4);
            channel::put(&mut bytes, 16, &self.large.to_le_bytes());
            channel::put(&mut bytes, 24, &self.key);
            channel::put(&mut bytes, 28, &self.small.to_le_bytes());
            channel::put(&mut bytes, 32, &self.flag.to_le_bytes());
            channel::put(&mut bytes, 34, &self.change.to_le_bytes());
            channel::put(&mut bytes, 40, &self.sum.to_le_bytes());
            channel::put(&mut bytes, 48, &self.error.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                tiny: i8::from_le_bytes(channel::read(bytes, 0)?),
                medium: u16::from_le_bytes(channel::read(bytes, 2)?),
                name: channel::Bytes::read(bytes, 4)?,
                large: i64::from_le_bytes(channel::read(bytes, 16)?),
                key: channel::read(bytes, 24)?,
                small: u32::from_le_bytes(channel::read(bytes, 28)?),
                flag: u8::from_le_bytes(channel::read(bytes, 32)?),
                change: i16::from_le_bytes(channel::read(bytes, 34)?),
                sum: u64::from_le_bytes(channel::read(bytes, 40)?),
                error: i32::from_le_bytes(channel::read(bytes, 48)?),
            })
        }
    }

    /// A message.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct First {}

    impl First {
        /// The number of the message.
        pub const TAG: u16 = 1;
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

    /// A message.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Second {}

    impl Second {
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
}

/// The client's side of a channel: each state is a type.
pub mod client {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Sending<T> {
        Sending(transport)
    }

    /// State `sending`.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Sending<T: channel::Transport>(T);

    impl<T: channel::Transport> Sending<T> {
        /// */ has every type of field, a block and two endpoints.
        /// `block` has at most 3072 bytes.
        /// `served` is the server's end of a new channel, by `other.v2`.
        /// `other` is the client's end of a new channel, by `other.v2`.
        pub fn send_all(
            mut self,
            message: &message::All,
            block: T::Block,
            served: T::Endpoint,
            other: T::Endpoint,
        ) -> Result<Answering<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [Some(served), Some(other)]);
            self.0.send(message::All::TAG, &bytes, block, endpoints)?;
            Ok(Answering(self.0))
        }

        /// Sends as `send_all` does and waits for the answer, in one call.
        pub fn call_all(
            mut self,
            message: &message::All,
            block: T::Block,
            served: T::Endpoint,
            other: T::Endpoint,
        ) -> Result<received::Answering<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [Some(served), Some(other)]);
            let (tag, mut answer) = (message::All::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Answering(self.0).read(&answer, incoming)
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

    /// State `answering`.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Answering<T: channel::Transport>(T);

    impl<T: channel::Transport> Answering<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Answering<T>, channel::Error> {
            let mut bytes = [0; 0];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Answering<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::First::TAG => Ok(received::Answering::First {
                    message: message::First::decode(bytes).ok_or(wrong)?,
                    next: Between(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `between`.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Between<T: channel::Transport>(T);

    impl<T: channel::Transport> Between<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Between<T>, channel::Error> {
            let mut bytes = [0; 0];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Between<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Ok(received::Between::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Second::TAG => Ok(received::Between::Second {
                    message: message::Second::decode(bytes).ok_or(wrong)?,
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

    /// The end: only closing is left.
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

        /// What can be received in state `answering`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Answering<T: channel::Transport> {
            /// A message.
            First {
                /// The message.
                message: message::First,
                /// The conversation, which continues.
                next: super::Between<T>,
            },
        }

        /// What can be received in state `between`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Between<T: channel::Transport> {
            /// A message.
            Second {
                /// The message.
                message: message::Second,
                /// Its block, of at most 7 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Over<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}

/// The server's side of a channel: each state is a type.
pub mod server {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Sending<T> {
        Sending(transport)
    }

    /// State `sending`.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Sending<T: channel::Transport>(T);

    impl<T: channel::Transport> Sending<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Sending<T>, channel::Error> {
            let mut bytes = [0; 56];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Sending<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Ok(received::Sending::Closed);
            };
            let mut endpoints = arrival.endpoints.into_iter();
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::All::TAG => Ok(received::Sending::All {
                    message: message::All::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    served: channel::take(&mut endpoints).ok_or(wrong)?,
                    other: channel::take(&mut endpoints).ok_or(wrong)?,
                    next: Answering(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `answering`.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Answering<T: channel::Transport>(T);

    impl<T: channel::Transport> Answering<T> {
        /// Sends the message.
        pub fn send_first(
            mut self,
            message: &message::First,
        ) -> Result<Between<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::First::TAG, &bytes, block, endpoints)?;
            Ok(Between(self.0))
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `between`.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Between<T: channel::Transport>(T);

    impl<T: channel::Transport> Between<T> {
        /// Sends the message.
        /// `block` has at most 7 bytes.
        pub fn send_second(
            mut self,
            message: &message::Second,
            block: T::Block,
        ) -> Result<Over<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Second::TAG, &bytes, block, endpoints)?;
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

    /// The end: only closing is left.
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

        /// What can be received in state `sending`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Sending<T: channel::Transport> {
            /// */ has every type of field, a block and two endpoints.
            All {
                /// The message.
                message: message::All,
                /// Its block, of at most 3072 bytes.
                block: T::Block,
                /// The server's end of a new channel, by `other.v2`.
                served: T::Endpoint,
                /// The client's end of a new channel, by `other.v2`.
                other: T::Endpoint,
                /// The conversation, which continues.
                next: super::Answering<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
