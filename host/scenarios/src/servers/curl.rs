//! curl on the host, as a client of servers.

use crate::host::pattern;
use crate::outside::LOCAL;
use crate::programs::wrong;
use crate::{Failure, PATIENCE, Rig};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// A file that is sent in many pieces, and one that many clients fetch at the same time.
pub const LARGE: (&str, usize) = ("large.bin", 1_000_000);
pub const SHARED: (&str, usize) = ("shared.bin", 200_000);
/// Connections at the same time.
pub const CLIENTS: usize = 20;

/// curl, with a folder of the run for what it fetches.
pub struct Client {
    base: String,
    /// Where it puts what it fetches.
    pub folder: PathBuf,
}

impl Client {
    /// A client of the server at this port of the host.
    pub fn new(rig: &Rig, port: u16) -> Result<Client, Failure> {
        Client::at(rig, SocketAddr::new(LOCAL, port))
    }

    /// A client of the server at this address. For one of IPv6, requests need `--globoff`.
    pub fn at(rig: &Rig, server: SocketAddr) -> Result<Client, Failure> {
        let folder = rig.instance.path("fetched");
        std::fs::create_dir_all(&folder)?;
        Ok(Client { base: format!("http://{server}"), folder })
    }

    /// Returns the address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Runs curl. Returns its output.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut curl = Command::new("curl");
        curl.current_dir(&self.folder).args(["--disable", "--silent", "--show-error"]);
        curl.args(["--noproxy", "*", "--max-time", &PATIENCE.as_secs().to_string()]);
        let output = curl.args(arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(wrong(&format!("curl {arguments:?}"), output)),
        }
    }

    /// Fetches a path, which curl leaves as it is. Returns the status and the body.
    pub fn get(&self, path: &str, options: &[&str]) -> Result<(String, Vec<u8>), Failure> {
        let url = self.url(path);
        let own = ["--path-as-is", "--output", "body", "--write-out", "%{http_code}", &url];
        // What an answer without a body leaves alone.
        std::fs::write(self.folder.join("body"), "")?;
        let status = self.run(&[options, &own].concat())?;
        Ok((status, std::fs::read(self.folder.join("body"))?))
    }

    /// Fetches a path, with an answer that is known.
    pub fn gets(
        &self,
        path: &str,
        options: &[&str],
        status: &str,
        wanted: &[u8],
    ) -> Result<(), Failure> {
        let found = self.get(path, options)?;
        match found.0 == status && found.1 == wanted {
            true => Ok(()),
            false => Err(wrong(&format!("GET {path} {options:?}"), (found.0, found.1.len()))),
        }
    }

    /// Fetches a path that must be refused: the body is an error's.
    pub fn refused(&self, path: &str, status: &str) -> Result<(), Failure> {
        let found = self.get(path, &[])?;
        let body = String::from_utf8_lossy(&found.1);
        match found.0 == status && body.contains(&format!("<title>{status} ")) {
            true => Ok(()),
            false => Err(wrong(&format!("GET {path}"), (found.0, body))),
        }
    }
}

/// Several requests on one connection, then many connections at the same time.
pub fn connections(client: &Client) -> Result<(), Failure> {
    let urls = ["/index.html", "/large.bin", "/missing", "/index.html"].map(|at| client.url(at));
    let mut words = vec!["--write-out", "%{num_connects} "];
    for url in &urls {
        words.extend(["--output", "body", url]);
    }
    let made = client.run(&words)?;
    if made != "1 0 0 0 " {
        return Err(wrong("connections for requests that follow each other", made));
    }
    let url = format!("{}?[1-{CLIENTS}]", client.url("/shared.bin"));
    let most = CLIENTS.to_string();
    let made = client.run(&[
        "--parallel",
        "--parallel-immediate",
        "--parallel-max",
        &most,
        "--no-progress-meter",
        "--write-out",
        "%{num_connects} %{http_code}\n",
        "--output",
        "shared-#1",
        &url,
    ])?;
    if made != "1 200\n".repeat(CLIENTS) {
        return Err(wrong("connections at the same time", made));
    }
    let wanted = pattern(2, SHARED.1);
    for number in 1..=CLIENTS {
        let path = client.folder.join(format!("shared-{number}"));
        if std::fs::read(&path)? != wanted {
            return Err(wrong("one of many clients has other bytes", path));
        }
    }
    Ok(())
}
