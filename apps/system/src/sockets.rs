//! `ss`: sockets, as Linux's tool of this name shows them, from `/proc/sockets`.
//!
//! A socket belongs to a process tree. Which of its processes use it is not known, so the column
//! for processes has the first one of the tree. What has no handle is not listed: connections that
//! wait to be accepted, and closed ones that have not ended yet.

use crate::options::Options;
use crate::{Answer, power, put};
use penumbra::process::{self, Process};

const SOCKETS: &str = "/proc/sockets";
pub const USAGE: &str = "ss [-tulanpH46]
  -t TCP; -u UDP; both unless one is chosen; -4 IPv4; -6 IPv6
  -l only sockets that listen, or receive from anywhere; -a those and all others
  -p the process tree's first process, with its kernel; -n numbers (always so); -H no header";

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Choice {
    tcp: bool,
    udp: bool,
    v4: bool,
    v6: bool,
    listening: bool,
    all: bool,
    processes: bool,
    bare: bool,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Socket<'a> {
    is_tcp: bool,
    state: &'static str,
    local: &'a str,
    peer: &'a str,
    receive: u64,
    send: u64,
    tree: u32,
}

/// `ss`: lists sockets.
pub fn ss(arguments: &[String]) -> Answer {
    let choice = Choice::of(arguments)?;
    let text = std::fs::read_to_string(SOCKETS).map_err(|error| format!("{SOCKETS}: {error}"))?;
    let sockets = parse(&text)?;
    let owners = if choice.processes { Owners::now()? } else { Owners::default() };
    put(&table(&sockets, choice, &owners))
}

impl Choice {
    fn of(arguments: &[String]) -> Result<Choice, String> {
        let options = Options::of(arguments, "", true)?;
        if let Some(word) = options.rest.first() {
            return Err(format!("{word}: there are no filters; ss --help lists the options"));
        }
        let mut choice = Choice::default();
        for (letter, _) in options.all {
            match letter {
                't' => choice.tcp = true,
                'u' => choice.udp = true,
                '4' => choice.v4 = true,
                '6' => choice.v6 = true,
                'l' => choice.listening = true,
                'a' => choice.all = true,
                'p' => choice.processes = true,
                'H' => choice.bare = true,
                'n' => {}
                other => return Err(format!("-{other}: no such option; ss --help lists them")),
            }
        }
        Ok(choice)
    }

    fn shows(&self, socket: &Socket<'_>) -> bool {
        let kind = if socket.is_tcp { self.tcp } else { self.udp };
        let is_v6 = socket.local.starts_with('[');
        let family = if is_v6 { self.v6 } else { self.v4 };
        let waits = matches!(socket.state, "LISTEN" | "UNCONN");
        let state = self.all || waits == self.listening;
        let fresh = socket.is_tcp && socket.state == "UNCONN";
        (kind || self.tcp == self.udp)
            && (family || self.v4 == self.v6)
            && state
            && (self.all || !fresh)
    }
}

/// Parses the file: a title, then lines of `KIND [STATE] LOCAL PEER RECEIVE SEND TREE`.
fn parse(text: &str) -> Result<Vec<Socket<'_>>, String> {
    // A line that begins with "! " says why there are no more.
    if let Some(why) = text.lines().find_map(|line| line.strip_prefix("! ")) {
        return Err(format!("{SOCKETS}: {why}"));
    }
    let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines
        .map(|line| parse_line(line).ok_or_else(|| format!("{SOCKETS} has a line {line:?}")))
        .collect()
}

fn parse_line(line: &str) -> Option<Socket<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, state, rest) = match words[..] {
        [kind, state, ref rest @ ..] if rest.len() == 5 => (kind, state, rest),
        [kind, ref rest @ ..] if rest.len() == 5 => (kind, "", rest),
        _ => return None,
    };
    let &[local, peer, receive, send, tree] = rest else { return None };
    let is_tcp = kind == "tcp";
    let state = match state {
        "" if peer.ends_with(":0") => "UNCONN",
        "" => "ESTAB",
        "fresh" => "UNCONN",
        "listening" => "LISTEN",
        "connecting" => "SYN-SENT",
        "connected" => "ESTAB",
        "shut" => "FIN-WAIT",
        "ending" => "CLOSE-WAIT",
        "ended" => "CLOSED",
        "reset" => "RESET",
        _ => return None,
    };
    let [receive, send] = [receive.parse().ok()?, send.parse().ok()?];
    Some(Socket { is_tcp, state, local, peer, receive, send, tree: tree.parse().ok()? })
}

/// The processes and kernels, for the last column.
#[derive(Debug, Default)]
struct Owners {
    processes: Vec<Process>,
    kernels: Vec<String>,
}

impl Owners {
    fn now() -> Result<Owners, String> {
        let processes = process::list().map_err(|error| error.to_string())?;
        let kernels = power::kernels()?.into_iter().map(|kernel| kernel.name).collect();
        Ok(Owners { processes, kernels })
    }

