//! Contract `echo.v1`: A client sends 64 bytes and gets them back: what a round trip takes.
//!
//! Made by `./pen contract rust tests/contracts/echo.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "echo.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0x0c, 0x08, 0x1d, 0x4a, 0xec, 0x5b, 0x38, 0xe8,
    0x41, 0x51, 0x0f, 0x4e, 0xeb, 0x64, 0x00, 0x7a,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 2, 0, 0, 0, 0, 64, 0, 0, 0,
    177, 154, 180, 199, 149, 60, 189, 244, 141, 44, 89, 65, 67, 201, 238, 140,
    0, 1, 1, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 0,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// To be sent back.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ask {
        /// Anything.
        pub data: [u8; 64],
    }

    impl Ask {
        /// The number of the message.
        pub const TAG: u16 = 0;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 64;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.data);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                data: channel::read(bytes, 0)?,
            })
        }
    }

    /// What was sent.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Answer {
        /// The same.
        pub data: [u8; 64],
    }

    impl Answer {
        /// The number of the message.
        pub const TAG: u16 = 1;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 64;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.data);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                data: channel::read(bytes, 0)?,
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

    /// State `idle`: the client may ask.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// To be sent back.
        pub fn send_ask(
            mut self,
            message: &message::Ask,
        ) -> Result<Asked<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Ask::TAG, &bytes, block, endpoints)?;
            Ok(Asked(self.0))
        }

        /// Sends as `send_ask` does and waits for the answer, in one call.
        pub fn call_ask(
            mut self,
            message: &message::Ask,
        ) -> Result<received::Asked<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Ask::TAG, [0; 64]);
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
            let mut bytes = [0; 64];
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
                message::Answer::TAG => Ok(received::Asked::Answer {
                    message: message::Answer::decode(bytes).ok_or(wrong)?,
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
            /// What was sent.
            Answer {
                /// The message.
                message: message::Answer,
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
            let mut bytes = [0; 64];
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
                message::Ask::TAG => Ok(received::Idle::Ask {
                    message: message::Ask::decode(bytes).ok_or(wrong)?,
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
        /// What was sent.
        pub fn send_answer(
            mut self,
            message: &message::Answer,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Answer::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_answer` does and waits for the answer, in one call.
        pub fn call_answer(
            mut self,
            message: &message::Answer,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Answer::TAG, [0; 64]);
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
            Ask {
                /// The message.
                message: message::Ask,
                /// The conversation, which continues.
                next: super::Asked<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
