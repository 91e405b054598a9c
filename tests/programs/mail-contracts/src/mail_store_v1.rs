//! Contract `mail_store.v1`: A client gives mails, and a server keeps each or says why not.
//!
//! Made by `./pen contract rust contracts/mail_store.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "mail_store.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0xad, 0x6f, 0x2f, 0x1b, 0x13, 0x01, 0x57, 0xa6,
    0x6e, 0x12, 0x12, 0xfe, 0x46, 0x34, 0x3e, 0x30,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 4, 0, 0, 0, 0, 92, 0, 0, 0,
    88, 117, 41, 141, 16, 10, 44, 57, 32, 31, 251, 149, 149, 148, 234, 75,
    0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 66, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 98, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 1, 255, 255, 255, 255, 0, 0, 0,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// A mail to be kept, with its envelope as first lines.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Mail {}

    impl Mail {
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

    /// The mail is on the disk, also after a loss of power.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Kept {}

    impl Kept {
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

    /// There is a virus in the mail. It is not kept.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Infected {
        /// The name of its signature.
        pub virus: channel::Bytes<63>,
    }

    impl Infected {
        /// The number of the message.
        pub const TAG: u16 = 2;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 66;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            self.virus.put(&mut bytes, 0);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                virus: channel::Bytes::read(bytes, 0)?,
            })
        }
    }

    /// The mail is not kept. It can be tried again later.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Failed {
        /// In words.
        pub why: channel::Bytes<95>,
    }

    impl Failed {
        /// The number of the message.
        pub const TAG: u16 = 3;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 98;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            self.why.put(&mut bytes, 0);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                why: channel::Bytes::read(bytes, 0)?,
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

    /// State `idle`: the client may give a mail.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// A mail to be kept, with its envelope as first lines.
        /// `block` has at most 4194304 bytes.
        pub fn send_mail(
            mut self,
            message: &message::Mail,
            block: T::Block,
        ) -> Result<Given<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Mail::TAG, &bytes, block, endpoints)?;
            Ok(Given(self.0))
        }

        /// Sends as `send_mail` does and waits for the answer, in one call.
        pub fn call_mail(
            mut self,
            message: &message::Mail,
            block: T::Block,
        ) -> Result<received::Given<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Mail::TAG, [0; 98]);
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

    /// State `given`: the server has the mail.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Given<T: channel::Transport>(T);

    impl<T: channel::Transport> Given<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Given<T>, channel::Error> {
            let mut bytes = [0; 98];
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
                message::Kept::TAG => Ok(received::Given::Kept {
                    message: message::Kept::decode(bytes).ok_or(wrong)?,
                    next: Idle(self.0),
                }),
                message::Infected::TAG => Ok(received::Given::Infected {
                    message: message::Infected::decode(bytes).ok_or(wrong)?,
                    next: Idle(self.0),
                }),
                message::Failed::TAG => Ok(received::Given::Failed {
                    message: message::Failed::decode(bytes).ok_or(wrong)?,
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
            /// The mail is on the disk, also after a loss of power.
            Kept {
                /// The message.
                message: message::Kept,
                /// The conversation, which continues.
                next: super::Idle<T>,
            },
            /// There is a virus in the mail. It is not kept.
            Infected {
                /// The message.
                message: message::Infected,
                /// The conversation, which continues.
                next: super::Idle<T>,
            },
            /// The mail is not kept. It can be tried again later.
            Failed {
                /// The message.
                message: message::Failed,
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

    /// State `idle`: the client may give a mail.
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
                message::Mail::TAG => Ok(received::Idle::Mail {
                    message: message::Mail::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
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

    /// State `given`: the server has the mail.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Given<T: channel::Transport>(T);

    impl<T: channel::Transport> Given<T> {
        /// The mail is on the disk, also after a loss of power.
        pub fn send_kept(
            mut self,
            message: &message::Kept,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Kept::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_kept` does and waits for the answer, in one call.
        pub fn call_kept(
            mut self,
            message: &message::Kept,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Kept::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Idle(self.0).read(&answer, incoming)
        }

        /// There is a virus in the mail. It is not kept.
        pub fn send_infected(
            mut self,
            message: &message::Infected,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Infected::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_infected` does and waits for the answer, in one call.
        pub fn call_infected(
            mut self,
            message: &message::Infected,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Infected::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Idle(self.0).read(&answer, incoming)
        }

        /// The mail is not kept. It can be tried again later.
        pub fn send_failed(
            mut self,
            message: &message::Failed,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Failed::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_failed` does and waits for the answer, in one call.
        pub fn call_failed(
            mut self,
            message: &message::Failed,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Failed::TAG, [0; 0]);
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
            /// A mail to be kept, with its envelope as first lines.
            Mail {
                /// The message.
                message: message::Mail,
                /// Its block, of at most 4194304 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Given<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
