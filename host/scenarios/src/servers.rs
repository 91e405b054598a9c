//! Servers that others wrote, on each kernel, with curl on the host as their client.

use super::disk::{begin_as_root, done, off_and_clean};
use super::host::{pattern, pull, push};
use super::machine::until;
use super::outside::{LOCAL6, has, publish, publish_at, unpublish};
use super::programs::{Running, pid_of, wrong};
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use deploy::exec::Line;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tree::place::Place;

/// A program of apps/corpus.toml.
const LIGHTTPD: &str = "lighttpd";
/// Its port on the chip.
const PORT: u16 = 80;
/// Its configuration, and the site that it serves, on the host.
const FOLDER: &str = "tests/corpus/lighttpd";
/// Directories that the configuration names, or that requests ask for.
const FOLDERS: &[&str] = &["site", "site/list", "site/private", "tmp"];
/// A file that is sent in many pieces, and one that many clients fetch at the same time.
const LARGE: (&str, usize) = ("large.bin", 1_000_000);
const SHARED: (&str, usize) = ("shared.bin", 200_000);
/// Connections at the same time.
const CLIENTS: usize = 20;
/// Where the server notes requests.
const LOG: &str = "/access.log";
const TERMINATED: u8 = 128 + 15;

/// curl, with a folder of the run for what it fetches.
struct Client {
    base: String,
    folder: PathBuf,
}

impl Client {
    fn new(rig: &Rig, host: SocketAddr) -> Result<Client, Failure> {
        let folder = rig.instance.path("fetched");
        std::fs::create_dir_all(&folder)?;
        Ok(Client { base: format!("http://{host}"), folder })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Runs curl. Returns its output.
    fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut curl = Command::new("curl");
        curl.current_dir(&self.folder).args(["--disable", "--globoff", "--silent", "--show-error"]);
        curl.args(["--noproxy", "*", "--max-time", &PATIENCE.as_secs().to_string()]);
        let output = curl.args(arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(wrong(&format!("curl {arguments:?}"), output)),
        }
    }

    /// Fetches a path, which curl leaves as it is. Returns the status and the body.
    fn get(&self, path: &str, options: &[&str]) -> Result<(String, Vec<u8>), Failure> {
        let url = self.url(path);
        let own = ["--path-as-is", "--output", "body", "--write-out", "%{http_code}", &url];
        // What an answer without a body leaves alone.
        std::fs::write(self.folder.join("body"), "")?;
        let status = self.run(&[options, &own].concat())?;
        Ok((status, std::fs::read(self.folder.join("body"))?))
    }

