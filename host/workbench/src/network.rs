//! What the network device of a board is attached to.

use crate::run_files::LINK;
use soc::config::Link;
use std::path::PathBuf;

/// What the network device is attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing: frames are dropped.
    #[default]
    None,
    /// The host's network.
    User,
    /// A network at a unix socket, such as passt's.
    Socket(PathBuf),
}

impl Network {
    /// Returns the soc's side of it.
    pub fn link(&self) -> Option<Link> {
        match self {
            Network::None => None,
            Network::User => Some(Link::Listen(LINK.into())),
            Network::Socket(path) => Some(Link::Connect(path.clone())),
        }
    }
}
