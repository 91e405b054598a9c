//! The solver as a service: `solver.v1` under a name.
//!
//! Contract: each formula gets one answer, one after the other: the server computes, and has
//! nothing to wait for. It does not notice that a client leaves before its answer.

use penumbra::Errno;
use penumbra::channel::{Bytes, Channel, Door, Error, connect};
use penumbra::ready::{self, Interest};
use sat::dimacs::{Formula, Invalid};
use sat::solve::solve;
use sat::solver_v1::{CONTRACT, client, message, server};

/// Clients at the same time. Further ones wait at the door.
const MOST: usize = 16;

type Client = server::Idle<Channel>;

/// Serves clients for ever.
pub fn serve(name: &str) -> Result<(), Error> {
    let mut door = Door::open(name, CONTRACT)?;
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let ends = clients.iter().map(|client| client.transport().file());
        let mut what: Vec<Interest<'_>> = ends.map(Interest::Read).collect();
        if clients.len() < MOST {
            what.push(Interest::Read(door.file()));
        }
        let ready = ready::wait(&what, None)?;
        let is_asked = ready.contains(&clients.len());
        let all = clients.into_iter().enumerate();
        clients = all
            .filter_map(|(index, client)| match ready.contains(&index) {
                true => answer(client),
                false => Some(client),
            })
            .collect();
        if is_asked {
            match door.accept() {
                Ok(channel) => clients.push(server::start(channel)),
                // It left before it was accepted.
                Err(Error::Broken) => {}
                Err(why) => return Err(why),
            }
        }
    }
}

/// Answers what a client has sent. Returns the conversation, if it continues.
fn answer(client: Client) -> Option<Client> {
    let server::received::Idle::Solve { block, next, .. } = client.receive().ok()? else {
        return None;
    };
    let answered = match Formula::read(&block).map(|formula| solve(&formula)) {
        Ok(Some(values)) => {
            let words: Vec<String> = values.iter().map(i32::to_string).collect();
            next.send_satisfiable(&message::Satisfiable {}, words.join(" ").into_bytes().into())
        }
        Ok(None) => next.send_unsatisfiable(&message::Unsatisfiable {}),
        Err(Invalid { line, why }) => {
            next.send_invalid(&message::Invalid { line, why: Bytes::cut(why.as_bytes()) })
        }
    };
    answered.ok()
}

/// Gives a formula to the solver that serves a name. Returns its answer as
/// [`solve`](sat::solve::solve) does.
pub fn ask(name: &str, text: Vec<u8>) -> Result<Option<Vec<i32>>, String> {
    use client::received::Solving;
    let channel = connect(name, CONTRACT).map_err(|why| match why {
        Errno::NOENT => format!("no solver serves the name {name}; `sat --serve` does"),
        why => format!("{name}: {why}"),
    })?;
    let asked = client::start(channel).send_solve(&message::Solve {}, text.into());
    let answer = asked.and_then(|asked| asked.receive());
    match answer.map_err(|why| format!("the solver {name}: {why}"))? {
        Solving::Unsatisfiable { .. } => Ok(None),
        Solving::Invalid { message, .. } => {
            let why = String::from_utf8_lossy(message.why.as_slice()).into_owned();
            Err(Invalid { line: message.line, why }.to_string())
        }
        Solving::Satisfiable { block, .. } => {
            let text = String::from_utf8_lossy(&block);
            let values: Result<Vec<i32>, _> = text.split_whitespace().map(str::parse).collect();
            values.map(Some).map_err(|_| format!("the solver {name}: its answer is no literals"))
        }
    }
}
