//! Contract `png.v1`: A client hands over PNG files, and gets each as a picture of raw pixels,
//! in strips.
//!
//! Made by `./pen contract rust contracts/png.v1.toml`; do not edit.

/// The contract's name.
pub const NAME: &str = "png.v1";
/// The contract's hash: both sides of a channel must have the same.
pub const HASH: [u8; 16] = [
    0x9a, 0x23, 0x9c, 0xe2, 0xfb, 0x94, 0xf1, 0xb2,
    0xe0, 0xf7, 0xf4, 0xef, 0x3f, 0xcf, 0xa9, 0x64,
];

/// The contract as the system takes it.
pub static CONTRACT: &[u8] = &[
    80, 110, 67, 116, 1, 0, 4, 7, 0, 0, 0, 0, 152, 0, 0, 0,
    127, 194, 190, 91, 181, 199, 86, 53, 114, 248, 179, 211, 167, 157, 191, 36,
    0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 8, 0, 0, 0, 64, 0,
    0, 0, 0, 0, 1, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 68, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0,
    0, 0, 4, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 4, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255,
    255, 255, 255, 255, 2, 0, 255, 255, 255, 255, 255, 255, 0, 3, 0, 255,
    255, 255, 255, 255, 255, 255, 2, 0,
];

/// The messages.
pub mod message {
    use penumbra::channel;

