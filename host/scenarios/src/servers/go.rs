//! The file server of Go's `net/http`, with curl as its client.

use super::curl::{Client, LARGE, SHARED, connections};
use super::{Serving, TERMINATED, begin, needs};
use crate::disk::{done, off_and_clean};
use crate::host::{pattern, push};
use crate::programs::wrong;
use crate::threads::put;
use crate::{Failure, Rig};

/// A program of apps/corpus.toml, which starts with a listener.
const PROGRAM: &str = "files-go";
const PORT: u16 = 80;
/// Bytes of the disk: the images for both kernels have 45 MB.
const DISK: u64 = 64 << 20;
const INDEX: &[u8] = b"<!doctype html><title>Go</title><p>A page of the disk.\n";

/// On each kernel in turn: files of all sizes, parts of them, lists and errors, over connections
/// that stay open, and many at the same time.
pub fn files_of_go(rig: &mut Rig) -> Result<(), Failure> {
    needs(&["curl"])?;
    begin(rig, Some(DISK))?;
    for folder in ["site", "site/list"] {
        done(rig, &format!("fs mkdir {folder}"))?;
    }
    for (path, bytes) in [
        ("/secret.txt", b"outside of the site".to_vec()),
        ("/site/index.html", INDEX.to_vec()),
        ("/site/list/a.html", INDEX.to_vec()),
        ("/site/large.bin", pattern(1, LARGE.1)),
        ("/site/shared.bin", pattern(2, SHARED.1)),
    ] {
        push(&rig.instance, &bytes[..], path).map_err(|why| wrong(path, why))?;
    }
    put(rig, PROGRAM)?;
    for kernel in ["main", "shadow"] {
        let serving = Serving::start(rig, kernel, PROGRAM, &["/site"], PORT)?;
        let client = Client::new(rig, serving.host_port)?;
        files(&client)?;
        refusals(&client)?;
        connections(&client)?;
        let found = serving.end(rig)?;
        if found.code != TERMINATED || !found.out.is_empty() || !found.err.is_empty() {
            return Err(wrong(&format!("{PROGRAM} on {kernel}"), found));
        }
    }
    off_and_clean(rig)
}

/// Whole files, a part, what has not changed, only the head, an index, and a list.
fn files(client: &Client) -> Result<(), Failure> {
    let large = pattern(1, LARGE.1);
    client.gets("/", &[], "200", INDEX)?;
    client.gets("/list/a.html", &[], "200", INDEX)?;
    client.gets("/large.bin", &[], "200", &large)?;
    client.gets("/large.bin", &["--range", "70000-270000"], "206", &large[70_000..=270_000])?;
    let head = client.run(&["--head", &client.url("/large.bin")])?;
    let is_right = head.starts_with("HTTP/1.1 200 OK")
        && head.contains(&format!("Content-Length: {}\r", LARGE.1))
        && head.contains("Accept-Ranges: bytes\r");
    if !is_right {
        return Err(wrong("HEAD", head));
    }
    let changed = head.lines().find_map(|line| line.strip_prefix("Last-Modified: "));
    let changed = changed.ok_or_else(|| wrong("HEAD without a time", &head))?;
    let since = format!("If-Modified-Since: {changed}");
    client.gets("/large.bin", &["--header", &since], "304", b"")?;
    let (status, list) = client.get("/list/", &[])?;
    let list = String::from_utf8_lossy(&list);
    match status == "200" && list.contains("<a href=\"a.html\">a.html</a>") {
        true => Ok(()),
        false => Err(wrong("a list", list)),
    }
}

/// What is not there, or above the site.
fn refusals(client: &Client) -> Result<(), Failure> {
    let missing = b"404 page not found\n";
    client.gets("/missing", &[], "404", missing)?;
    for above in ["/..", "/%2e%2e", "/list/../..", "/..%2f", "/.%2e/site/.."] {
        let (status, body) = client.get(&format!("{above}/secret.txt"), &["--location"])?;
        if status == "200" || body.windows(7).any(|part| part == b"outside") {
            return Err(wrong(above, (status, String::from_utf8_lossy(&body))));
        }
    }
    Ok(())
}
