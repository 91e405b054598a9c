//! lighttpd, with curl as its client.

use super::curl::{CLIENTS, Client, LARGE, SHARED, connections};
use super::{Serving, TERMINATED, begin, needs};
use crate::disk::{done, off_and_clean};
use crate::host::{pattern, pull, push};
use crate::outside::{LOCAL6, has, publish_at, unpublish_at};
use crate::programs::wrong;
use crate::threads::put;
use crate::{Failure, PATIENCE, Rig};
use std::time::{Duration, Instant};
use tree::place::Place;

/// A program of apps/corpus.toml.
pub const LIGHTTPD: &str = "lighttpd";
/// Its port on the chip.
pub const PORT: u16 = 80;
/// Its configuration, and the site that it serves, on the host.
const FOLDER: &str = "tests/corpus/lighttpd";
/// Directories that the configuration names, or that requests ask for.
const FOLDERS: &[&str] = &["site", "site/list", "site/private", "tmp"];
/// Where the server notes requests.
const LOG: &str = "/access.log";

pub fn site_file(name: &str) -> Result<Vec<u8>, Failure> {
    Ok(std::fs::read(Place::find()?.root.join(FOLDER).join(name))?)
}

/// A board with lighttpd and its site on the disk.
pub fn with_site(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig, None)?;
    put_site(rig)
}

/// Installs lighttpd, with its site.
pub fn put_site(rig: &mut Rig) -> Result<(), Failure> {
    for folder in FOLDERS {
        done(rig, &format!("fs mkdir {folder}"))?;
    }
    let index = site_file("site/index.html")?;
    for (path, bytes) in [
        ("/lighttpd.conf", site_file("lighttpd.conf")?),
        ("/site/index.html", index.clone()),
        ("/site/list/a.html", index),
        ("/site/notes.txt~", b"a denied backup".to_vec()),
        ("/site/large.bin", pattern(1, LARGE.1)),
        ("/site/shared.bin", pattern(2, SHARED.1)),
    ] {
        push(&rig.instance, &bytes[..], path).map_err(|why| wrong(path, why))?;
    }
    put(rig, LIGHTTPD)
}

/// On each kernel in turn: files of all sizes, parts of them, and errors, over connections that
/// stay open, many at the same time, and HTTP/2.
pub fn lighttpd(rig: &mut Rig) -> Result<(), Failure> {
    needs(&["curl"])?;
    with_site(rig)?;
    let index = site_file("site/index.html")?;
    for kernel in ["main", "shadow"] {
        serve(rig, kernel, &index)?;
    }
    off_and_clean(rig)
}

/// Starts the server on this kernel, drives it, and ends it.
fn serve(rig: &mut Rig, kernel: &str, index: &[u8]) -> Result<(), Failure> {
    let serving = Serving::start(rig, kernel, LIGHTTPD, &["-D", "-f", "/lighttpd.conf"], PORT)?;
    let client = Client::new(rig, serving.host_port)?;
    files(&client, index)?;
    refusals(&client)?;
    connections(&client)?;
    by_ipv6(rig, index)?;
    logged(rig, &format!("127.0.0.1:{} ", serving.host_port))?;
    let found = serving.end(rig)?;
    let said = String::from_utf8_lossy(&found.err);
    match found.code == TERMINATED && said.contains("server started") && said.lines().count() == 1 {
        true => Ok(()),
        false => Err(wrong(&format!("lighttpd on {kernel}"), (found.code, said))),
    }
}

/// A file through a published port of IPv6, to a listener of IPv6, if the host has IPv6.
fn by_ipv6(rig: &Rig, index: &[u8]) -> Result<(), Failure> {
    if !has(LOCAL6) {
        return Ok(());
    }
    let host = publish_at(rig, LOCAL6, PORT)?;
    Client::at(rig, host)?.gets("/index.html", &["--globoff"], "200", index)?;
    unpublish_at(rig, host, PORT)
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