    /// A whole PNG file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct File {
        /// Refuse a picture with more.
        pub most_pixels: u32,
        /// Of the pixels: 0 grey, 1 RGB, 2 RGBA.
        pub format: u8,
    }

    impl File {
        /// The number of the message.
        pub const TAG: u16 = 0;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 8;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.most_pixels.to_le_bytes());
            channel::put(&mut bytes, 4, &self.format.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                most_pixels: u32::from_le_bytes(channel::read(bytes, 0)?),
                format: u8::from_le_bytes(channel::read(bytes, 4)?),
            })
        }
    }

    /// The file is a picture; its first strip follows without being asked for.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Picture {
        /// In pixels.
        pub width: u32,
        /// In pixels.
        pub height: u32,
        /// Rows of each strip but the last.
        pub strip_rows: u32,
    }

    impl Picture {
        /// The number of the message.
        pub const TAG: u16 = 1;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 12;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.width.to_le_bytes());
            channel::put(&mut bytes, 4, &self.height.to_le_bytes());
            channel::put(&mut bytes, 8, &self.strip_rows.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                width: u32::from_le_bytes(channel::read(bytes, 0)?),
                height: u32::from_le_bytes(channel::read(bytes, 4)?),
                strip_rows: u32::from_le_bytes(channel::read(bytes, 8)?),
            })
        }
    }

    /// The file is no picture, too large a one, or wrong after its beginning.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Refused {
        /// Where the file is wrong.
        pub offset: u32,
        /// Why, in words.
        pub reason: channel::Bytes<60>,
    }

    impl Refused {
        /// The number of the message.
        pub const TAG: u16 = 2;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 68;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.offset.to_le_bytes());
            self.reason.put(&mut bytes, 4);
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                offset: u32::from_le_bytes(channel::read(bytes, 0)?),
                reason: channel::Bytes::read(bytes, 4)?,
            })
        }
    }

    /// The pixels of some rows. More rows follow.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Strip {
        /// Row of its first pixel.
        pub first_row: u32,
    }

    impl Strip {
        /// The number of the message.
        pub const TAG: u16 = 3;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 4;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.first_row.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                first_row: u32::from_le_bytes(channel::read(bytes, 0)?),
            })
        }
    }

    /// The pixels of the last rows.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LastStrip {
        /// Row of its first pixel.
        pub first_row: u32,
    }

    impl LastStrip {
        /// The number of the message.
        pub const TAG: u16 = 4;
        /// Length of its fields in bytes.
        pub const BYTES: usize = 4;

        /// Returns the fields as bytes.
        pub fn encode(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            channel::put(&mut bytes, 0, &self.first_row.to_le_bytes());
            bytes
        }

        /// Returns the message in `bytes`; `None` if they have another length, or a
        /// field has an invalid one.
        pub fn decode(bytes: &[u8]) -> Option<Self> {
            if bytes.len() != Self::BYTES {
                return None;
            }
            Some(Self {
                first_row: u32::from_le_bytes(channel::read(bytes, 0)?),
            })
        }
    }

    /// Asks for the next strip.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct More {}

    impl More {
        /// The number of the message.
        pub const TAG: u16 = 5;
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

    /// Gives up the rest of the picture.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Stop {}

    impl Stop {
        /// The number of the message.
        pub const TAG: u16 = 6;
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
    pub fn start<T: channel::Transport>(transport: T) -> Ready<T> {
        Ready(transport)
    }

    /// State `ready`: the client may hand over a file.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Ready<T: channel::Transport>(T);

    impl<T: channel::Transport> Ready<T> {
        /// A whole PNG file.
        /// `block` has at most 4194304 bytes.
        pub fn send_file(
            mut self,
            message: &message::File,
            block: T::Block,
        ) -> Result<Decoding<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::File::TAG, &bytes, block, endpoints)?;
            Ok(Decoding(self.0))
        }

        /// Sends as `send_file` does and waits for the answer, in one call.
        pub fn call_file(
            mut self,
            message: &message::File,
            block: T::Block,
        ) -> Result<received::Decoding<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::File::TAG, [0; 68]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Decoding(self.0).read(&answer, incoming)
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

    /// State `decoding`: the server reads the file.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Decoding<T: channel::Transport>(T);

    impl<T: channel::Transport> Decoding<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Decoding<T>, channel::Error> {
            let mut bytes = [0; 68];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Decoding<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Picture::TAG => Ok(received::Decoding::Picture {
                    message: message::Picture::decode(bytes).ok_or(wrong)?,
                    next: Drawing(self.0),
                }),
                message::Refused::TAG => Ok(received::Decoding::Refused {
                    message: message::Refused::decode(bytes).ok_or(wrong)?,
                    next: Ready(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `drawing`: the server decodes the next strip.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Drawing<T: channel::Transport>(T);

    impl<T: channel::Transport> Drawing<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Drawing<T>, channel::Error> {
            let mut bytes = [0; 68];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Drawing<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Err(channel::Error::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::Refused::TAG => Ok(received::Drawing::Refused {
                    message: message::Refused::decode(bytes).ok_or(wrong)?,
                    next: Ready(self.0),
                }),
                message::Strip::TAG => Ok(received::Drawing::Strip {
                    message: message::Strip::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Looking(self.0),
                }),
                message::LastStrip::TAG => Ok(received::Drawing::LastStrip {
                    message: message::LastStrip::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Ready(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `looking`: the client has a strip.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Looking<T: channel::Transport>(T);

    impl<T: channel::Transport> Looking<T> {
        /// Asks for the next strip.
        pub fn send_more(
            mut self,
            message: &message::More,
        ) -> Result<Drawing<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::More::TAG, &bytes, block, endpoints)?;
            Ok(Drawing(self.0))
        }

        /// Sends as `send_more` does and waits for the answer, in one call.
        pub fn call_more(
            mut self,
            message: &message::More,
        ) -> Result<received::Drawing<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::More::TAG, [0; 68]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Drawing(self.0).read(&answer, incoming)
        }

        /// Gives up the rest of the picture.
        pub fn send_stop(
            mut self,
            message: &message::Stop,
        ) -> Result<Ready<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Stop::TAG, &bytes, block, endpoints)?;
            Ok(Ready(self.0))
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

    /// What can be received, for each state in which something can.
    pub mod received {
        use super::super::message;
        use penumbra::channel;

        /// What can be received in state `decoding`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Decoding<T: channel::Transport> {
            /// The file is a picture; its first strip follows without being asked for.
            Picture {
                /// The message.
                message: message::Picture,
                /// The conversation, which continues.
                next: super::Drawing<T>,
            },
            /// The file is no picture, too large a one, or wrong after its beginning.
            Refused {
                /// The message.
                message: message::Refused,
                /// The conversation, which continues.
                next: super::Ready<T>,
            },
        }

        /// What can be received in state `drawing`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Drawing<T: channel::Transport> {
            /// The file is no picture, too large a one, or wrong after its beginning.
            Refused {
                /// The message.
                message: message::Refused,
                /// The conversation, which continues.
                next: super::Ready<T>,
            },
            /// The pixels of some rows. More rows follow.
            Strip {
                /// The message.
                message: message::Strip,
                /// Its block, of at most 262144 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Looking<T>,
            },
            /// The pixels of the last rows.
            LastStrip {
                /// The message.
                message: message::LastStrip,
                /// Its block, of at most 262144 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Ready<T>,
            },
        }
    }
}

/// The server's side of a channel: each state is a type.
pub mod server {
    use super::message;
    use penumbra::channel;

    /// Begins a conversation over a new channel.
    pub fn start<T: channel::Transport>(transport: T) -> Ready<T> {
        Ready(transport)
    }

    /// State `ready`: the client may hand over a file.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Ready<T: channel::Transport>(T);

    impl<T: channel::Transport> Ready<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Ready<T>, channel::Error> {
            let mut bytes = [0; 8];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Ready<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Ok(received::Ready::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::File::TAG => Ok(received::Ready::File {
                    message: message::File::decode(bytes).ok_or(wrong)?,
                    block: arrival.block.ok_or(wrong)?,
                    next: Decoding(self.0),
                }),
                tag => Err(channel::Error::Unexpected(tag)),
            }
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `decoding`: the server reads the file.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Decoding<T: channel::Transport>(T);

    impl<T: channel::Transport> Decoding<T> {
        /// The file is a picture; its first strip follows without being asked for.
        pub fn send_picture(
            mut self,
            message: &message::Picture,
        ) -> Result<Drawing<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Picture::TAG, &bytes, block, endpoints)?;
            Ok(Drawing(self.0))
        }

        /// The file is no picture, too large a one, or wrong after its beginning.
        pub fn send_refused(
            mut self,
            message: &message::Refused,
        ) -> Result<Ready<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Refused::TAG, &bytes, block, endpoints)?;
            Ok(Ready(self.0))
        }

        /// Sends as `send_refused` does and waits for the answer, in one call.
        pub fn call_refused(
            mut self,
            message: &message::Refused,
        ) -> Result<received::Ready<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Refused::TAG, [0; 8]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Ready(self.0).read(&answer, incoming)
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `drawing`: the server decodes the next strip.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Drawing<T: channel::Transport>(T);

    impl<T: channel::Transport> Drawing<T> {
        /// The file is no picture, too large a one, or wrong after its beginning.
        pub fn send_refused(
            mut self,
            message: &message::Refused,
        ) -> Result<Ready<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            self.0.send(message::Refused::TAG, &bytes, block, endpoints)?;
            Ok(Ready(self.0))
        }

        /// Sends as `send_refused` does and waits for the answer, in one call.
        pub fn call_refused(
            mut self,
            message: &message::Refused,
        ) -> Result<received::Ready<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (None, [None, None]);
            let (tag, mut answer) = (message::Refused::TAG, [0; 8]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Ready(self.0).read(&answer, incoming)
        }

        /// The pixels of some rows. More rows follow.
        /// `block` has at most 262144 bytes.
        pub fn send_strip(
            mut self,
            message: &message::Strip,
            block: T::Block,
        ) -> Result<Looking<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::Strip::TAG, &bytes, block, endpoints)?;
            Ok(Looking(self.0))
        }

        /// Sends as `send_strip` does and waits for the answer, in one call.
        pub fn call_strip(
            mut self,
            message: &message::Strip,
            block: T::Block,
        ) -> Result<received::Looking<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::Strip::TAG, [0; 0]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Looking(self.0).read(&answer, incoming)
        }

        /// The pixels of the last rows.
        /// `block` has at most 262144 bytes.
        pub fn send_last_strip(
            mut self,
            message: &message::LastStrip,
            block: T::Block,
        ) -> Result<Ready<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            self.0.send(message::LastStrip::TAG, &bytes, block, endpoints)?;
            Ok(Ready(self.0))
        }

        /// Sends as `send_last_strip` does and waits for the answer, in one call.
        pub fn call_last_strip(
            mut self,
            message: &message::LastStrip,
            block: T::Block,
        ) -> Result<received::Ready<T>, channel::Error> {
            let bytes = message.encode();
            let (block, endpoints) = (Some(block), [None, None]);
            let (tag, mut answer) = (message::LastStrip::TAG, [0; 8]);
            let incoming = self.0.call(tag, &bytes, block, endpoints, &mut answer)?;
            Ready(self.0).read(&answer, incoming)
        }

        /// Returns the end, to wait for a message, or for the end of the other side.
        pub const fn transport(&self) -> &T {
            &self.0
        }
    }

    /// State `looking`: the client has a strip.
    #[derive(Debug)]
    #[must_use = "a conversation that is dropped is broken off"]
    pub struct Looking<T: channel::Transport>(T);

    impl<T: channel::Transport> Looking<T> {
        /// Waits for the next message.
        pub fn receive(mut self) -> Result<received::Looking<T>, channel::Error> {
            let mut bytes = [0; 0];
            let incoming = self.0.receive(&mut bytes)?;
            self.read(&bytes, incoming)
        }

        fn read(
            self,
            bytes: &[u8],
            incoming: channel::Incoming<T>,
        ) -> Result<received::Looking<T>, channel::Error> {
            let Some(arrival) = incoming else {
                return Ok(received::Looking::Closed);
            };
            let wrong = channel::Error::Malformed(arrival.tag);
            let bytes = bytes.get(..arrival.length).ok_or(wrong)?;
            match arrival.tag {
                message::More::TAG => Ok(received::Looking::More {
                    message: message::More::decode(bytes).ok_or(wrong)?,
                    next: Drawing(self.0),
                }),
                message::Stop::TAG => Ok(received::Looking::Stop {
                    message: message::Stop::decode(bytes).ok_or(wrong)?,
                    next: Ready(self.0),
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

        /// What can be received in state `ready`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Ready<T: channel::Transport> {
            /// A whole PNG file.
            File {
                /// The message.
                message: message::File,
                /// Its block, of at most 4194304 bytes.
                block: T::Block,
                /// The conversation, which continues.
                next: super::Decoding<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }

        /// What can be received in state `looking`.
        #[derive(Debug)]
        #[must_use = "a conversation that is dropped is broken off"]
        pub enum Looking<T: channel::Transport> {
            /// Asks for the next strip.
            More {
                /// The message.
                message: message::More,
                /// The conversation, which continues.
                next: super::Drawing<T>,
            },
            /// Gives up the rest of the picture.
            Stop {
                /// The message.
                message: message::Stop,
                /// The conversation, which continues.
                next: super::Ready<T>,
            },
            /// The other side has closed the channel.
            Closed,
        }
    }
}