    /// Fetches a path, with an answer that is known.
    fn gets(
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
    fn refused(&self, path: &str, status: &str) -> Result<(), Failure> {
        let found = self.get(path, &[])?;
        let body = String::from_utf8_lossy(&found.1);
        match found.0 == status && body.contains(&format!("<title>{status} ")) {
            true => Ok(()),
            false => Err(wrong(&format!("GET {path}"), (found.0, body))),
        }
    }
}

fn site_file(name: &str) -> Result<Vec<u8>, Failure> {
    Ok(std::fs::read(Place::find()?.root.join(FOLDER).join(name))?)
}

/// lighttpd on each kernel in turn: files of all sizes, parts of them, and errors, over connections
/// that stay open, many at the same time, and HTTP/2.
pub fn lighttpd(rig: &mut Rig) -> Result<(), Failure> {
    if Command::new("curl").arg("--version").output().is_err() {
        return Err(Failure::LeftOut("curl is not installed; `./pen setup` does it"));
    }
    begin_as_root(rig, 4096, None)?;
    for folder in FOLDERS {
        done(rig, &format!("fs mkdir {folder}"))?;
    }
    let index = site_file("site/index.html")?;
    for (path, bytes) in [
        ("/lighttpd.conf", site_file("lighttpd.conf")?),
        ("/site/index.html", index.clone()),
        ("/site/list/a.html", index.clone()),
        ("/site/notes.txt~", b"a denied backup".to_vec()),
        ("/site/large.bin", pattern(1, LARGE.1)),
        ("/site/shared.bin", pattern(2, SHARED.1)),
    ] {
        push(&rig.instance, &bytes[..], path).map_err(|why| wrong(path, why))?;
    }
    put(rig, LIGHTTPD)?;
    until(rig, "network", "link      up")?;
    for kernel in ["main", "shadow"] {
        serve(rig, kernel, &index)?;
    }
    off_and_clean(rig)
}

/// Starts the server on this kernel, drives it, and ends it.
fn serve(rig: &mut Rig, kernel: &str, index: &[u8]) -> Result<(), Failure> {
    let line = Line::on(kernel, LIGHTTPD, &["-D", "-f", "/lighttpd.conf"]);
    let serving = Running::of(&rig.instance, line, b"");
    until(rig, "sockets", "0.0.0.0:80 ")?;
    let host = publish(rig, PORT)?;
    let client = Client::new(rig, host)?;
    files(&client, index)?;
    refusals(&client)?;
    connections(&client)?;
    logged(rig, &format!("{host} "))?;
    unpublish(rig, host, PORT)?;
    if has(LOCAL6) {
        // Its listeners are two, one for each family.
        let host = publish_at(rig, LOCAL6, PORT)?;
        Client::new(rig, host)?.gets("/", &[], "200", index)?;
        unpublish(rig, host, PORT)?;
    }
    let pid = pid_of(rig, kernel, LIGHTTPD)?;
    rig.ask("main", &format!("kill {pid} TERM"), PATIENCE)?;
    let found = serving.end()?;
    let said = String::from_utf8_lossy(&found.err);
    match found.code == TERMINATED && said.contains("server started") && said.lines().count() == 1 {
        true => Ok(()),
        false => Err(wrong(&format!("lighttpd on {kernel}"), (found.code, said))),
    }
}

/// Whole files, a part, what has not changed, only the head, an index, and a list.
fn files(client: &Client, index: &[u8]) -> Result<(), Failure> {
    let large = pattern(1, LARGE.1);
    client.gets("/index.html", &[], "200", index)?;
    client.gets("/", &[], "200", index)?;
    client.gets("/other/a.html", &[], "200", index)?;
    client.gets("/large.bin", &[], "200", &large)?;
    client.gets("/large.bin", &["--range", "70000-270000"], "206", &large[70_000..=270_000])?;
    client.gets("/large.bin", &["--http2-prior-knowledge"], "200", &large)?;
    let head = client.run(&["--head", &client.url("/large.bin")])?;
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_string()).ok_or_else(|| wrong(name, &head))
    };
    let is_right = head.starts_with("HTTP/1.1 200 OK")
        && field("Content-Length: ")? == LARGE.1.to_string()
        && field("X-System: ")? == "Penumbra";
    if !is_right {
        return Err(wrong("HEAD", head));
    }
    let tag = format!("If-None-Match: {}", field("ETag: ")?);
    client.gets("/large.bin", &["--header", &tag], "304", b"")?;
    let (status, list) = client.get("/list/", &[])?;
    let list = String::from_utf8_lossy(&list);
    match status == "200" && list.contains("Index of /list/") && list.contains("\"a.html\"") {
        true => Ok(()),
        false => Err(wrong("a list", list)),
    }
}

/// What is not there, not allowed, or above the site.
fn refusals(client: &Client) -> Result<(), Failure> {
    client.refused("/missing", "404")?;
    client.refused("/private/", "403")?;
    client.refused("/notes.txt~", "403")?;
    let above = ["/..", "/%2e%2e", "/list/../..", "/..%2f", "/.%2e/site/.."];
    above.iter().try_for_each(|path| client.refused(&format!("{path}/lighttpd.conf"), "404"))
}

/// Several requests on one connection, then many connections at the same time.
fn connections(client: &Client) -> Result<(), Failure> {
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

/// Waits until the server has noted the requests of all clients for the shared file at this host;
/// it writes every 4 s.
fn logged(rig: &Rig, host: &str) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let log = pull(&rig.instance, LOG).map_err(|why| wrong(LOG, why))?;
        let log = String::from_utf8_lossy(&log);
        let is_shared = |line: &&str| line.contains(host) && line.contains("\"GET /shared.bin?");
        match log.lines().filter(is_shared).count() {
            CLIENTS => return Ok(()),
            _ if start.elapsed() > PATIENCE => return Err(wrong(LOG, log)),
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}
