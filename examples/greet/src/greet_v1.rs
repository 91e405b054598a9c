//! Contract `greet.v1`: A client gives names, and a server greets each.
//!
//! Made by `./pen contract rust examples/greet.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "greet.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0x5f, 0xc8, 0x9c, 0x2c, 0xe8, 0xb9, 0x42, 0x09,
    0xf8, 0x64, 0x4a, 0xe9, 0xb3, 0x2b, 0xec, 0x33,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 2, 0, 0, 0, 0, 64, 0, 0, 0,
    158, 42, 126, 99, 167, 124, 23, 134, 113, 231, 185, 143, 107, 102, 223, 248,
    0, 1, 1, 0, 0, 0, 34, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 68, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 0,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// Someone to be greeted.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Name {
        /// In UTF-8.
        pub text: channel::Bytes<31>,
    }

    impl Name {
        /// The number of the message.
        pub const TAG: u16 = 0;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 34;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            self.text.put(&mut bytes, 0);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                text: channel::Bytes::read(bytes, 0)?,
            })
        }
    }

    /// What to say.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Greeting {
        /// On which the server runs.
        pub kernel: u32,
        /// In UTF-8.
        pub text: channel::Bytes<62>,
    }

    impl Greeting {
        /// The number of the message.
        pub const TAG: u16 = 1;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 68;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.kernel.to_le_bytes());
            self.text.put(&mut bytes, 4);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                kernel: u32::from_le_bytes(channel::read(bytes, 0)?),
                text: channel::Bytes::read(bytes, 4)?,
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

    /// State `idle`: the client may give a name.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// Someone to be greeted.
        pub fn send_name(
            mut self,
            message: &message::Name,
        ) -> Result<Asked<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Name::TAG, &bytes, block, endpoints)?;
            Ok(Asked(self.0))
        }

        /// Sends as `send_name` does and waits for the answer, in one call.
        pub fn call_name(
            mut self,
            message: &message::Name,
        ) -> Result<received::Asked<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Name::TAG, [0; 68]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Asked(self.0).read(&answer, incoming)
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
            let mut bytes = [0; 68];
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
                message::Greeting::TAG => Ok(received::Asked::Greeting {
                    message: message::Greeting::decode(bytes).ok_or(wrong)?,
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

        /// What can be received in state `asked`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Asked<T: channel::Transport> {
            /// What to say.
            Greeting {
                /// The message.
                message: message::Greeting,
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

    /// State `idle`: the client may give a name.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Idle<T>, channel::Error> {
            let mut bytes = [0; 34];
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
                message::Name::TAG => Ok(received::Idle::Name {
                    message: message::Name::decode(bytes).ok_or(wrong)?,
                    next: Asked(self.0),
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
        /// What to say.
        pub fn send_greeting(
            mut self,
            message: &message::Greeting,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Greeting::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_greeting` does and waits for the answer, in one call.
        pub fn call_greeting(
            mut self,
            message: &message::Greeting,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Greeting::TAG, [0; 34]);
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
            /// Someone to be greeted.
            Name {
                /// The message.
                message: message::Name,
                /// The conversation, which continues.
                next: super::Asked<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
