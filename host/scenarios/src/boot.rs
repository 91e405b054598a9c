//! Every board boots to the monitor and answers.

use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use std::time::{Duration, Instant};

/// The prompt comes, `help` works, and every domain is running.
pub fn to_prompt(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let help = rig.ask("main", "help", PATIENCE)?;
    if !help.contains("peers") {
        return Err(Failure::Wrong(format!("help does not list `peers`: {help}")));
    }
    let board = rig.instance.board()?;
    let start = Instant::now();
    loop {
        let states = rig.instance.states(&board);
        if states.len() == board.domains.len() && states.iter().all(|s| s.1 == state::RUNNING) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("domains (epoch, state, deaths): {states:?}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
