//! The published ports. A file has them too, one a line, for the next gateway of the same board.

use crate::ffi::Slirp;
use gateway::control::{Answer, Request};
use gateway::forward::Forward;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Most ports that a board publishes.
const MOST: usize = 256;

/// The published ports.
pub struct Published {
    chip: (Ipv4Addr, Ipv6Addr),
    file: PathBuf,
    forwards: Vec<Forward>,
}

impl Published {
    /// `chip` has these addresses.
    pub fn new(chip: (Ipv4Addr, Ipv6Addr), file: &Path) -> Published {
        Published { chip, file: file.to_path_buf(), forwards: Vec::new() }
    }

    /// Publishes what the file has. What cannot be published any more is reported, and left out.
    pub fn restore(&mut self, slirp: &mut Slirp) {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        for line in text.lines() {
            let result = line.parse::<Forward>().map_err(|why| why.to_string());
            if let Err(why) = result.and_then(|forward| self.add(slirp, forward)) {
                eprintln!("gateway: {why}");
            }
        }
    }

    pub fn carry_out(&mut self, slirp: &mut Slirp, request: Result<Request, String>) -> Answer {
        let result = match request {
            Ok(Request::Add { forward }) => self.add(slirp, forward).and_then(|()| self.save()),
            Ok(Request::Remove { forward }) => {
                self.remove(slirp, forward).and_then(|()| self.save())
            }
            Ok(Request::List {}) => Ok(()),
            Err(why) => Err(why),
        };
        Answer { ok: result.is_ok(), error: result.err(), forwards: self.forwards.clone() }
    }

    fn add(&mut self, slirp: &mut Slirp, forward: Forward) -> Result<(), String> {
        if let Some(other) = self.forwards.iter().find(|other| forward.collides(other)) {
            return Err(format!("{forward}: this board publishes {other} already"));
        }
        if self.forwards.len() == MOST {
            return Err(format!("{forward}: {MOST} ports are published already"));
        }
        let (v4, v6) = self.chip;
        let chip = if forward.host.is_ipv4() { IpAddr::from(v4) } else { IpAddr::from(v6) };
        let chip = SocketAddr::new(chip, forward.port);
        let added = slirp.add(forward.is_udp(), forward.host, chip);
        added.map_err(|why| refused(forward, &why))?;
        self.forwards.push(forward);
        Ok(())
    }

    fn remove(&mut self, slirp: &mut Slirp, forward: Forward) -> Result<(), String> {
        let Some(at) = self.forwards.iter().position(|other| *other == forward) else {
            return Err(format!("{forward} is not published"));
        };
        slirp.remove(forward.is_udp(), forward.host);
        self.forwards.remove(at);
        Ok(())
    }

    fn save(&self) -> Result<(), String> {
        let lines: String = self.forwards.iter().map(|forward| format!("{forward}\n")).collect();
        let (new, failed) = (self.file.with_extension("new"), |why: std::io::Error| {
            format!("{}: {why}; the next gateway will not publish it", self.file.display())
        });
        std::fs::write(&new, lines).map_err(failed)?;
        std::fs::rename(&new, &self.file).map_err(failed)
    }
}

/// Explains why a port of the host cannot be had.
fn refused(forward: Forward, why: &std::io::Error) -> String {
    let port = forward.host.port();
    match why.kind() {
        ErrorKind::AddrInUse => {
            format!("{forward}: another program uses port {port} of this host; choose another port")
        }
        ErrorKind::PermissionDenied => {
            format!("{forward}: port {port} of this host needs root; choose one from 1024 on")
        }
        ErrorKind::AddrNotAvailable => {
            format!("{forward}: this host does not have the address {}", forward.host.ip())
        }
        _ => format!("{forward}: {why}"),
    }
}
