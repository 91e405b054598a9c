//! Contract `give.v1`: A client gives channels of its own away, for another program to serve.
//!
//! Made by `./pen contract rust tests/contracts/give.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "give.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0x14, 0x4e, 0xda, 0x57, 0xc6, 0x94, 0xca, 0x71,
    0x10, 0x7e, 0x72, 0xaa, 0xd7, 0xb3, 0xe1, 0x03,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 2, 0, 1, 1, 0, 84, 0, 0, 0,
    193, 144, 207, 164, 18, 53, 18, 141, 184, 156, 98, 4, 140, 228, 0, 81,
    0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 12, 8, 29, 74,
    236, 91, 56, 232, 65, 81, 15, 78, 235, 100, 0, 122, 1, 0, 0, 0,
    1, 255, 255, 0,
];

/// The messages.
pub mod message {

    /// A channel to serve.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Give {}

    impl Give {
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

    /// It is served from now on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Taken {}

    impl Taken {
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
}

/// The client's side of a channel: each state is a type.
pub mod client {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Idle<T> {
        Idle(transport)
    }

    /// State `idle`: the client may give.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// A channel to serve.
        /// `served` is the server's end of a new channel, by `echo.v1`.
        pub fn send_give(
            mut self,
            message: &message::Give,
            served: T::Endpoint,
        ) -> Result<Given<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [Some(served), None]);
            self.0.send(message::Give::TAG, &bytes, block, endpoints)?;
            Ok(Given(self.0))
        }

        /// Sends as `send_give` does and waits for the answer, in one call.
        pub fn call_give(
            mut self,
            message: &message::Give,
            served: T::Endpoint,
        ) -> Result<received::Given<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [Some(served), None]);
            let (tag, mut answer) = (message::Give::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Given(self.0).read(&answer, incoming)
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

    /// State `given`: the server takes the channel.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Given<T: channel::Transport>(T);

    impl<T: channel::Transport> Given<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Given<T>, channel::Error> {
            let mut bytes = [0; 0];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Given<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Taken::TAG => Ok(received::Given::Taken {
                    message: message::Taken::decode(bytes).ok_or(wrong)?,
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

        /// What can be received in state `given`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Given<T: channel::Transport> {
            /// It is served from now on.
            Taken {
                /// The message.
                message: message::Taken,
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

    /// State `idle`: the client may give.
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
            let mut endpoints = arrival.endpoints.into_iter();
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Give::TAG => Ok(received::Idle::Give {
                    message: message::Give::decode(bytes).ok_or(wrong)?,
                    served: channel::take(&mut endpoints).ok_or(wrong)?,
                    next: Given(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `given`: the server takes the channel.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Given<T: channel::Transport>(T);

    impl<T: channel::Transport> Given<T> {
        /// It is served from now on.
        pub fn send_taken(
            mut self,
            message: &message::Taken,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Taken::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_taken` does and waits for the answer, in one call.
        pub fn call_taken(
            mut self,
            message: &message::Taken,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Taken::TAG, [0; 0]);
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
            /// A channel to serve.
            Give {
                /// The message.
                message: message::Give,
                /// The server's end of a new channel, by `echo.v1`.
                served: T::Endpoint,
                /// The conversation, which continues.
                next: super::Given<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
