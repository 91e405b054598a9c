//! Contract `scan.v1`: A client gives data, and a server looks for viruses in each.
//!
//! Made by `./pen contract rust contracts/scan.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "scan.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0xf0, 0x38, 0xcd, 0xc6, 0x4a, 0x29, 0xef, 0xb6,
    0x2e, 0x6d, 0x3c, 0x9a, 0xff, 0xb4, 0xef, 0x3e,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 3, 0, 0, 0, 0, 78, 0, 0, 0,
    130, 74, 74, 230, 26, 193, 98, 80, 199, 198, 210, 63, 189, 238, 66, 158,
    0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 66, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 0, 0,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// Asks whether there is a virus in the block.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Scan {}

    impl Scan {
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

    /// No signature matches.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Clean {}

    impl Clean {
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

    /// A signature matches.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Infected {
        /// The name of the signature.
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
        /// Asks whether there is a virus in the block.
        /// `block` has at most 4194304 bytes.
        pub fn send_scan(
            mut self,
            message: &message::Scan,
            block: T::Block,
        ) -> Result<Scanning<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Scan::TAG, &bytes, block, endpoints)?;
            Ok(Scanning(self.0))
        }

        /// Sends as `send_scan` does and waits for the answer, in one call.
        pub fn call_scan(
            mut self,
            message: &message::Scan,
            block: T::Block,
        ) -> Result<received::Scanning<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Scan::TAG, [0; 66]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Scanning(self.0).read(&answer, incoming)
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

    /// State `scanning`: the server looks for signatures.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Scanning<T: channel::Transport>(T);

    impl<T: channel::Transport> Scanning<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Scanning<T>, channel::Error> {
            let mut bytes = [0; 66];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Scanning<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Clean::TAG => Ok(received::Scanning::Clean {
                    message: message::Clean::decode(bytes).ok_or(wrong)?,
                    next: Idle(self.0),
                }),
                message::Infected::TAG => Ok(received::Scanning::Infected {
                    message: message::Infected::decode(bytes).ok_or(wrong)?,
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

        /// What can be received in state `scanning`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Scanning<T: channel::Transport> {
            /// No signature matches.
            Clean {
                /// The message.
                message: message::Clean,
                /// The conversation, which continues.
                next: super::Idle<T>,
            },
            /// A signature matches.
            Infected {
                /// The message.
                message: message::Infected,
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
                message::Scan::TAG => Ok(received::Idle::Scan {
                    message: message::Scan::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Scanning(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `scanning`: the server looks for signatures.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Scanning<T: channel::Transport>(T);

    impl<T: channel::Transport> Scanning<T> {
        /// No signature matches.
        pub fn send_clean(
            mut self,
            message: &message::Clean,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Clean::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_clean` does and waits for the answer, in one call.
        pub fn call_clean(
            mut self,
            message: &message::Clean,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Clean::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Idle(self.0).read(&answer, incoming)
        }

        /// A signature matches.
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
            /// Asks whether there is a virus in the block.
            Scan {
                /// The message.
                message: message::Scan,
                /// Its block, of at most 4194304 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Scanning<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
