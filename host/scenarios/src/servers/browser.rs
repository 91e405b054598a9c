//! lighttpd, with Chromium without a window as its client.

use super::lighttpd::{LIGHTTPD, PORT, with_site};
use super::{Serving, needs};
use crate::disk::off_and_clean;
use crate::host::push;
use crate::programs::wrong;
use crate::{Failure, PATIENCE, Rig};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Of Debian's package with that name.
const BROWSER: &str = "chromium-headless-shell";
/// A page that needs three more requests.
const FILES: &[(&str, &str)] = &[
    (
        "/site/page.html",
        "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Penumbra</title>\n\
         <link rel=\"stylesheet\" href=\"style.css\"></head>\n\
         <body><h1>A page of the chip</h1><p id=\"said\">no script ran</p>\n\
         <script src=\"script.js\"></script></body></html>\n",
    ),
    ("/site/style.css", "body { background: rgb(0, 128, 128); color: white }\n"),
    (
        "/site/script.js",
        "fetch('shared.bin').then(it => it.arrayBuffer()).then(bytes => {\n\
         \x20 const colour = getComputedStyle(document.body).backgroundColor;\n\
         \x20 const said = document.getElementById('said');\n\
         \x20 said.textContent = bytes.byteLength + ' bytes, ' + colour;\n\
         });\n",
    ),
];
/// What the script makes of the page: it has the whole file, and the style.
const SAID: &str = "<p id=\"said\">200000 bytes, rgb(0, 128, 128)</p>";
/// The size of the window, and what a PNG of it begins with.
const WINDOW: (u32, u32) = (640, 480);
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// From each kernel in turn: the page after its script, and a picture of it, which is kept beside
/// the folder of the test.
pub fn browser(rig: &mut Rig) -> Result<(), Failure> {
    if needs(&[BROWSER]).is_err() {
        return Err(Failure::LeftOut("there is no Chromium; `./pen setup browser` installs it"));
    }
    with_site(rig)?;
    for (path, text) in FILES {
        push(&rig.instance, text.as_bytes(), path).map_err(|why| wrong(path, why))?;
    }
    for kernel in ["main", "shadow"] {
        let serving = Serving::start(rig, kernel, LIGHTTPD, &["-D", "-f", "/lighttpd.conf"], PORT)?;
        let page = format!("http://127.0.0.1:{}/page.html", serving.host_port);
        let found = visit(rig, "--dump-dom", &page)?;
        if !found.contains(SAID) || !found.contains("<h1>A page of the chip</h1>") {
            return Err(wrong(&format!("the page from {kernel}"), found));
        }
        let picture = rig.instance.folder.with_added_extension(format!("{kernel}.png"));
        visit(rig, &format!("--screenshot={}", picture.display()), &page)?;
        is_picture(&picture)?;
        serving.end(rig)?;
    }
    off_and_clean(rig)
}

/// Opens a page. Returns what the browser prints.
fn visit(rig: &Rig, action: &str, page: &str) -> Result<String, Failure> {
    let profile = rig.instance.path("profile");
    let mut browser = Command::new(BROWSER);
    browser.arg(format!("--user-data-dir={}", profile.display()));
    browser.arg(format!("--window-size={},{}", WINDOW.0, WINDOW.1));
    // The page is ours, and not every machine allows a sandbox.
    browser.args(["--no-sandbox", "--disable-gpu", "--no-proxy-server"]);
    // Of the browser's own clock, which stands still while it waits for the network.
    browser.args(["--virtual-time-budget=10000", action, page]);
    browser.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = browser.output()?;
    match output.status.success() && start.elapsed() < PATIENCE {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(wrong(action, String::from_utf8_lossy(&output.stderr))),
    }
}

fn is_picture(path: &Path) -> Result<(), Failure> {
    let bytes = std::fs::read(path)?;
    let size = [WINDOW.0, WINDOW.1].map(u32::to_be_bytes).concat();
    match bytes.strip_prefix(PNG).is_some_and(|rest| rest.starts_with(&size)) {
        true => Ok(()),
        false => Err(wrong("a picture", path)),
    }
}
