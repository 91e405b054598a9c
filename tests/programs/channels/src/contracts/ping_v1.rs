//! Contract `ping.v1`: A client asks whether a server answers, as often as it likes, and
//! leaves.
//!
//! Made by `./pen contract rust contracts/ping.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "ping.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0x0c, 0x18, 0xd6, 0x0b, 0xdc, 0x91, 0x7d, 0xe6,
    0x24, 0xfe, 0xbd, 0xf1, 0x6b, 0xd8, 0xcd, 0x84,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 3, 3, 0, 0, 0, 0, 83, 0, 0, 0,
    76, 77, 151, 212, 80, 15, 123, 149, 52, 15, 192, 108, 198, 15, 168, 100,
    0, 1, 1, 0, 2, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 2, 255, 0, 255,
    255, 255, 255,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// Asks for an answer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ping {
        /// Which ping this is.
        pub sequence: u64,
    }

    impl Ping {
        /// The number of the message.
        pub const TAG: u16 = 0;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 8;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.sequence.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                sequence: u64::from_le_bytes(channel::read(bytes, 0)?),
            })
        }
    }

    /// Answers the last ping.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Pong {
        /// That of the ping.
        pub sequence: u64,
        /// The server's clock in ns.
        pub time: u64,
    }

    impl Pong {
        /// The number of the message.
        pub const TAG: u16 = 1;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 16;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.sequence.to_le_bytes());
            channel::put(&mut bytes, 8, &self.time.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                sequence: u64::from_le_bytes(channel::read(bytes, 0)?),
                time: u64::from_le_bytes(channel::read(bytes, 8)?),
            })
        }
    }

    /// Ends the conversation.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Bye {}

    impl Bye {
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
    pub fn start<T: channel::Transport>(transport: T) -> Idle<T> {
        Idle(transport)
    }

    /// State `idle`: the client may ask.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// Asks for an answer.
        pub fn send_ping(
            mut self,
            message: &message::Ping,
        ) -> Result<Asked<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Ping::TAG, &bytes, block, endpoints)?;
            Ok(Asked(self.0))
        }

        /// Sends as `send_ping` does and waits for the answer, in one call.
        pub fn call_ping(
            mut self,
            message: &message::Ping,
        ) -> Result<received::Asked<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Ping::TAG, [0; 16]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Asked(self.0).read(&answer, incoming)
        }

        /// Ends the conversation.
        pub fn send_bye(
            mut self,
            message: &message::Bye,
        ) -> Result<Over<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Bye::TAG, &bytes, block, endpoints)?;
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

    /// State `asked`: the server must answer.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Asked<T: channel::Transport>(T);

    impl<T: channel::Transport> Asked<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Asked<T>, channel::Error> {
            let mut bytes = [0; 16];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Asked<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Pong::TAG => Ok(received::Asked::Pong {
                    message: message::Pong::decode(bytes).ok_or(wrong)?,
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

        /// What can be received in state `asked`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Asked<T: channel::Transport> {
            /// Answers the last ping.
            Pong {
                /// The message.
                message: message::Pong,
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

    /// State `idle`: the client may ask.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Idle<T>, channel::Error> {
            let mut bytes = [0; 8];
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
                message::Ping::TAG => Ok(received::Idle::Ping {
                    message: message::Ping::decode(bytes).ok_or(wrong)?,
                    next: Asked(self.0),
                }),
                message::Bye::TAG => Ok(received::Idle::Bye {
                    message: message::Bye::decode(bytes).ok_or(wrong)?,
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

    /// State `asked`: the server must answer.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Asked<T: channel::Transport>(T);

    impl<T: channel::Transport> Asked<T> {
        /// Answers the last ping.
        pub fn send_pong(
            mut self,
            message: &message::Pong,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Pong::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_pong` does and waits for the answer, in one call.
        pub fn call_pong(
            mut self,
            message: &message::Pong,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Pong::TAG, [0; 8]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Idle(self.0).read(&answer, incoming)
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

        /// What can be received in state `idle`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Idle<T: channel::Transport> {
            /// Asks for an answer.
            Ping {
                /// The message.
                message: message::Ping,
                /// The conversation, which continues.
                next: super::Asked<T>,
            },
            /// Ends the conversation.
            Bye {
                /// The message.
                message: message::Bye,
                /// The conversation, which continues.
                next: super::Over<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
