//! The gateway's control socket: one JSON object per line, one answer per line.
//!
//! `{"op":"add","forward":"8080:80"}`, `{"op":"remove","forward":"8080:80"}`, `{"op":"list"}`. An
//! answer has `"ok"`: true, with all published ports in `"forwards"`, or false, with a sentence in
//! `"error"`.

use crate::forward::Forward;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Maximum bytes of a line.
pub const MAX_LINE: usize = 4096;
/// A gateway that does not answer in this time hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Publish a port.
    Add {
        /// The port.
        forward: Forward,
    },
    /// Publish it no more. Connections continue.
    Remove {
        /// The port.
        forward: Forward,
    },
    /// Return all published ports.
    List {},
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the request was carried out.
    pub ok: bool,
    /// If not, the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// All published ports.
    #[serde(default)]
    pub forwards: Vec<Forward>,
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No gateway serves the socket.
    #[error("the gateway does not run: {0}")]
    Absent(std::io::Error),
    /// It does not answer, or not in this protocol.
    #[error("the gateway does not answer: {0}")]
    Silent(std::io::Error),
    /// It has refused, with the reason.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to the gateway at `socket`. Returns all published ports.
pub fn ask(socket: &Path, request: &Request) -> Result<Vec<Forward>, AskError> {
    let stream = UnixStream::connect(socket).map_err(AskError::Absent)?;
    let answer = exchange(&stream, request).map_err(AskError::Silent)?;
    match answer.error {
        None if answer.ok => Ok(answer.forwards),
        why => Err(AskError::Refused(why.unwrap_or_default())),
    }
}

fn exchange(mut stream: &UnixStream, request: &Request) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    match BufReader::new(stream).read_line(&mut answer)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(serde_json::from_str(&answer)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_documented() {
        let forward = "8080:80".parse().unwrap();
        for (text, request) in [
            (r#"{"op":"add","forward":"127.0.0.1:8080:80"}"#, Request::Add { forward }),
            (r#"{"op":"remove","forward":"127.0.0.1:8080:80"}"#, Request::Remove { forward }),
            (r#"{"op":"list"}"#, Request::List {}),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
        for bad in [r#"{"op":"add","forward":"80"}"#, r#"{"op":"list","more":1}"#, "{}"] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }
}
