//! wrk on the host, as many clients of a server that ask without a pause.

use super::lighttpd::{LIGHTTPD, PORT, with_site};
use super::{Serving, needs};
use crate::disk::off_and_clean;
use crate::programs::wrong;
use crate::{Failure, Rig};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};

/// Connections of one wrk, which stay open.
pub const CONNECTIONS: u64 = 10;
/// How long it asks, in s.
const SECONDS: u64 = 5;
/// What it fetches.
const PAGE: &str = "/index.html";

/// What wrk reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Answers.
    pub requests: u64,
    /// Connections that could not be made or were lost, and answers that did not come.
    pub errors: u64,
    /// Answers that are errors.
    pub refused: u64,
}

/// A wrk that asks. Ends with this value.
pub struct Load(Option<Child>);

impl Load {
    /// Starts wrk for a server at this port of the host, for at most so many seconds.
    pub fn start(port: u16, seconds: u64) -> Result<Load, Failure> {
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "1", "--connections", &CONNECTIONS.to_string()]);
        wrk.args(["--timeout", "60s", "--duration", &format!("{seconds}s")]);
        wrk.arg(format!("http://127.0.0.1:{port}{PAGE}"));
        wrk.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Load(Some(wrk.spawn()?)))
    }

    /// Lets it stop now. Returns what it reports.
    pub fn stop(self) -> Result<Report, Failure> {
        if let Some(wrk) = &self.0 {
            kill_process(Pid::from_child(wrk), Signal::INT).map_err(std::io::Error::from)?;
        }
        self.report()
    }

    /// Waits for its end. Returns what it reports.
    pub fn report(mut self) -> Result<Report, Failure> {
        let wrk = self.0.take().ok_or_else(|| wrong("wrk", "not started"))?;
        let output = wrk.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let found = parsed(&said).filter(|_| output.status.success());
        found.ok_or_else(|| wrong("wrk", (&said, String::from_utf8_lossy(&output.stderr))))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(mut wrk) = self.0.take() {
            let _ = wrk.kill();
            let _ = wrk.wait();
        }
    }
}

/// Reads wrk's report, in which lines about errors are there only if there are some.
fn parsed(text: &str) -> Option<Report> {
    let mut found = Report::default();
    let mut has_count = false;
    for line in text.lines().map(str::trim) {
        if let Some((count, _)) = line.split_once(" requests in ") {
            found.requests = count.parse().ok()?;
            has_count = true;
        } else if let Some(counts) = line.strip_prefix("Socket errors:") {
            let numbers = counts.split([' ', ',']).filter_map(|word| word.parse::<u64>().ok());
            found.errors = numbers.sum();
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            found.refused = count.trim().parse().ok()?;
        }
    }
    has_count.then_some(found)
}

/// lighttpd on each kernel in turn, for some seconds, without an error.
pub fn loaded(rig: &mut Rig) -> Result<(), Failure> {
    needs(&["wrk"])?;
    with_site(rig)?;
    for kernel in ["main", "shadow"] {
        let serving = Serving::start(rig, kernel, LIGHTTPD, &["-D", "-f", "/lighttpd.conf"], PORT)?;
        let found = Load::start(serving.host_port, SECONDS)?.report()?;
        if found.errors + found.refused > 0 || found.requests < CONNECTIONS {
            return Err(wrong(&format!("wrk and lighttpd on {kernel}"), found));
        }
        println!("lighttpd on {kernel}: {} requests in {SECONDS} s", found.requests);
        serving.end(rig)?;
    }
    off_and_clean(rig)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Running 2s test @ http://127.0.0.1:1/index.html\n  1 threads and 10 \
                        connections\n  6500 requests in 2.00s, 2.10MB read\n";

    #[test]
    fn a_report_without_errors() {
        assert_eq!(parsed(GOOD), Some(Report { requests: 6500, errors: 0, refused: 0 }));
        assert_eq!(parsed("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
    }

    #[test]
    fn errors_of_all_kinds_count() {
        let lines = "  Socket errors: connect 1, read 20, write 3, timeout 4\n  \
                     Non-2xx or 3xx responses: 5\n";
        let found = parsed(&format!("{GOOD}{lines}"));
        assert_eq!(found, Some(Report { requests: 6500, errors: 28, refused: 5 }));
    }
}