    /// Returns the first process of a tree, with its kernel.
    fn of(&self, tree: u32) -> String {
        if tree == 0 {
            return "system".to_string();
        }
        let Some(first) = self.processes.iter().find(|process| process.pid == tree) else {
            return format!("tree={tree}");
        };
        let number = usize::from(first.kernel);
        let kernel = self.kernels.get(number).cloned().unwrap_or_else(|| number.to_string());
        format!("users:((\"{}\",pid={tree},kernel={kernel}))", first.name)
    }
}

/// Shows `*` for any address, and for any port.
fn endpoint(text: &str) -> String {
    let (address, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let port = if port == "0" { "*" } else { port };
    format!("{address}:{port}")
}

fn table(sockets: &[Socket<'_>], choice: Choice, owners: &Owners) -> String {
    let title = ["Netid", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port"];
    let process = if choice.processes { "Process" } else { "" };
    let title = title.map(str::to_string);
    let mut rows = Vec::from([(title, process.to_string())]);
    if choice.bare {
        rows.clear();
    }
    for socket in sockets.iter().filter(|socket| choice.shows(socket)) {
        let kind = if socket.is_tcp { "tcp" } else { "udp" };
        let owner = if choice.processes { owners.of(socket.tree) } else { String::new() };
        let row = [
            kind.to_string(),
            socket.state.to_string(),
            socket.receive.to_string(),
            socket.send.to_string(),
            endpoint(socket.local),
            endpoint(socket.peer),
        ];
        rows.push((row, owner));
    }
    let width = |at: usize| rows.iter().map(|(row, _)| row[at].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let line = |(row, owner): &([String; 6], String)| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$} "));
        format!("{}{owner}", cells.collect::<String>()).trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use penumbra::process::State;

    const TEXT: &str = "        state       local                  peer                    receive\
    \x20   send  tree
  tcp   listening   0.0.0.0:80             0.0.0.0:0                     3       0  7
  tcp   connected   10.0.2.15:80           10.0.2.2:40000                0      12  7
  tcp   fresh       0.0.0.0:0              0.0.0.0:0                     0       0  0
  udp               0.0.0.0:53             0.0.0.0:0                     9       0  8
  udp               127.0.0.1:49152        127.0.0.1:53                  0       0  8
";

    fn shown(words: &str) -> String {
        let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
        let choice = Choice::of(&words).unwrap();
        let first = Process {
            pid: 7,
            parent: 1,
            group: 7,
            kernel: 1,
            state: State::Running,
            began: 5,
            cpu: 0,
            memory: 0,
            messages: 0,
            name: "httpd".to_string(),
        };
        let kernels = ["main", "shadow"].map(str::to_string).to_vec();
        let owners = Owners { processes: vec![first], kernels };
        table(&parse(TEXT).unwrap(), choice, &owners)
    }

    #[test]
    fn the_usual_list_has_connections_only() {
        assert_eq!(
            shown(""),
            "Netid State Recv-Q Send-Q Local Address:Port Peer Address:Port\n\
             tcp   ESTAB 0      12     10.0.2.15:80       10.0.2.2:40000\n\
             udp   ESTAB 0      0      127.0.0.1:49152    127.0.0.1:53\n"
        );
    }

    #[test]
    fn options_choose_what_is_shown() {
        assert_eq!(shown("-Hltn"), "tcp LISTEN 3 0 0.0.0.0:80 0.0.0.0:*\n");
        assert_eq!(shown("-H -u -l"), "udp UNCONN 9 0 0.0.0.0:53 0.0.0.0:*\n");
        let count = |words: &str| shown(words).lines().count();
        assert_eq!([count("-Ha"), count("-Hat"), count("-Hau"), count("-Hatu")], [5, 3, 2, 5]);
        assert_eq!([count("-H4"), count("-H6"), count("-H46")], [2, 0, 2]);
    }

    #[test]
    fn the_first_process_of_a_tree_is_named() {
        assert_eq!(
            shown("-Hlp"),
            "tcp LISTEN 3 0 0.0.0.0:80 0.0.0.0:* users:((\"httpd\",pid=7,kernel=shadow))\n\
             udp UNCONN 9 0 0.0.0.0:53 0.0.0.0:* tree=8\n"
        );
        assert!(shown("-Hap").contains("UNCONN 0 0  0.0.0.0:*       0.0.0.0:*      system\n"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for word in ["-x", "dst"] {
            assert!(Choice::of(&[word.to_string()]).unwrap_err().contains("--help"));
        }
        assert!(parse("title\n  tcp what 1:1 1:1 0 0 0\n").unwrap_err().contains("a line"));
        assert_eq!(parse("! it failed\n").unwrap_err(), "/proc/sockets: it failed");
    }
}
