//! The network of a board: what its device is attached to, and which ports of the chip this host
//! publishes.

use crate::instance::Instance;
use crate::run_files::{GATEWAY, LINK};
use gateway::control::{self, AskError};
use soc::config::{self, Config, Link};
use soc::virtio::net::peer::answers;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

pub use gateway::control::Request;
pub use gateway::forward::Forward;
pub use soc::virtio::net::peer::answers::{Answer, Outcome};

/// Its log, in the run folder.
const LOG: &str = "gateway.log";
/// File of the published ports.
const PUBLISHED: &str = "gateway.ports";
/// Answers to a scripted peer, in the run folder.
const ANSWERS: &str = "peer.jsonl";
/// What a script's path follows.
const SCRIPT: &str = "script:";
/// Time limit for a gateway to serve requests.
const START: Duration = Duration::from_secs(10);

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
    /// In the lab: a peer in the soc that does what this file says.
    Script(PathBuf),
}

/// Parses `none`, `user`, `script:FILE`, or the path of a socket.
pub fn parse(text: &str) -> Result<Network, String> {
    let existing = |path, what| match std::path::absolute(path) {
        Ok(path) if path.exists() => Ok(path),
        Ok(path) => {
            let path = path.display();
            Err(format!("there is no {what} {path}; or say none, user, or {SCRIPT}FILE"))
        }
        Err(why) => Err(why.to_string()),
    };
    match (text, text.strip_prefix(SCRIPT)) {
        ("none", _) => Ok(Network::None),
        ("user", _) => Ok(Network::User),
        (_, Some(script)) => existing(script, "script").map(Network::Script),
        (path, None) => existing(path, "socket").map(Network::Socket),
    }
}

impl Network {
    /// Returns the soc's side of it.
    pub fn link(&self) -> Option<Link> {
        match self {
            Network::None => None,
            Network::User => Some(Link::Listen(LINK.into())),
            Network::Socket(path) => Some(Link::Connect(path.clone())),
            Network::Script(script) => {
                Some(Link::Script { script: script.clone(), answers: ANSWERS.into() })
            }
        }
    }
}

/// Returns the settings of a network device.
pub fn device(net: &board::Net, network: &Network, pcap: Option<&Path>) -> config::Net {
    fn place<A: Copy>(from: &board::Network<A>) -> config::Network<A> {
        let board::Network { address, prefix, gateway, names } = *from;
        config::Network { address, prefix, gateway, names }
    }
    config::Net {
        link: network.link(),
        pcap: pcap.map(Path::to_path_buf),
        mac: net.mac,
        v4: place(&net.v4),
        v6: place(&net.v6),
    }
}

/// Returns the gateway process for a network device. `program` is its path.
pub fn gateway(net: &board::Net, program: &Path) -> config::Gateway {
    let board::Net { v4, v6, .. } = net;
    let words = [
        ("link", LINK.to_string()),
        ("control", GATEWAY.to_string()),
        ("published", PUBLISHED.to_string()),
        ("address", format!("{}/{}", v4.address, v4.prefix)),
        ("gateway", v4.gateway.to_string()),
        ("names", v4.names.to_string()),
        ("address6", format!("{}/{}", v6.address, v6.prefix)),
        ("gateway6", v6.gateway.to_string()),
        ("names6", v6.names.to_string()),
    ];
    let words = words.into_iter().flat_map(|(key, value)| [format!("--{key}"), value]);
    let command = std::iter::once(program.display().to_string()).chain(words).collect();
    config::Gateway { command, log: LOG.into() }
}

/// Why a port could not be published, or published no more.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The board has no network device.
    #[error("\"{0}\" has no device of kind net, so it has no network")]
    NoDevice(String),
    /// The device is attached to something else, or to nothing.
    #[error("\"{0}\" is not attached to this host's network: start it with `--net user`")]
    Elsewhere(String),
    /// The gateway is not there.
    #[error("the gateway of \"{name}\" does not run; {} says why", log.display())]
    Absent {
        /// The board.
        name: String,
        /// The gateway's log.
        log: PathBuf,
    },
    /// The gateway has refused, or does not answer.
    #[error("{0}")]
    Refused(AskError),
}

