//! Contract `solver.v1`: A client gives formulas, and a server looks for values that satisfy
//! each.
//!
//! Made by `./pen contract rust contracts/solver.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "solver.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0xeb, 0xe4, 0xc8, 0x03, 0xcc, 0x22, 0xdd, 0x32,
    0xc0, 0xed, 0x5a, 0xda, 0x8e, 0x7f, 0x3c, 0xa1,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 2, 4, 0, 0, 0, 0, 92, 0, 0, 0,
    62, 52, 199, 27, 107, 13, 63, 56, 78, 35, 213, 26, 197, 105, 65, 167,
    0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 1, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 104, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 1, 255, 255, 255, 255, 0, 0, 0,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// A formula in conjunctive normal form, as a DIMACS file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Solve {}

    impl Solve {
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

    /// The block is a list of literals that satisfies the formula, as text: `1 -2 3`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Satisfiable {}

    impl Satisfiable {
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

    /// No values satisfy the formula.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Unsatisfiable {}

    impl Unsatisfiable {
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

    /// The block is no formula, or one that is too large.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Invalid {
        /// Of the block, from 1; 0: the block as a whole.
        pub line: u32,
        /// In words.
        pub why: channel::Bytes<95>,
    }

    impl Invalid {
        /// The number of the message.
        pub const TAG: u16 = 3;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 104;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.line.to_le_bytes());
            self.why.put(&mut bytes, 4);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                line: u32::from_le_bytes(channel::read(bytes, 0)?),
                why: channel::Bytes::read(bytes, 4)?,
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

    /// State `idle`: the client may give a formula.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Idle<T: channel::Transport>(T);

    impl<T: channel::Transport> Idle<T> {
        /// A formula in conjunctive normal form, as a DIMACS file.
        /// `block` has at most 4194304 bytes.
        pub fn send_solve(
            mut self,
            message: &message::Solve,
            block: T::Block,
        ) -> Result<Solving<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Solve::TAG, &bytes, block, endpoints)?;
            Ok(Solving(self.0))
        }

        /// Sends as `send_solve` does and waits for the answer, in one call.
        pub fn call_solve(
            mut self,
            message: &message::Solve,
            block: T::Block,
        ) -> Result<received::Solving<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Solve::TAG, [0; 104]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Solving(self.0).read(&answer, incoming)
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

    /// State `solving`: the server looks for values.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Solving<T: channel::Transport>(T);

    impl<T: channel::Transport> Solving<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Solving<T>, channel::Error> {
            let mut bytes = [0; 104];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Solving<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Satisfiable::TAG => Ok(received::Solving::Satisfiable {
                    message: message::Satisfiable::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Idle(self.0),
                }),
                message::Unsatisfiable::TAG => Ok(received::Solving::Unsatisfiable {
                    message: message::Unsatisfiable::decode(bytes).ok_or(wrong)?,
                    next: Idle(self.0),
                }),
                message::Invalid::TAG => Ok(received::Solving::Invalid {
                    message: message::Invalid::decode(bytes).ok_or(wrong)?,
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

        /// What can be received in state `solving`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Solving<T: channel::Transport> {
            /// The block is a list of literals that satisfies the formula, as text: `1 -2 3`.
            Satisfiable {
                /// The message.
                message: message::Satisfiable,
                /// Its block, of at most 1048576 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Idle<T>,
            },
            /// No values satisfy the formula.
            Unsatisfiable {
                /// The message.
                message: message::Unsatisfiable,
                /// The conversation, which continues.
                next: super::Idle<T>,
            },
            /// The block is no formula, or one that is too large.
            Invalid {
                /// The message.
                message: message::Invalid,
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

    /// State `idle`: the client may give a formula.
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
                message::Solve::TAG => Ok(received::Idle::Solve {
                    message: message::Solve::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Solving(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `solving`: the server looks for values.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Solving<T: channel::Transport>(T);

    impl<T: channel::Transport> Solving<T> {
        /// The block is a list of literals that satisfies the formula, as text: `1 -2 3`.
        /// `block` has at most 1048576 bytes.
        pub fn send_satisfiable(
            mut self,
            message: &message::Satisfiable,
            block: T::Block,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Satisfiable::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_satisfiable` does and waits for the answer, in one call.
        pub fn call_satisfiable(
            mut self,
            message: &message::Satisfiable,
            block: T::Block,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Satisfiable::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Idle(self.0).read(&answer, incoming)
        }

        /// No values satisfy the formula.
        pub fn send_unsatisfiable(
            mut self,
            message: &message::Unsatisfiable,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Unsatisfiable::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_unsatisfiable` does and waits for the answer, in one call.
        pub fn call_unsatisfiable(
            mut self,
            message: &message::Unsatisfiable,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Unsatisfiable::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Idle(self.0).read(&answer, incoming)
        }

        /// The block is no formula, or one that is too large.
        pub fn send_invalid(
            mut self,
            message: &message::Invalid,
        ) -> Result<Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Invalid::TAG, &bytes, block, endpoints)?;
            Ok(Idle(self.0))
        }

        /// Sends as `send_invalid` does and waits for the answer, in one call.
        pub fn call_invalid(
            mut self,
            message: &message::Invalid,
        ) -> Result<received::Idle<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Invalid::TAG, [0; 0]);
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
            /// A formula in conjunctive normal form, as a DIMACS file.
            Solve {
                /// The message.
                message: message::Solve,
                /// Its block, of at most 4194304 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Solving<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