impl Instance {
    /// Returns what the running board's network device is attached to; `None` without a device.
    pub fn network(&self) -> Option<Network> {
        let config = Config::read(&self.folder).ok()?;
        let net = config.devices.into_iter().find_map(|device| device.net)?;
        Some(match net.link {
            None => Network::None,
            Some(Link::Listen(_)) => Network::User,
            Some(Link::Connect(path)) => Network::Socket(path),
            Some(Link::Script { script, .. }) => Network::Script(script),
        })
    }

    /// Returns what the clients of the board's scripted peer have seen so far.
    pub fn answers(&self) -> std::io::Result<Vec<Answer>> {
        answers::read(&self.path(ANSWERS))
    }

    /// Returns the published ports; none if no gateway answers.
    pub fn published(&self) -> Vec<Forward> {
        control::ask(&self.path(GATEWAY), &Request::List {}).unwrap_or_default()
    }

    /// Asks the board's gateway, which may be starting. Returns the published ports.
    pub fn ask_gateway(&self, request: &Request) -> Result<Vec<Forward>, NetworkError> {
        match self.network() {
            None => return Err(NetworkError::NoDevice(self.name.clone())),
            Some(Network::User) => {}
            Some(_) => return Err(NetworkError::Elsewhere(self.name.clone())),
        }
        let start = Instant::now();
        loop {
            match control::ask(&self.path(GATEWAY), request) {
                Ok(published) => return Ok(published),
                Err(AskError::Absent(_)) if start.elapsed() < START => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(AskError::Absent(_)) => {
                    let (name, log) = (self.name.clone(), self.path(LOG));
                    return Err(NetworkError::Absent { name, log });
                }
                Err(why) => return Err(NetworkError::Refused(why)),
            }
        }
    }

    /// Publishes ports, all or none of which are left if one fails.
    pub fn publish(&self, forwards: &[Forward]) -> Result<(), NetworkError> {
        for (done, &forward) in forwards.iter().enumerate() {
            if let Err(why) = self.ask_gateway(&Request::Add { forward }) {
                for &forward in &forwards[..done] {
                    // The first error is the one to report.
                    let _ = self.ask_gateway(&Request::Remove { forward });
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// Publishes a port no more.
    pub fn unpublish(&self, forward: Forward) -> Result<(), NetworkError> {
        self.ask_gateway(&Request::Remove { forward }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_read_as_they_are_written() {
        assert_eq!(parse("none"), Ok(Network::None));
        assert_eq!(parse("user"), Ok(Network::User));
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_path_buf();
        let script = format!("{SCRIPT}{}", path.display());
        assert_eq!(parse(&script), Ok(Network::Script(path.clone())));
        assert_eq!(parse(path.to_str().unwrap()), Ok(Network::Socket(path)));
        assert!(parse("usre").unwrap_err().contains("no socket"));
        assert!(parse("script:usre").unwrap_err().contains("no script"));
    }

    #[test]
    fn boards_without_the_hosts_network_publish_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::at(folder.path().to_path_buf());
        let forward = "8080:80".parse().unwrap();
        let refusal = |instance: &Instance| instance.publish(&[forward]).unwrap_err();
        assert!(matches!(refusal(&instance), NetworkError::NoDevice(_)));
        let example = include_str!("../../soc/example.toml");
        let alone = example.replace("link = { listen = \"net.sock\" }\n", "");
        std::fs::write(instance.path("soc.toml"), alone).unwrap();
        assert!(matches!(refusal(&instance), NetworkError::Elsewhere(_)));
        assert_eq!(instance.published(), []);
    }
}
